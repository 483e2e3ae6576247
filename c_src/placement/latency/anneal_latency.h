/* Simulated annealing of placements for latency: every move is judged by the whole schedule. */
#pragma once

#include "placement/latency/latency_problem.h"

/* cffi: begin */

/* The energy is latency, pool penalties and the weighted mean end; the temperature falls geometrically. */
struct shard_latency_cooling {
    int64_t moves;      /* moves to try */
    double hot;         /* temperature at the first move, in the unit of times, > 0 */
    double cold;        /* temperature at the last move, > 0 */
    double mean_weight; /* of the mean end, at least 0: it rewards progress if many paths are critical */
};

/* Anneal a placement by moves of nodes, groups of nodes and subgraphs.
 *
 *   random  in/out, 1 element: state of the random numbers, initially any value
 *   now     in/out: an allowed placement
 *   best    in/out: the placement of least latency so far
 *   cost    in/out, 1 element: its latency and pool penalties, infinite if there is none yet
 * Returns SHARD_OK, SHARD_NO_MEMORY, or SHARD_CYCLE if subgraphs of `now` wait for one another. */
int shard_anneal_latency(const struct shard_latency_problem *problem,
                         const struct shard_latency_cooling *cooling, uint64_t *random,
                         struct shard_latency_placement *now, struct shard_latency_placement *best,
                         double *cost);
