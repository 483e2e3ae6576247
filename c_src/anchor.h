/* For each node the cheapest set of nodes that holds it, and the node where that costs most: minimum cuts. */
#ifndef SHARD_ANCHOR_H
#define SHARD_ANCHOR_H

#include <stdint.h>

#include "status.h"

/* cffi: begin */

/* A set of nodes costs the work of its nodes, and the costs of the nets of which it has some nodes and not
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
    int32_t nodes;
    int32_t nets;
    const int64_t *start;
    const int32_t *of;
    const int32_t *members;
    const int64_t *cost;
    const int64_t *work;
};

/* Find the greatest, over the nodes, of what the cheapest set with the node costs, or another price of the
 * node if that is less. Nodes whose price may be greatest come first; the rest is left out as soon as it
 * cannot be.
 *
 *   graph  in
 *   price  in,  nodes elements, 0 to 2^51: what a node costs in another way
 *   stop   in,  1 element: made 1 by another thread, it ends the search soon
 *   most   out, 1 element: the greatest so far; without the end of the search a lower bound on it
 *   cuts   out, 1 element: minimum cuts computed
 *
 * Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_anchor(const struct shard_hypergraph *graph, const int64_t *price, const int32_t *stop,
                 int64_t *most, int64_t *cuts);
/* cffi: end */

#endif
