/* Local search on a partition and its priorities that simulates every move. */
#pragma once

#include "scheduling/simulation/simulate.h"
#include "scheduling/units.h"

/* cffi: begin */

/* Try moves one after another. The unit of a critical vertex goes to another device that it may use, or a
 * critical vertex swaps priorities with the vertex that ran before it; if memory is overfull, the makers and
 * readers of the tensors in excess move likewise. A schedule costs its makespan plus `penalty` per unit of
 * time in which a device is overfull (up to twice that if far too much is held); a higher cost is accepted
 * with probability exp(-difference / temperature).
 *
 *   reserved          in,     0: a tensor is held from its arrival until its reader starts; else from its
 *                             departure until its reader has finished
 *   moves             in,     moves to try, each a simulation; temperature, penalty >= 0
 *   random            in/out, 1 element: state of the random numbers, initially any value
 *   device, priority  in/out, nodes elements: the partition
 *   overfull          out,    1 element: the overfull time of the last partition
 *   best_*            in/out, nodes elements: the best partition that is never overfull; best_makespan, 1
 *                             element, is infinite if there is none yet
 * All memory is the caller's. Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_simulated_moves(const struct shard_system *system, const struct shard_units *units,
                          int32_t reserved, int64_t moves, double temperature, double penalty,
                          uint64_t *random, int32_t *device, double *priority, double *overfull,
                          int32_t *best_device, double *best_priority, double *best_makespan);
