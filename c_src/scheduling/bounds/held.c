/* Arcs of infinite capacity lead from each vertex to what has started or finished if it has. */
#include "scheduling/bounds/held.h"

void held_lay_out(struct flow *flow, const struct shard_system *system, const struct shard_held *held,
                  int64_t *capacity) {
    const int64_t whole = held->whole;
    const bool two = held->layers == 2;
    for (int32_t v = 0; v < system->nodes && two; v++) /* the arc added as number 2 v has the price of v */
        flow_join(flow, held_started(system, held, v), v, 0, whole);
    for (int32_t u = 0; u < system->nodes; u++) {
        for (int64_t e = system->out_start[u]; e < system->out_start[u + 1]; e++) {
            const int32_t v = system->out_head[e];
            flow_join(flow, u, held_started(system, held, v), held->parts[e], two ? 0 : whole);
            if (two) {
                flow_join(flow, v, u, whole, 0);
                flow_join(flow, held_started(system, held, v), held_started(system, held, u), whole, 0);
            }
        }
    }
    flow_sort(flow);
    memcpy(capacity, flow->left, (size_t)flow->arcs * sizeof *capacity);
}

void held_set_prices(const struct flow *flow, const struct shard_system *system,
                     const struct shard_held *held, int32_t cut, int64_t *capacity) {
    for (int32_t v = 0; v < system->nodes && held->layers == 2; v++)
        capacity[flow->place[2 * v]] = held->prices[(size_t)cut * (size_t)system->nodes + (size_t)v];
}
