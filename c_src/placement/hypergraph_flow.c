/* A net of two nodes is an arc each way; one of more has two vertices of its own. */
#include "placement/hypergraph_flow.h"

/* Join a node to a net: to its other node if the net has two; else to two vertices that are on the source's
 * side if any, and if all, of its nodes are. `other` is the first node of nets that have been met. */
static void join(const struct shard_hypergraph *graph, struct flow *flow, int32_t v, int32_t net,
                 int32_t *vertex, int32_t *other) {
    const int64_t cost = graph->cost[net];
    const bool met = other[net] >= 0;
    if (graph->members[net] == 2) {
        if (met)
            flow_join(flow, other[net], v, cost, cost);
        other[net] = v;
        return;
    }
    if (!met) {
        other[net] = *vertex;
        flow_join(flow, *vertex, *vertex + 1, cost, 0);
        *vertex += 2;
    }
    flow_join(flow, v, other[net], FLOW_INFINITE, 0);
    flow_join(flow, other[net] + 1, v, FLOW_INFINITE, 0);
}

static int32_t vertices(const struct shard_hypergraph *graph) {
    int32_t count = graph->nodes;
    for (int32_t net = 0; net < graph->nets; net++)
        count += graph->members[net] > 2 ? 2 : 0;
    return count;
}

void hypergraph_flow(const struct shard_hypergraph *graph, struct arena *arena, struct flow *flow) {
    int32_t vertex = graph->nodes, *other;
    flow_allocate(flow, arena, vertices(graph), 4 * graph->start[graph->nodes] + 2 * (int64_t)graph->nets);
    ARENA_ARRAYS(arena, graph->nets, other);
    if (arena->failed)
        return;
    memset(other, -1, (size_t)graph->nets * sizeof *other);
    for (int32_t v = 0; v < graph->nodes; v++)
        for (int64_t at = graph->start[v]; at < graph->start[v + 1]; at++)
            join(graph, flow, v, graph->of[at], &vertex, other);
    flow_sort(flow);
}
