/* The sets of nodes of the last stages: how they grow, and what the nodes before them need at least. */
#pragma once

#include "hybrid/stage.h"

/* The ideals of the problem's graph, as shard_list_ideals gives them. */
struct ideals {
    int64_t count;
    const int64_t *link_start;
    const int32_t *link_node, *link_ideal;
    const int8_t *border; /* count elements: 0 if no stage may begin or end there; NULL: everywhere */
};

/* All arrays are owned by the arena; [i] is an ideal. */
struct suffixes {
    struct ideals ideals;
    int64_t *up_start; /* count + 1 elements: ideal i grows by up_node[up_start[i]] .., ascending, */
    int32_t *up_node;  /* as many as links */
    int32_t *up_ideal; /* to these */
    int128 *node_work; /* [node]: its least t * time */
    int128 *work;      /* [i]: the sum of that over the nodes before */
    int128 *time;      /* [i]: sum of their least times */
    double
        *stashed; /* [i]: sum of the least bytes per microbatch in flight of the nodes before, over memory */
    double *device_stashed; /* [i]: the same, each times t */
    double *growth;         /* [i]: by how much the sum of data-parallel degrees at least grows, relatively */
    int64_t *
        least_degree; /* [i]: the greatest least tensor-parallel degree of the nodes before; 0: there are none */
};

/* Allocate and fill; false if a node has no configuration that fits a device. */
bool suffixes_init(struct suffixes *suffixes, struct arena *arena, const struct costs *costs,
                   struct ideals ideals);

/* Prepare an empty stage to grow from an ideal: the places of all nodes, and the work before. */
void mark_after(const struct suffixes *suffixes, struct stage *stage, int32_t ideal);

/* True if the nodes before an ideal may be put on what k devices and a sum of s of the stages in it leave. Let a be the
 * bytes per microbatch in flight of a stage, over the memory: a y <= 1 and d y >= s' for the sum s' that includes it,
 * so d >= a s'. Hence the sum grows by a factor of 1 / (1 - a) >= exp(a) with each stage, and devices by at least as
 * much. `work_devices` is the least number of devices by work. */
static inline bool may_complete(const struct suffixes *suffixes, const struct shard_hybrid *problem,
                                int32_t ideal, int64_t k, int64_t s, int64_t work_devices) {
    const int64_t least = suffixes->least_degree[ideal];
    if (!least)
        return k <= problem->devices && s <= problem->batch;
    const double held = (double)(s + 1) * (1 - 1e-9);
    const double more = (double)s * suffixes->growth[ideal];
    return k + (work_devices > least ? work_devices : least) <= problem->devices && s + 1 <= problem->batch &&
           (double)k + held * suffixes->device_stashed[ideal] <= (double)problem->devices &&
           (double)k + more <= (double)problem->devices && (double)s + more <= (double)problem->batch;
}
