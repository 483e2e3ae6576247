/* Heavy convex sets of nodes by simulated annealing: fast if there are such sets, no proof if there are not. */
#pragma once

#include "pipeline/sets/cheapest_set.h"

/* cffi: begin */

/* Move single nodes into and out of a convex set, to make it heavy while it costs less than `limit`.
 *
 *   weight, need  in,     nodes elements, not negative, at most 2^50 in all; weight that the set needs, >= 1
 *   moves, hot    in,     moves to try; temperature at the first, as a share of the limit, > 0
 *   seed          in,     of the random numbers
 *   member        in/out, nodes elements, 0 or 1: a first convex set; then the heaviest set found
 *   cost          out,    1 element: its cost, `limit` if it weighs too little
 * All memory is the caller's. Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_anneal_set(const struct shard_set_costs *problem, const int64_t *weight, int64_t need,
                     int64_t limit, int64_t moves, double hot, uint64_t seed, int8_t *member, int64_t *cost);
