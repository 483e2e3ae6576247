/* Simulated annealing of partitions: nodes move between stages to lower the costs above a target. */
#pragma once

#include "pipeline/segment.h"

/* cffi: begin */

/* Parameters of annealing. The energy of a partition is the sum, over its stages, of their costs beyond the
 * target. The temperature falls geometrically. */
struct shard_annealing {
    int64_t moves;   /* moves to try */
    uint64_t seed;   /* of the random numbers */
    double hot;      /* temperature at the first move, as a share of the initial cost, > 0 */
    double cold;     /* temperature at the last move, likewise */
    double margin;   /* the target is the least cost so far less this share, 0 to 1 */
    int32_t squared; /* not 0: excesses are squared and divided by the target */
    double enough;   /* stop at a partition that costs this or less */
};

/* Search for a partition that is better than a slicing.
 *
 *   stop   in,     1 element: the search ends soon after another thread makes it nonzero
 *   order  in/out, problem->nodes elements: a topological order; each stage runs in this order
 *   cut    in/out, problem->stages + 1 elements: stage b holds positions cut[b] .. cut[b + 1] - 1
 *   cost   out,    1 element: greatest cost of a stage; the slicing is unchanged if none is better
 * Needs 4 bytes per node and stage. All memory is the caller's. Returns SHARD_OK, SHARD_BAD_ORDER (also for
 * invalid cuts) or SHARD_NO_MEMORY. */
int shard_anneal_partition(const struct shard_pipeline *problem, const struct shard_annealing *annealing,
                           const int32_t *stop, int32_t *order, int32_t *cut, double *cost);
