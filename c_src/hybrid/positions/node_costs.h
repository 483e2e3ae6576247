/* Costs of nodes in stages of a type: time and memory in one number, at an exchange rate. */
#pragma once

#include "hybrid/positions/cells.h"

/* Costs are integers relative to what the limits are worth together, rounded down, so that sums are exact. */
#define WORTH ((int64_t)1 << 32)
#define MOST_COST (2 * WORTH) /* of what no stage can hold */

/* cffi: begin */

/* The limits of a stage, relaxed: at each of several exchange rates between time and memory, its transfers and its
 * nodes, each with the configuration that is cheapest at this rate, cost at most what the limits on its time and memory
 * are worth. Arrays are the caller's and only read; all numbers are not negative. */
struct shard_stage_type {
    const int64_t *menu_start; /* nodes + 1 elements: node v has the configurations menu_start[v] .. */
    const double *time;        /* seconds; infinite: not allowed */
    const double *memory;      /* bytes, finite */
    double limit;              /* seconds, positive */
    double room;               /* bytes, positive */
    int32_t rates;
    const double
        *share; /* rates elements, 0 to 1: worth of the limit on time; that on memory is the rest to 1 */
};

/* cffi: end */

/* A non-negative cost, rounded down. */
static inline int64_t to_cost(double value) {
    const double scaled = value * (double)WORTH * (1 - 0x1p-40);
    return scaled < (double)MOST_COST ? (int64_t)scaled : MOST_COST;
}

/* Cost of a number of seconds. */
static inline int64_t cost_of_seconds(const struct shard_stage_type *type, int32_t rate, double seconds) {
    return to_cost(seconds / type->limit * type->share[rate]);
}

/* Costs of all nodes. cost, out, nodes elements. */
void price_nodes(const struct shard_stage_type *type, int32_t rate, int32_t nodes, int64_t *cost);

/* Nodes by ascending cost per price, and working memory; all arrays are owned by the arena, nodes elements. */
struct ranking {
    int32_t *sorted, *rank, *buffer;
    double *ratio;
};

void ranking_init(struct ranking *ranking, struct arena *arena, int32_t nodes);
void rank_nodes(struct ranking *ranking, const struct shard_cells *cells, const int64_t *cost);
