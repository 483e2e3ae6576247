/* The times of a schedule whose devices run their vertices in the order of one sequence, and what exceeds memory. */
#pragma once

#include "scheduling/units.h"

/* The times of a schedule, its costs by device, and the inputs that overfill memory. */
struct ordered_schedule {
    double *start, *finish; /* nodes elements */
    double *arrival;        /* edges elements, as inputs */
    double *cost;           /* devices elements */
    int64_t *input;         /* edges elements: those of device d begin at room[d] */
    int64_t *room, *inputs; /* devices + 1 elements: places in `input`, and the numbers of inputs there */
};

/* A tensor that a device begins to hold. */
struct taken {
    double time, size;
    int64_t input;
};

/* The inputs of a vertex, which a device releases together. */
struct released {
    double time, size;
    int64_t tensors;
};

/* Workspace. All arrays are owned by the arena. */
struct ordered_times {
    const struct shard_system *system;
    const struct shard_units *units;
    bool reserved;
    double mean_time;          /* of a vertex on a mean device */
    int64_t *input_at;         /* edges elements: place of each edge among the inputs */
    double *free_at;           /* devices elements */
    double *link_free;         /* devices * devices elements, if tensors queue */
    int32_t *order;            /* nodes elements: vertices by device, as they run */
    int64_t *first;            /* devices + 1 elements: the vertices of each device in `order` */
    struct taken *taken;       /* edges elements: what a device takes */
    struct released *released; /* nodes elements: what it releases */
    bool *changed; /* devices elements: times at the device differ from those of the accepted schedule */
    struct ordered_schedule accepted, tried;
};

/* Allocate from an arena, which fails if there is no memory; links are not SHARD_SHARE. */
void ordered_times_allocate(struct ordered_times *times, struct arena *arena,
                            const struct shard_system *system, const struct shard_units *units,
                            bool reserved);

/* Find the times and the cost of a schedule, which becomes `tried`. Devices whose times are those of the accepted
 * schedule keep their cost, unless `anew`; devices `one` and `two` are measured first. Returns a number above `allowed`
 * once the cost is known to exceed it; infinite if a tensor has no link. */
double ordered_times_try(struct ordered_times *times, const int32_t *device, const int32_t *sequence,
                         int32_t one, int32_t two, double allowed, bool anew);

/* Accept the schedule tried last, whose cost was at most what was allowed. */
static inline void ordered_times_accept(struct ordered_times *times) {
    const struct ordered_schedule accepted = times->accepted;
    times->accepted = times->tried;
    times->tried = accepted;
}
