/* The cheapest division of nodes between two processors (Stone, IEEE Transactions on Software Engineering
 * 1977): a minimum cut. */
#pragma once

#include "placement/hypergraph_flow.h"

/* cffi: begin */

/* Divide the nodes between a set, at the costs of `graph`, and the rest, whose nodes cost `apart`.
 *
 *   apart   in,  graph->nodes elements: cost of each node outside the set, not negative; with the costs of all
 *                nets at most 2^50 together
 *   bound   out, 1 element: the least cost; no more if graph->work exceeds 2^50 anywhere
 *   inside  out, graph->nodes elements: 1 for the nodes of the smallest cheapest set, else 0
 * Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_cheapest_pool(const struct shard_hypergraph *graph, const int64_t *apart, int64_t *bound,
                        int8_t *inside);
