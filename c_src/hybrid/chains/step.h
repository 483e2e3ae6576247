/* Stages for the shortest synchronous batch under 1F1B: every stage takes a microbatch once while the pipeline fills and
 * drains, the slowest one works on all others of its replica, and gradients are synchronised once.
 *
 * As chain.h, but a state also has the sum of the stages' times of one microbatch, the longest repeated time (batch / d
 * - 1 microbatches), and the longest synchronisation. A state dominates another if it uses no more devices and no
 * greater sum of data-parallel degrees, and its sum of times plus what it exceeds the other two by is no greater: then
 * no completion of the other is shorter. */
#pragma once

#include "hybrid/problem.h"

/* cffi: begin */
/* Find the stages of the shortest batch of at most `limit`, or refute that there are any, with a longest repeated time of
 * at most `most_repeated`. If that is less than `least_repeated`, it counts as much: the narrower the range, the more
 * states are dominated.
 *
 * Rounding, parameters and statuses as for shard_hybrid_chain. The batch found is the shortest but for a factor of
 * 1 - max(1e-12, 8 * nodes * 2^-52), unless a choice was left open (SHARD_UNDECIDED). If stopped,
 * `stages` is -1 even if some were found. */
int shard_hybrid_step(const struct shard_hybrid *problem, int64_t ideals, const int64_t *link_start,
                      const int32_t *link_node, const int32_t *link_ideal, const int8_t *border, double limit,
                      double least_repeated, double most_repeated, const int32_t *stop, int32_t *stages,
                      int32_t *stage, int64_t *configuration, int32_t *degree, int32_t *replicas);
