/* Simulated annealing of the greatest load of a placement. */
#pragma once

#include "placement/load/load_model.h"

/* cffi: begin */

/* The energy is the sum of the excesses of loads over a target; the temperature falls geometrically. */
struct shard_load_cooling {
    int64_t moves;   /* moves to try */
    double hot;      /* temperature at the first move, in the unit of loads, > 0 */
    double cold;     /* temperature at the last move, > 0 */
    double margin;   /* the target is (1 - margin) times the least greatest load so far; 0 to 1 */
    int32_t squared; /* not 0: every excess is squared and divided by the target */
};

/* Anneal a placement, continuing from where the previous call ended. With no moves, only evaluate it.
 *
 *   random  in/out, 1 element: state of the random numbers, initially any value
 *   rank    in/out, accelerators + cpus elements: a permutation that the placement respects, if ordered
 *   device  in/out, devices->nodes elements: an allowed placement, accelerators first, then CPUs
 *   best    in/out, devices->nodes elements: the best placement so far
 *   cost    in/out, 1 element: its cost, the greatest load, or the sum of those of both passes; infinite if
 *                   there is none yet
 *   load    out,    (accelerators + cpus) * passes elements: of every device, by `device`
 * Allocates 8 bytes per node of each net. Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_anneal_load(const struct shard_devices *devices, const struct shard_load_model *model,
                      const struct shard_load_cooling *cooling, uint64_t *random, int32_t *rank,
                      int32_t *device, int32_t *best, double *cost, double *load);
