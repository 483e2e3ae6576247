/* Finds when the devices of a simulated schedule hold more than their memory, and which inputs begin that. */
#pragma once

#include "scheduling/simulation/simulate.h"
#include "scheduling/units.h"

/* A change of the memory that a device holds. */
struct holding {
    double time, change;
    int64_t input; /* its place in the order of `in_tail` */
};

/* A time in which a device holds `held`, its memory or more. */
struct overfull_time {
    double duration, held;
    int32_t device;
};

/* Workspace, and what the last measurement found. */
struct overfull {
    const struct shard_system *system;
    const struct shard_units *units;
    bool reserved;
    struct holding *change;
    size_t *first, *count; /* devices elements: the part of `change` of each */
    int64_t *edge_at;      /* edges elements: by place of an input in `in_tail`, its place by tail */
    struct overfull_time *time;
    size_t times;
    int64_t *input; /* edges elements: inputs that begin overfull times */
    int64_t inputs;
};

/* Allocate from an arena, which fails if there is no memory, and index the inputs; `reserved` as for
 * `shard_memory_moves`. */
void overfull_allocate(struct overfull *overfull, struct arena *arena, const struct shard_system *system,
                       const struct shard_units *units, bool reserved);

/* List the overfull times of a schedule, by device and ascending, and the inputs that begin them; `began` are the
 * vertices as they start. A tensor is released slightly early, so that rounding does not count it together with one
 * that arrives at that time. Until a sum exceeds the memory, its error is a small share of the memory, as a tensor
 * that fits no device counts as overfull: rounding matters only at the limit. */
void overfull_measure(struct overfull *overfull, const int32_t *device, const int32_t *began,
                      const double *start, const double *finish, const double *arrival);
