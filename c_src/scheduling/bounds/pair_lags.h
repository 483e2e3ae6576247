/* What follows from where one vertex runs: bounds on those behind it, for each of its devices apart. */
#ifndef SHARD_PAIR_LAGS_H
#define SHARD_PAIR_LAGS_H

#include <stdint.h>

#include "scheduling/simulate.h"
#include "scheduling/units.h"

/* Time that passes, in any schedule, from the end of a vertex v to the starts of some behind it.
 *
 *   first   nodes + 1 elements: those behind v are behind[first[v]] .. behind[first[v + 1] - 1]
 *   behind  first[nodes] elements
 *   lag     first[nodes] * devices * devices elements: by the device of v, then that of the other one
 *
 * A lag is infinite where the two devices exclude each other. */
struct pair_lags {
    int64_t *first;
    int32_t *follower;
    double *lag;
};

/* Fill it, from an arena that fails if there is no memory.
 *
 *   order   nodes elements: topological, those that start early first
 *   window  as of `head_bounds_new`
 *   reach   vertices that are looked at together, v included, > 0 */
void pair_lags_fill(struct pair_lags *lags, struct arena *arena, const struct shard_system *system,
                    const struct shard_units *units, const int32_t *order, int32_t window, int32_t reach);

#endif
