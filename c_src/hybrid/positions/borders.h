/* The least transfers between a stage and those before or after it. */
#pragma once

#include "hybrid/positions/cells.h"

/* cffi: begin */

/* For each cell and span, the least seconds of transfers on the border of an ideal in the cell: a minimum cut.
 *
 *   edges, tail, head  in,  edges of the reversed graph, in the numbers of the cells' nodes
 *   certain_from       in,  nodes elements: the least position of an ideal that must have the node
 *   certain_until      in,  the same: the greatest position of an ideal that cannot have it
 *   leaving_seconds    in,  edges elements: seconds of a stage that has the head, but not the tail
 *   entering_seconds   in,  edges elements: seconds of a stage that has the tail, but not the head
 *   leaving, entering  out, spans * cells elements: see struct shard_stage_type
 * Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_hybrid_borders(const struct shard_cells *cells, int32_t edges, const int32_t *tail,
                         const int32_t *head, const int64_t *certain_from, const int64_t *certain_until,
                         const double *leaving_seconds, const double *entering_seconds, double *leaving,
                         double *entering);
