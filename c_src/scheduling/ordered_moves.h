/* Local search for a schedule that fits the memory, unless tensors share links (ours). */
#pragma once

#include "scheduling/units.h"

/* cffi: begin */

/* Try moves until the schedule fits or `moves` are tried, at the costs of `shard_memory_moves`, several times as fast.
 *
 * Each device runs its vertices in the order of one sequence of all vertices. So the tensors of a link depart in the
 * order of the sequence, and one pass over it finds all times without a queue of events. Only devices at which times
 * changed are measured anew, and only until the cost exceeds what is accepted, which is drawn before the move. A move
 * shifts a vertex within the sequence, between what it reads and what reads it, gives its unit another device, or
 * both; most begin at the maker or the reader of a tensor that overfills memory.
 *
 *   system    in,     links are not SHARD_SHARE
 *   reserved  in,     0: a tensor is held from its arrival until its reader starts; else from its departure
 *                     until its reader has finished
 *   moves     in,     moves to try; temperature >= 0
 *   random    in/out, 1 element: state of the random numbers, initially any value
 *   device    in/out, nodes elements
 *   sequence  in/out, nodes elements: a topological order
 *   excess    out,    1 element: the cost of the last schedule; 0: it fits but for rounding; infinite if tensors
 *                     have no link
 * All memory is the caller's. Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_ordered_moves(const struct shard_system *system, const struct shard_units *units, int32_t reserved,
                        int64_t moves, double temperature, uint64_t *random, int32_t *device,
                        int32_t *sequence, double *excess);
/* cffi: end */
