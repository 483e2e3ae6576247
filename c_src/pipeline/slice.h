/* Slicing: the best way to cut an order into at most k stages (Archer et al., ICML 2024: the result of
 * Algorithm 1, by another method).
 *
 * A threshold is met if the order can be cut into at most k segments of no greater cost. The least number of
 * segments for every prefix decides that; sweeps find it and stop as soon as no longer segment can meet the
 * threshold, so no table is kept. Thresholds are bisected, and at last one just below the best cost is shown
 * not to be met, so the result is the optimum, not an approximation. */
#pragma once

#include "pipeline/segment.h"

/* cffi: begin */

/* Cut an order into at most problem->stages stages of least greatest cost, if that is below `upper`.
 *
 *   order  in,  problem->nodes elements: a topological order
 *   cost   out, 1 element: the greatest cost of a stage; infinite if no slicing costs less than `upper`
 *   cut    out, problem->stages + 1 elements: stage b holds positions cut[b] .. cut[b + 1] - 1, empty stages
 *               come last; not written if cost is infinite
 *
 * If stopped by problem->stop, the slicing is the best so far, which for an infinite `upper` is at least one
 * of about even work. All memory is the caller's. Returns SHARD_OK, SHARD_BAD_ORDER, SHARD_NAN or
 * SHARD_NO_MEMORY. */
int shard_slice(const struct shard_pipeline *problem, const int32_t *order, double upper, double *cost,
                int32_t *cut);
/* cffi: end */

/* Least numbers of segments for the first r positions, 0 <= r <= n, at and between thresholds. */
struct slicer {
    struct segments segments;
    int32_t stages;
    const int32_t *stop;
    double *work;           /* n + 1 elements: summed work of the first r positions */
    double *param;          /* n + 1 elements: summed parameters of the first r positions */
    int32_t *stages_before; /* n + 1 elements: stages that the work of the first r positions needs at least */
    int32_t *stages_after;  /* n + 1 elements: stages that the work of the others needs at least */
    int32_t *fewest;        /* n + 1 elements: at this threshold */
    int32_t *lower; /* n + 1 elements: at the least threshold met so far, so at least this many below it */
    int32_t *upper; /* n + 1 elements: at the greatest threshold not met, so at most this many above it */
    int32_t *last_start;  /* n + 1 elements: where the last of `fewest` segments begins */
    int32_t *upper_start; /* n + 1 elements: where the last of `upper` segments begins */
    double *last_cost;    /* n + 1 elements: cost of the segment from last_start on */
    double *upper_cost;   /* n + 1 elements: cost of the segment from upper_start on */
};

/* Allocate from an arena, which fails if there is no memory. */
void slicer_allocate(struct slicer *slicer, struct arena *arena, const struct shard_pipeline *problem);

/* shard_slice without allocation; `cut` may be NULL. SHARD_OK or SHARD_BAD_ORDER. */
int slicer_slice(struct slicer *slicer, const struct shard_pipeline *problem, const int32_t *order,
                 double upper, double *cost, int32_t *cut);
