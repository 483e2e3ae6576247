/* Hypergraphs of nodes and nets, and the networks whose cuts are the costs of sets of nodes. */
#pragma once

#include "common/flow.h"
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
 * All arrays are read only. */
struct shard_hypergraph {
    int32_t nodes, nets;
    const int64_t *start;
    const int32_t *of, *members;
    const int64_t *cost, *work;
};
/* cffi: end */

/* Allocate a network from an arena, which fails if there is no memory. It cuts a net, at its cost, if some but not
 * all of its nodes are on the source's side. Vertices 0 .. nodes - 1 are the nodes; the caller adds the terminals.
 * */
void hypergraph_flow(const struct shard_hypergraph *graph, struct arena *arena, struct flow *flow);
