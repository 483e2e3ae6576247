/* Minimum cuts bound how much a stage can span, wherever it begins. */
#pragma once

#include "hybrid/positions/node_costs.h"

/* cffi: begin */

/* An upper bound on the sum of the prices of any nodes that a stage may hold.
 *
 * For a multiplier r, the least cost of a set of nodes and its transfers, less r times its prices, is a minimum cut. If it
 * is m, a stage that costs w has prices of at most (w - m) / r.
 *
 *   edges, tail, head  in,  edges of the reversed graph, in the numbers of the cells' nodes
 *   at_tail, at_head   in,  edges elements: seconds of transfers of a stage that has only this end
 *   distance           out, 1 element
 * Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_hybrid_distance(const struct shard_cells *cells, const struct shard_stage_type *type, int32_t edges,
                          const int32_t *tail, const int32_t *head, const double *at_tail,
                          const double *at_head, int64_t *distance);
