/* List scheduling in which each tensor reserves memory where it is read before it is made (ours). */
#pragma once

#include "scheduling/simulation/simulate.h"
#include "scheduling/units.h"

/* cffi: begin */

/* Start vertices one after another, each at the end of its device's order. The device of a vertex is chosen
 * when the first of its inputs is made, so memory is known at every moment: a vertex starts only if all that
 * it makes fits where it will be read, from its arrival on. If it would not fit, but a vertex that it makes
 * executable could start then and there and so make room, both start. If nothing fits, the first vertex
 * starts nevertheless.
 *
 * Vertices that may start are tried by `priority`, greatest first, less `live` times the share of all memory by
 * which what they make exceeds what they read. A reader goes to the device with the least sum of two costs: the
 * share of memory promised to readers, with any excess counted ten times more; and `early` times the end of the
 * reader, in mean times of a vertex, if its other inputs are there. Shared links are treated as queues.
 *
 *   reserved  in,  0: a tensor is held from its arrival until its reader starts; else from its departure
 *                  until its reader has finished
 *   priority  in,  nodes elements
 *   device    out, nodes elements
 *   sequence  out, nodes elements: a topological order, in which each device runs its vertices
 * All memory is the caller's. Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_reserving_list(const struct shard_system *system, const struct shard_units *units, int32_t reserved,
                         const double *priority, double live, double early, int32_t *device,
                         int32_t *sequence);
/* cffi: end */
