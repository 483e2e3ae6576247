/* From node priorities to the cost of the best slicing (Archer et al., ICML 2024, Algorithm 2), row by row. */
#pragma once

#include "pipeline/segment.h"

/* cffi: begin */

/* Sort by each of `count` rows of `priority`, in, problem->nodes elements each (shard_kahn), and slice the order
 * (shard_slice). cost, out, count elements: least cost of a slicing, infinite if not below `upper`.
 *
 * All memory is the caller's. Returns SHARD_OK, SHARD_CYCLE, SHARD_BAD_ORDER (in_* and out_* disagree),
 * SHARD_NAN or SHARD_NO_MEMORY. */
int shard_kahn_slice(const struct shard_pipeline *problem, int32_t count, const double *priority,
                     double upper, double *cost);

/* Sort likewise and measure each order as a linear arrangement (Appendix C.1): the sum over all edges of the
 * distance between their ends, times the time that the tensor takes if `weighted` is not 0. Returns as above. */
int shard_kahn_arrangement(const struct shard_pipeline *problem, int32_t count, const double *priority,
                           int32_t weighted, double *cost);
