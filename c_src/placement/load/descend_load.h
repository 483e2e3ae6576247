/* Steepest descent of the greatest load of a placement. */
#pragma once

#include "placement/load/load_model.h"

/* cffi: begin */

/* Repeatedly make the move of one node to another accelerator that minimises the greatest load, while that
 * lowers it and at most `steps` times; the model has one pass, no clusters and no order.
 *
 *   device  in/out, devices->nodes elements: an allowed placement; nodes on CPUs stay there
 *   cost    out,    1 element: its greatest load
 *   made    out,    1 element: moves made; fewer than `steps` only if no move lowers the load
 * O(pins * accelerators) per move. Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_descend_load(const struct shard_devices *devices, const struct shard_load_model *model,
                       int64_t steps, int32_t *device, double *cost, int64_t *made);
