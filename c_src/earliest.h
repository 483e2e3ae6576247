/* How early a vertex can start on a device, whatever the schedule (Papadimitriou and Yannakakis, SIAM J.
 * Comput. 19, 1990; here with devices of several speeds, and links). */
#ifndef SHARD_EARLIEST_H
#define SHARD_EARLIEST_H

#include <stdint.h>

#include "heft.h"
#include "simulate.h"
#include "status.h"

/* cffi: begin */
/* A time before which each vertex does not start on each device.
 *
 * Devices may stand for several: then the diagonal of the bandwidths says how tensors pass between those; it
 * is infinite where a device is just one.
 *
 *   order   in,  nodes elements: a topological order, those that start early first
 *   window  how many of the vertices before one are looked at together, >= 0
 *   start   out, nodes * devices elements, vertex by vertex; infinite where a vertex may not go
 *
 * O(window * edges * devices^2 + nodes * devices * window^2). Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_earliest(const struct shard_system *system, const struct shard_groups *groups, const int32_t *order,
                   int32_t window, double *start);
/* cffi: end */

#endif
