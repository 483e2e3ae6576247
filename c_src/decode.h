/* From node priorities to the cost of the best slicing (Archer et al., ICML 2024, Algorithm 2), many at a
 * time. */
#ifndef SHARD_DECODE_H
#define SHARD_DECODE_H

#include "segment.h"

/* cffi: begin */

/* Sort by each row of priorities (shard_kahn) and cut the order (shard_slice).
 *
 *   problem   in
 *   count     in,  number of rows
 *   priority  in,  count * problem->nodes elements, row after row
 *   upper     in,  only costs below this are wanted; infinite: all
 *   cost      out, count elements: the least cost of a slicing of each row's order; infinite if not below
 * upper
 *
 * All memory is the caller's. Returns SHARD_OK, SHARD_CYCLE, SHARD_BAD_ORDER (in_* and out_* disagree),
 * SHARD_NAN or SHARD_NO_MEMORY. */
int shard_decode(const struct shard_pipeline *problem, int32_t count, const double *priority, double upper,
                 double *cost);
/* cffi: end */

#endif
