/* Inputs of vertices, units (the sets of vertices that must share a device), and how searches draw devices for them. */
#pragma once

#include "common/random.h"
#include "scheduling/simulation/simulate.h"

/* cffi: begin */

/* Inputs and units of a system. All arrays are the caller's and are only read. */
struct shard_units {
    const int64_t *in_start; /* nodes + 1 elements: inputs of v are in_start[v] .. in_start[v + 1] - 1 */
    const int32_t *in_tail;  /* edges elements: the vertex that makes each input */
    const double *in_size;   /* edges elements: size of each input */
    const int32_t *unit;     /* nodes elements: the unit of each vertex */
    const int32_t *choice;   /* units elements: number of the set of devices that a unit may use; -1: any */
    const int64_t *choice_start;  /* sets + 1 elements: set i is choice_start[i] .. choice_start[i + 1] - 1 */
    const int32_t *choice_device; /* choice_start[sets] elements */
    const double *need;           /* units elements: summed sizes of all inputs of a unit */
    const double *memory;         /* devices elements: a device must hold less than this */
};
/* cffi: end */

/* The devices that a unit may use: `count` of a list, or all if it is NULL. */
struct device_set {
    const int32_t *list;
    int32_t count;
};

static inline struct device_set devices_of(const struct shard_system *system, const struct shard_units *units,
                                           int32_t unit) {
    const int32_t number = units->choice[unit];
    if (number < 0)
        return (struct device_set){0, system->devices};
    const int64_t start = units->choice_start[number];
    return (struct device_set){units->choice_device + start,
                               (int32_t)(units->choice_start[number + 1] - start)};
}

static inline int32_t device_at(struct device_set set, int32_t i) {
    return set.list ? set.list[i] : i;
}

/* List vertices by unit: unit u has those at start[u] .. start[u + 1] - 1 of `member`, out, nodes elements.
 * start, out, nodes + 2 elements, initially 0. */
static inline void list_members(int32_t nodes, const int32_t *unit, int64_t *start, int32_t *member) {
    for (int32_t v = 0; v < nodes; v++)
        start[unit[v] + 2]++;
    for (int32_t u = 0; u < nodes; u++)
        start[u + 1] += start[u];
    for (int32_t v = 0; v < nodes; v++)
        member[start[unit[v] + 1]++] = v;
}

/* Number of inputs and outputs of v. */
static inline int32_t degree(const struct shard_system *system, const struct shard_units *units, int32_t v) {
    return (int32_t)(units->in_start[v + 1] - units->in_start[v] + system->out_start[v + 1] -
                     system->out_start[v]);
}

/* Draw the maker of an input of v, or a reader of v; its degree is > 0. */
static inline int32_t draw_neighbour(struct random *random, const struct shard_system *system,
                                     const struct shard_units *units, int32_t v) {
    const int64_t inputs = units->in_start[v + 1] - units->in_start[v];
    const int64_t at = random_below(random, degree(system, units, v));
    return at < inputs ? units->in_tail[units->in_start[v] + at]
                       : system->out_head[system->out_start[v] + at - inputs];
}

/* Draw a device of a set other than `from`; -1 if four draws find none. */
static inline int32_t draw_other_device(struct random *random, struct device_set set, int32_t from) {
    for (int tries = 0; tries < 4; tries++) {
        const int32_t d = device_at(set, random_below(random, set.count));
        if (d != from)
            return d;
    }
    return -1;
}
