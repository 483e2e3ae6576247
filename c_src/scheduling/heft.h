/* HEFT: each vertex on the device of earliest finish, possibly in a gap (Topcuoglu et al., TPDS 2002). */
#pragma once

#include "scheduling/simulation/simulate.h"
#include "scheduling/units.h"

/* cffi: begin */

/* Assign vertices one after another; the first vertex of a unit decides for the whole unit. nodes elements
 * each: order, in, topological; device, in/out, -1 everywhere, then the device of each vertex; start, out,
 * the start of each vertex if tensors never wait for links.
 *
 * A unit goes to a device that can hold all inputs read there, if there is one; else to one with the most
 * memory left. Takes O(edges * devices), plus the search for gaps. All memory is the caller's. Returns
 * SHARD_OK or SHARD_NO_MEMORY. */
int shard_heft(const struct shard_system *system, const struct shard_units *units, const int32_t *order,
               int32_t *device, double *start);
