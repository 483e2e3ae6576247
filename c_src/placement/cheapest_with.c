/* One network for all nodes: capacities are restored before the next node is tied to the source. */
#include "placement/cheapest_with.h"

#include "common/stop.h"

struct search {
    struct arena arena;
    const struct shard_hypergraph *graph;
    struct flow flow;
    int64_t *left;   /* arcs: capacities */
    int64_t *excess; /* vertices: minus the capacity to the sink */
    int64_t *upper;  /* nodes: upper bound on the least cost; 0 if it is known, or there is no set */
    bool *side;      /* vertices */
};

/* The cost of the node alone; 0 if no set may have it. */
static int64_t alone(const struct shard_hypergraph *graph, int32_t v) {
    int64_t cost = graph->work[v];
    for (int64_t at = graph->start[v]; at < graph->start[v + 1]; at++)
        cost += graph->cost[graph->of[at]];
    return graph->work[v] < 0 ? 0 : cost;
}

static int build(struct search *s) {
    const struct shard_hypergraph *graph = s->graph;
    hypergraph_flow(graph, &s->arena, &s->flow);
    ARENA_ARRAYS(&s->arena, graph->nodes, s->upper);
    ARENA_ARRAYS(&s->arena, s->flow.vertices, s->side, s->excess);
    ARENA_ARRAYS(&s->arena, s->flow.arcs, s->left);
    if (s->arena.failed)
        return SHARD_NO_MEMORY;
    for (int32_t v = 0; v < graph->nodes; v++) {
        s->upper[v] = alone(graph, v);
        s->flow.excess[v] = graph->work[v] < 0 ? -FLOW_INFINITE : -graph->work[v];
    }
    memcpy(s->left, s->flow.left, (size_t)s->flow.arcs * sizeof *s->left);
    memcpy(s->excess, s->flow.excess, (size_t)s->flow.vertices * sizeof *s->excess);
    return SHARD_OK;
}

/* The cost of the cheapest set that holds the node, which bounds the least cost of all nodes of that set. */
static int64_t cheapest(struct search *s, int32_t v) {
    struct flow *flow = &s->flow;
    memcpy(flow->left, s->left, (size_t)flow->arcs * sizeof *s->left);
    memcpy(flow->excess, s->excess, (size_t)flow->vertices * sizeof *s->excess);
    flow->excess[v] += FLOW_INFINITE;
    flow_run(flow);
    const int64_t cost = FLOW_INFINITE - flow->excess[v];
    flow_least_side(flow, s->side);
    for (int32_t u = 0; u < s->graph->nodes; u++)
        if (s->side[u] && s->upper[u] > cost)
            s->upper[u] = cost;
    return cost;
}

/* The remaining node with the greatest upper bound above the floor; -1 for none. */
static int32_t next(const struct search *s, int64_t floor) {
    int32_t best = -1;
    for (int32_t v = 0; v < s->graph->nodes; v++)
        if (s->upper[v] > (best < 0 ? floor : s->upper[best]))
            best = v;
    return best;
}

static void search(struct search *s, int64_t floor, const int32_t *stop, int64_t *least, int64_t *cuts) {
    *cuts = 0;
    memset(least, 0, (size_t)s->graph->nodes * sizeof *least);
    for (int32_t v = next(s, floor); v >= 0 && !is_stopped(stop); v = next(s, floor)) {
        const int64_t cost = cheapest(s, v);
        least[v] = cost > floor ? cost : 0;
        s->upper[v] = 0;
        ++*cuts;
    }
}

int shard_cheapest_with(const struct shard_hypergraph *graph, int64_t floor, const int32_t *stop,
                        int64_t *least, int64_t *cuts) {
    struct search s = {.graph = graph};
    const int status = build(&s);
    if (status == SHARD_OK)
        search(&s, floor, stop, least, cuts);
    arena_free(&s.arena);
    return status;
}
