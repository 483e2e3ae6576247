/* How far a stage that begins at a position can reach. */
#pragma once

#include "hybrid/positions/node_costs.h"

/* cffi: begin */

/* For each cell, the last one in which a stage may end that begins in this cell or before.
 *
 *   leaving   in,  spans * cells elements: least seconds of transfers to the stages after a stage that begins in the
 *                  cell and spans at least so much
 *   entering  in,  the same: from the stages before a stage that ends in the cell
 *   distance  what no stage spans more than
 *   reach     out, cells elements
 * Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_hybrid_reach(const struct shard_cells *cells, const struct shard_stage_type *type,
                       const double *leaving, const double *entering, int64_t distance, int32_t *reach);
