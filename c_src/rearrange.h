/* Improving a partition and its priorities by what the simulation says is critical. */
#ifndef SHARD_REARRANGE_H
#define SHARD_REARRANGE_H

#include <stdint.h>

#include "heft.h"
#include "simulate.h"
#include "status.h"

/* cffi: begin */

/* Try moves one after another: a group of a critical vertex goes to another device that it may use and that
 * has room for all it reads, or changes places in the priorities with what runs before it. A longer makespan
 * is accepted with the probability exp(-difference / temperature).
 *
 *   moves        in,  to try, each a simulation
 *   temperature  in,  at least 0
 *   random       in and out, 1 element: state of the random numbers, any value to begin with
 *   device       in and out, nodes elements: the partition
 *   priority     in and out, nodes elements
 *   makespan     in and out, 1 element: what these take; infinite if not known yet
 *   best_device, best_priority, best_makespan   in and out, the same: the best so far; infinite if there is
 * none yet
 *
 * Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_rearrange(const struct shard_system *system, const struct shard_groups *groups, int64_t moves,
                    double temperature, uint64_t *random, int32_t *device, double *priority, double *makespan,
                    int32_t *best_device, double *best_priority, double *best_makespan);
/* cffi: end */

#endif
