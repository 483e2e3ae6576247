/* Search of all schedules, from their beginning, moment by moment (ours). */
#pragma once

#include "common/status.h"
#include "scheduling/units.h"

/* cffi: begin */

/* Results of a search of starts. */
enum shard_starts { SHARD_STARTS_OPEN = 0, SHARD_STARTS_NONE = 1, SHARD_STARTS_FOUND = 2 };

/* Search depth first, until a schedule fits the memory, none is left, or the time is over. At each moment each idle
 * device starts one of the vertices that it may start then, or none; a unit is given a device when the first tensor to
 * it departs. A device starts a vertex as soon as it is free and the inputs have arrived, so it may start one only in a
 * moment in which it has become free or the vertex executable. What leaves most memory is tried first.
 *
 *   reserved  as for shard_memory_moves
 *   weight    edges elements, by tail, whole and >= 0, below 2^53 together: what each tensor counts in memory
 *   limit     devices elements: a device must hold less; infinite: no limit
 *   bytes     most memory that the search takes, beside that for one schedule
 *   device    out, nodes elements, if it is found
 *   sequence  out, nodes elements, if it is found: the vertices in the order in which they start
 *   found     out, 1 element, of enum shard_starts. That none is left proves that no schedule fits if each vertex takes
 *             longer than 4 SLACK (`partial.h`) of the longest schedule.
 * All memory is the caller's. Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_start_search(const struct shard_system *system, const struct shard_units *units, int32_t reserved,
                       const double *weight, const double *limit, double seconds, int64_t bytes,
                       int32_t *device, int32_t *sequence, int32_t *found);
/* cffi: end */
