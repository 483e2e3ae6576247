/* Local search for a schedule that fits the memory, which simulates every move (ours). */
#pragma once

#include "scheduling/simulation/simulate.h"
#include "scheduling/units.h"

/* cffi: begin */

/* Try moves until the schedule fits or `moves` are tried. Each device runs its vertices in the order of one
 * sequence of all vertices, so it may wait for a vertex although it could run another one. A move shifts a vertex
 * within the sequence, between what it reads and what reads it, or gives its unit another device; most begin at the
 * maker or the reader of a tensor that overfills memory. A schedule costs, for each device, the integral over time
 * of what exceeds its memory, as a share of the memory and in mean times of a vertex, plus a tenth of the overfull
 * time; a higher cost is accepted with probability exp(-difference / temperature).
 *
 *   reserved  in,     0: a tensor is held from its arrival until its reader starts; else from its departure
 *                     until its reader has finished
 *   moves     in,     moves to try, each a simulation unless no device runs anything in another order;
 *                     temperature >= 0
 *   random    in/out, 1 element: state of the random numbers, initially any value
 *   device    in/out, nodes elements
 *   sequence  in/out, nodes elements: a topological order
 *   excess    out,    1 element: the cost of the last schedule; 0: it fits but for rounding; infinite if tensors
 *                     have no link
 * All memory is the caller's. Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_memory_moves(const struct shard_system *system, const struct shard_units *units, int32_t reserved,
                       int64_t moves, double temperature, uint64_t *random, int32_t *device,
                       int32_t *sequence, double *excess);
/* cffi: end */
