/* For each node, the cheapest set of nodes that holds it, by minimum cuts. */
#pragma once

#include "common/status.h"

/* cffi: begin */

/* A set of nodes costs the work of its nodes plus the costs of the nets of which it has some nodes, but not
 * all.
 *
 *   start    nodes + 1 elements: node v is on the nets of[start[v] .. start[v + 1] - 1], each once
 *   of       start[nodes] elements
 *   members  nets elements: number of nodes, at least 2
 *   cost     nets elements, not negative
 *   work     nodes elements: not negative, or -1 for a node that no set may have
 *
 * All costs and work together are at most 2^50. All arrays are read only. */
struct shard_hypergraph {
    int32_t nodes, nets;
    const int64_t *start;
    const int32_t *of, *members;
    const int64_t *cost, *work;
};

/* Find, for each node, the cost of the cheapest set that holds it, if that is more than `floor`. Nodes whose
 * least cost so far, alone or in a set found, is greatest come first.
 *
 *   stop   in,  1 element: the search ends soon after another thread sets it to 1
 *   least  out, nodes elements: the cost; 0 if it is at most `floor`, if no set may have the node, or if the
 *               search was stopped before it was known
 *   cuts   out, 1 element: minimum cuts computed
 * Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_cheapest_with(const struct shard_hypergraph *graph, int64_t floor, const int32_t *stop,
                        int64_t *least, int64_t *cuts);
