/* Pair lags: least times between two vertices, for each pair of their devices. */
#pragma once

#include "scheduling/simulation/simulate.h"
#include "scheduling/units.h"

/* Lower bounds on the time from the end of a vertex v to the start of a later vertex. The arena owns the
 * arrays.
 *
 *   first     nodes + 1 elements: the vertices after v are follower[first[v]] .. follower[first[v + 1] - 1]
 *   follower  first[nodes] elements
 *   lag       first[nodes] * devices * devices elements: by the device of v, then by that of the follower
 *
 * A lag is infinite if the two devices exclude each other. */
struct pair_lags {
    int64_t *first;
    int32_t *follower;
    double *lag;
};

/* Compute all lags in an arena, which fails if there is no memory. order, in, nodes elements: topological,
 * vertices that start early first; ancestors, branches: as in head_bounds_new; reach: vertices of a subproblem, its
 * first one included; 0: no lags. */
void pair_lags_fill(struct pair_lags *lags, struct arena *arena, const struct shard_system *system,
                    const struct shard_units *units, const int32_t *order, int32_t ancestors, int32_t reach,
                    int32_t branches);
