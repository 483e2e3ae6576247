/* Improving a schedule by taking vertices out of it and putting them back where they do least harm. */
#ifndef SHARD_PATH_MOVES_H
#define SHARD_PATH_MOVES_H

#include <stdint.h>

#include "common/status.h"
#include "scheduling/heft.h"
#include "scheduling/simulate.h"

/* cffi: begin */

/* Try moves one after another on a schedule in which links are independent and memory has no limit, whatever
 * the system says: a group of a vertex on a longest path, sometimes with groups that follow it on the path,
 * leaves its device and joins the device, and there the places, that make the longest path through it
 * shortest. The more a device lengthens that path the less likely it is chosen; and a longer makespan is
 * accepted with the probability exp(-difference / temperature). A vertex that takes less than 1e-13 of the
 * makespan to begin with counts as taking that.
 *
 *   moves        in,  to try
 *   temperature  in,  at least 0
 *   random       in and out, 1 element: state of the random numbers, any value to begin with
 *   device       in and out, nodes elements
 *   order        in and out, nodes elements: the vertices of device 0 as they run, then of device 1, ...
 *
 * `best_device`, `best_order` and `best_makespan`, in and out, are the same of the best so far; infinite if
 * there is none yet.
 *
 * Returns SHARD_OK, SHARD_NO_MEMORY, or SHARD_CYCLE if vertices of the order wait for each other. */
int shard_path_moves(const struct shard_system *system, const struct shard_units *units, int64_t moves,
                     double temperature, uint64_t *random, int32_t *device, int32_t *order,
                     int32_t *best_device, int32_t *best_order, double *best_makespan);
/* cffi: end */

#endif
