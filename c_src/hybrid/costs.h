/* Costs of configurations as fixed-point numbers relative to a limit on time. */
#pragma once

#include "common/arena.h"
#include "hybrid/fixed_point.h"
#include "hybrid/problem.h"

/* What stages are measured by. */
enum measure {
    PER_SAMPLE, /* d times the time per microbatch: work, transfers, gathering, and a share of the synchronisation */
    ONE_PASS /* time of one microbatch on one replica; synchronisation counts by itself */
};

/* All arrays are owned by the arena. Index c is a configuration, d one of the `replica_counts`. */
struct costs {
    const struct shard_hybrid *problem;
    int32_t counts; /* = problem->replica_counts */
    int64_t configurations;
    int128 limit;         /* of time, 2^LIMIT_BITS */
    int128 room;          /* of memory */
    int128 *time;         /* [c] */
    int128 *alone;        /* [c]: time plus the transfers of all ends of its node */
    int128 *moved;        /* like problem->moved: seconds, both ways */
    int128 *stashed;      /* [c] */
    int128 *extra;        /* [c * counts + d]: time that depends on the number of replicas */
    int128 *kept;         /* [c * counts + d]: memory that does not depend on microbatches in flight */
    int128 *synchronised; /* [c * counts + d]: seconds per batch; NULL for PER_SAMPLE */
    int64_t *menu_start;  /* nodes * degrees + 1 elements: of those in `menu` */
    int32_t *menu;        /* configurations that fit a device alone */
    uint8_t *uniform;     /* [end * degrees + t]: all in the menu move the same through this end */
    bool *alike;          /* [node * degrees + t]: all in the menu have the same synchronised parameters */
};

/* Allocate and fill. Times are scaled by 2^LIMIT_BITS / limit; an infinite or zero limit is not allowed. */
void costs_init(struct costs *costs, struct arena *arena, const struct shard_hybrid *problem, double limit,
                enum measure measure);

/* The configurations of a node for a degree that fit a device alone. */
struct menu {
    const int32_t *configuration;
    int64_t count;
};

static inline struct menu menu_of(const struct costs *costs, int32_t v, int32_t t) {
    const int64_t at = (int64_t)v * costs->problem->degrees + t;
    return (struct menu){costs->menu + costs->menu_start[at],
                         costs->menu_start[at + 1] - costs->menu_start[at]};
}
