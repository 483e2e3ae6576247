/* How early a vertex can start on a device, whatever the schedule (Papadimitriou and Yannakakis, SIAM J.
 * Comput. 19, 1990; here with devices of several speeds, and links). */
#ifndef SHARD_HEADS_TAILS_H
#define SHARD_HEADS_TAILS_H

#include <stdint.h>

#include "common/status.h"
#include "scheduling/simulate.h"
#include "scheduling/units.h"

/* cffi: begin */
/* A time before which each vertex does not start on each device, and one that passes at least from its end
 * there to the end of the schedule.
 *
 * Devices may stand for several: then the diagonal of the bandwidths says how tensors pass between those; it
 * is infinite where a device is just one.
 *
 *   order   in,  nodes elements: a topological order, those that start early first
 *   back    in,  the same backwards: those first that may be last
 *   window  how many of the vertices before one are looked at together, >= 0
 *   reach   how many of the vertices behind one are looked at together for each of its devices; 0: none
 *   start   in and out, nodes * devices elements, vertex by vertex: bounds that are known, 0 at least; then
 *           greater ones, infinite where a vertex may not go
 *   behind  in and out, the same
 *
 * O((window * edges * devices^2 + nodes * devices * window^2) * (1 + devices * reach)) at most, and memory of
 * 16 bytes for nodes * reach * devices^2. Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_heads_tails(const struct shard_system *system, const struct shard_units *units,
                      const int32_t *order, const int32_t *back, int32_t window, int32_t reach, double *start,
                      double *behind);
/* cffi: end */

#endif
