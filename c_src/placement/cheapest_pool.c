/* The source's side is the set. By weak duality the bound holds whatever flow is found. */
#include "placement/cheapest_pool.h"

/* Put nodes on terminals: a node costs its work if it is on the source's side, and `apart` if on the sink's. */
static void tie(const struct shard_hypergraph *graph, const int64_t *apart, struct flow *flow) {
    for (int32_t v = 0; v < graph->nodes; v++)
        flow->excess[v] = graph->work[v] < 0 ? -FLOW_INFINITE : apart[v] - graph->work[v];
}

/* The total cost of all nodes on the sink's side, minus the excess that the flow could not send there. */
static int64_t sent(const struct shard_hypergraph *graph, const int64_t *apart, const struct flow *flow) {
    int64_t sum = 0;
    for (int32_t v = 0; v < graph->nodes; v++)
        sum += apart[v] - (flow->excess[v] > 0 ? flow->excess[v] : 0);
    return sum;
}

int shard_cheapest_pool(const struct shard_hypergraph *graph, const int64_t *apart, int64_t *bound,
                        int8_t *inside) {
    struct arena arena = {0};
    struct flow flow;
    bool *side;
    hypergraph_flow(graph, &arena, &flow);
    ARENA_ARRAYS(&arena, flow.vertices, side);
    const int status = arena_status(&arena);
    if (status == SHARD_OK) {
        tie(graph, apart, &flow);
        flow_run(&flow);
        flow_least_side(&flow, side);
        *bound = sent(graph, apart, &flow);
        for (int32_t v = 0; v < graph->nodes; v++)
            inside[v] = side[v];
    }
    arena_free(&arena);
    return status;
}
