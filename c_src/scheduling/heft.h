/* HEFT: each vertex on the device that finishes it earliest, maybe in a gap (Topcuoglu et al., TPDS 2002). */
#pragma once

#include "scheduling/simulate.h"
#include "scheduling/units.h"

/* cffi: begin */

/* Assign vertices one after another; the first one of a unit decides for all of it. order, in, is topological;
 * device, in/out, is -1 everywhere, then the device of each vertex; start, out, is when each vertex starts if
 * tensors never wait for links: nodes elements each.
 *
 * A unit goes to a device that can hold all that is read there, if there is one; else to one with most memory
 * left. O(edges * devices), and the search for gaps. All memory is the caller's. Returns SHARD_OK or
 * SHARD_NO_MEMORY. */
int shard_heft(const struct shard_system *system, const struct shard_units *units, const int32_t *order,
               int32_t *device, double *start);
