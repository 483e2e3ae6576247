/* One network for all nodes: capacities are put back before the next one is tied to the source. */
#include "placement/cheapest_with.h"

#include "common/flow.h"
#include "common/stop.h"

struct anchoring {
    struct arena arena;
    const struct shard_hypergraph *graph;
    struct flow flow;
    int64_t *left;   /* arcs: capacities */
    int64_t *excess; /* vertices: less what goes to the sink */
    int64_t *upper;  /* nodes: what the cheapest set costs at most; 0 where that is known, or there is none */
    bool *side;      /* vertices */
};

/* Join the node to a net: to its other node, if it has two; else to two vertices that are on the source's
 * side if any, and if all, of its nodes are. `other` is the first node of nets that have been met. */
static void join(struct anchoring *a, int32_t v, int32_t net, int32_t *vertex, int32_t *other) {
    const int64_t cost = a->graph->cost[net];
    const bool met = other[net] >= 0;
    if (a->graph->members[net] == 2) {
        if (met)
            flow_join(&a->flow, other[net], v, cost, cost);
        other[net] = v;
        return;
    }
    if (!met) {
        other[net] = *vertex;
        flow_join(&a->flow, *vertex, *vertex + 1, cost, 0);
        *vertex += 2;
    }
    flow_join(&a->flow, v, other[net], FLOW_INFINITE, 0);
    flow_join(&a->flow, other[net] + 1, v, FLOW_INFINITE, 0);
}

static int32_t vertices(const struct shard_hypergraph *graph) {
    int32_t count = graph->nodes;
    for (int32_t net = 0; net < graph->nets; net++)
        count += graph->members[net] > 2 ? 2 : 0;
    return count;
}

/* What a set costs that is the node alone; 0 if there is no such set. */
static int64_t alone(const struct shard_hypergraph *graph, int32_t v) {
    int64_t cost = graph->work[v];
    for (int64_t at = graph->start[v]; at < graph->start[v + 1]; at++)
        cost += graph->cost[graph->of[at]];
    return graph->work[v] < 0 ? 0 : cost;
}

static int build(struct anchoring *a) {
    const struct shard_hypergraph *graph = a->graph;
    const int32_t count = vertices(graph);
    const int64_t arcs = 4 * graph->start[graph->nodes] + 2 * (int64_t)graph->nets;
    int32_t *other;
    flow_allocate(&a->flow, &a->arena, count, arcs);
    ARENA_ARRAYS(&a->arena, graph->nets, other);
    ARENA_ARRAYS(&a->arena, graph->nodes, a->upper);
    ARENA_ARRAYS(&a->arena, count, a->side, a->excess);
    ARENA_ARRAYS(&a->arena, arcs, a->left);
    if (a->arena.failed)
        return SHARD_NO_MEMORY;
    int32_t vertex = graph->nodes;
    memset(other, -1, (size_t)graph->nets * sizeof *other);
    for (int32_t v = 0; v < graph->nodes; v++) {
        a->upper[v] = alone(graph, v);
        a->flow.excess[v] = graph->work[v] < 0 ? -FLOW_INFINITE : -graph->work[v];
        for (int64_t at = graph->start[v]; at < graph->start[v + 1]; at++)
            join(a, v, graph->of[at], &vertex, other);
    }
    memcpy(a->left, a->flow.left, (size_t)a->flow.arcs * sizeof *a->left);
    memcpy(a->excess, a->flow.excess, (size_t)count * sizeof *a->excess);
    return SHARD_OK;
}

/* The cost of the cheapest set that holds the node; all nodes of that set know it from then on. */
static int64_t cheapest(struct anchoring *a, int32_t v) {
    struct flow *flow = &a->flow;
    memcpy(flow->left, a->left, (size_t)flow->arcs * sizeof *a->left);
    memcpy(flow->excess, a->excess, (size_t)flow->vertices * sizeof *a->excess);
    flow->excess[v] += FLOW_INFINITE;
    flow_run(flow);
    const int64_t cost = FLOW_INFINITE - flow->excess[v];
    flow_least_side(flow, a->side);
    for (int32_t u = 0; u < a->graph->nodes; u++)
        if (a->side[u] && a->upper[u] > cost)
            a->upper[u] = cost;
    return cost;
}

/* The node not done whose cheapest set may cost most, and more than the floor; -1 for none. */
static int32_t next(const struct anchoring *a, int64_t floor) {
    int32_t best = -1;
    for (int32_t v = 0; v < a->graph->nodes; v++)
        if (a->upper[v] > (best < 0 ? floor : a->upper[best]))
            best = v;
    return best;
}

static void search(struct anchoring *a, int64_t floor, const int32_t *stop, int64_t *least, int64_t *cuts) {
    *cuts = 0;
    memset(least, 0, (size_t)a->graph->nodes * sizeof *least);
    for (int32_t v = next(a, floor); v >= 0 && !is_stopped(stop); v = next(a, floor)) {
        const int64_t cost = cheapest(a, v);
        least[v] = cost > floor ? cost : 0;
        a->upper[v] = 0;
        ++*cuts;
    }
}

int shard_cheapest_with(const struct shard_hypergraph *graph, int64_t floor, const int32_t *stop,
                        int64_t *least, int64_t *cuts) {
    struct anchoring a = {.graph = graph};
    const int status = build(&a);
    if (status == SHARD_OK)
        search(&a, floor, stop, least, cuts);
    arena_free(&a.arena);
    return status;
}
