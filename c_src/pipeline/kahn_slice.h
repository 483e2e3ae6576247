/* Decoding: from node priorities to the cost of the best slicing (Archer et al., ICML 2024, Algorithm 2), row
 * by row. */
#pragma once

#include "pipeline/segment.h"

/* cffi: begin */

/* Sort by each row of priorities (shard_kahn) and slice the order (shard_slice).
 *
 *   problem   in
 *   count     in,  number of rows
 *   priority  in,  count * problem->nodes elements, row after row
 *   upper     in,  only costs below this are wanted; infinite: all
 *   cost      out, count elements: least cost of a slicing of each row's order; infinite if not below `upper`
 *
 * All memory is the caller's. Returns SHARD_OK, SHARD_CYCLE, SHARD_BAD_ORDER (in_* and out_* disagree),
 * SHARD_NAN or SHARD_NO_MEMORY. */
int shard_kahn_slice(const struct shard_pipeline *problem, int32_t count, const double *priority,
                     double upper, double *cost);

/* Sort by each row of priorities and measure the order as a linear arrangement (Appendix C.1): the sum over
 * all edges of the distance between their ends, weighted by the time that the tensor takes or not at all.
 *
 *   problem, count, priority  as above
 *   weighted  in,  not 0: with weights
 *   cost      out, count elements
 *
 * All memory is the caller's. Returns SHARD_OK, SHARD_CYCLE, SHARD_NAN or SHARD_NO_MEMORY. */
int shard_kahn_arrangement(const struct shard_pipeline *problem, int32_t count, const double *priority,
                           int32_t weighted, double *cost);
/* cffi: end */
