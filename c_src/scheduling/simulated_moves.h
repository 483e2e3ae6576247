/* Improving a partition and its priorities by what the simulation says is critical. */
#ifndef SHARD_SIMULATED_MOVES_H
#define SHARD_SIMULATED_MOVES_H

#include <stdint.h>

#include "common/status.h"
#include "scheduling/simulate.h"
#include "scheduling/units.h"

/* cffi: begin */

/* Try moves one after another: a group of a critical vertex goes to another device that it may use, or
 * changes places in the priorities with what runs before it; where memory is overfull, so do readers and
 * makers of what is too much there. A schedule costs its makespan and, for the time for which devices are
 * overfull, `penalty` times that, at most twice as much where far too much is held; one that costs more is
 * accepted with the probability exp(-difference / temperature).
 *
 *   reserved     in,  whether tensors are held from their departure until their readers have finished, else
 *                     from their arrival until these start
 *   moves        in,  to try, each a simulation
 *   temperature  in,  at least 0
 *   penalty      in,  at least 0
 *   random       in and out, 1 element: state of the random numbers, any value to begin with
 *   device       in and out, nodes elements: the partition
 *   priority     in and out, nodes elements
 *   overfull     out, 1 element: the time that these are to be punished for
 *
 * `best_device`, `best_priority` and `best_makespan`, in and out, are those of the best so far that is never
 * overfull; infinite if there is none yet.
 *
 * Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_simulated_moves(const struct shard_system *system, const struct shard_units *units,
                          int32_t reserved, int64_t moves, double temperature, double penalty,
                          uint64_t *random, int32_t *device, double *priority, double *overfull,
                          int32_t *best_device, double *best_priority, double *best_makespan);
/* cffi: end */

#endif
