/* For each node, the cheapest set of nodes that holds it, by minimum cuts. */
#pragma once

#include "placement/hypergraph_flow.h"

/* cffi: begin */

/* Find, for each node, the cost of the cheapest set that holds it, if that is more than `floor`. Nodes whose
 * least cost so far, alone or in a set found, is greatest come first. All costs and work together are at
 * most 2^50.
 *
 *   stop   in,  1 element: the search ends soon after another thread sets it to 1
 *   least  out, nodes elements: the cost; 0 if it is at most `floor`, if no set may have the node, or if the
 *               search was stopped before it was known
 *   cuts   out, 1 element: minimum cuts computed
 * Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_cheapest_with(const struct shard_hypergraph *graph, int64_t floor, const int32_t *stop,
                        int64_t *least, int64_t *cuts);
