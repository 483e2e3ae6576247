/* The network whose minimum cuts are what is held between vertices that have finished and those that have not started. */
#pragma once

#include "common/flow.h"
#include "scheduling/simulation/simulate.h"

/* cffi: begin */

/* Tensors that are held between the vertices that have finished and those that have not started.
 *
 *   layers  1: a vertex has finished or has not started; 2: it may also have started and not finished
 *   parts   edges elements, by tail: what each tensor counts, >= 0
 *   cuts    number of cuts that are tried
 *   prices  cuts * nodes elements, >= 0, with 2 layers: what a vertex between the layers costs in each cut
 *   enough  cuts elements, > 0: a minimum cut of that much shows that memory overflows
 *   whole   more than all parts and each price, at most 2^44
 *
 * All arrays are the caller's and are only read. */
struct shard_held {
    int32_t layers, cuts;
    const int64_t *parts, *prices, *enough;
    int64_t whole;
};
/* cffi: end */

/* The vertex of the network that says whether v has started. Vertex v itself says whether it has finished. */
static inline int32_t held_started(const struct shard_system *system, const struct shard_held *held,
                                   int32_t v) {
    return held->layers == 2 ? system->nodes + v : v;
}

/* The vertices of the network, and its arcs. */
static inline int32_t held_vertices(const struct shard_system *system, const struct shard_held *held) {
    return held->layers * system->nodes;
}
static inline int64_t held_arcs(const struct shard_system *system, const struct shard_held *held) {
    const int64_t n = system->nodes, m = system->out_start[n];
    return held->layers == 2 ? 2 * n + 6 * m : 2 * m;
}

/* Lay the network out, all prices 0, and copy the capacities of its arcs. flow, out: allocated for it; capacity, out. */
void held_lay_out(struct flow *flow, const struct shard_system *system, const struct shard_held *held,
                  int64_t *capacity);

/* Set the prices of a cut; with 1 layer there are none. capacity, in/out. */
void held_set_prices(const struct flow *flow, const struct shard_system *system,
                     const struct shard_held *held, int32_t cut, int64_t *capacity);
