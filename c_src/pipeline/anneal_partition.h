/* Simulated annealing over partitions: nodes go from block to block while the blocks that cost more than a
 * target become cheaper. */
#ifndef SHARD_ANNEAL_PARTITION_H
#define SHARD_ANNEAL_PARTITION_H

#include <stdint.h>

#include "common/segment.h"

/* cffi: begin */

/* How to anneal. The energy of a partition is the sum, over its blocks, of what they cost more than the
 * target. The temperature falls geometrically. */
struct shard_annealing {
    int64_t moves;   /* moves to try */
    uint64_t seed;   /* of the random numbers */
    double hot;      /* temperature at the first move, as a share of the cost begun with, > 0 */
    double cold;     /* temperature at the last one, > 0 */
    double margin;   /* the target is the least cost so far less this share, 0 to 1 */
    int32_t squared; /* not 0: the excesses are squared, and divided by the target */
    double enough;   /* stop at a partition that costs no more */
};

/* Look for a better partition than the one that a slicing begins with.
 *
 *   problem    in
 *   annealing  in
 *   stop       in,  1 element: the search ends soon after it is not 0, which another thread may make it
 *   order      in and out, problem->nodes elements: a topological order
 *   cut        in and out, problem->stages + 1 elements: block b holds the positions cut[b] .. cut[b + 1] - 1
 *   cost       out, 1 element: the greatest cost of a block; the slicing is left as it was if none is better
 *
 * A block runs in the order given. Needs 4 bytes a node and stage. All memory is the caller's. Returns
 * SHARD_OK, SHARD_BAD_ORDER (also where a cut is not in its place) or SHARD_NO_MEMORY. */
int shard_anneal_partition(const struct shard_pipeline *problem, const struct shard_annealing *annealing,
                           const int32_t *stop, int32_t *order, int32_t *cut, double *cost);
/* cffi: end */

#endif
