/* Searching for placements of least latency: nodes go from subgraph to subgraph, and after every move the
 * schedule in which everything starts as soon as its inputs are there is worked out anew. */
#ifndef SHARD_ANNEAL_LATENCY_H
#define SHARD_ANNEAL_LATENCY_H

#include <stdint.h>

#include "common/status.h"

/* cffi: begin */

/* What is to be placed. A call is an invocation of an accelerator: it moves in the nets that its nodes read
 * from elsewhere, computes, moves out the nets that are read elsewhere, and all its nodes end then. Other
 * nodes are in a pool of CPUs, where each begins when all before it have ended. A unit is a set of nodes that
 * must share a device. */
struct shard_latency_problem {
    int32_t nodes, units, nets, accelerators;
    int32_t calls; /* most calls at a time: 2 * accelerators, or if `many` nodes + 1 */
    int32_t many;  /* not 0: an accelerator has any number of calls; 0: one, or one of either pass. Then the
                    * calls 2a and 2a + 1 are those of accelerator a, the latter for backward nodes only */
    double memory; /* of an accelerator */
    double fee;    /* added to the latency for every node of the pool, 0 if there are CPUs */
    const int32_t *unit;     /* nodes elements */
    const int32_t *backward; /* nodes elements: 1 in the backward pass, else 0 */
    const double
        *accelerator_time;   /* nodes elements; infinite for the nodes of units that must be in the pool */
    const double *cpu_time;  /* nodes elements */
    const double *ahead;     /* nodes elements: least time from when each node can begin to the end of all */
    const int64_t *in_start; /* nodes + 1 elements: node v waits for in[in_start[v]] to in[in_start[v+1]-1] */
    const int32_t *in;
    const int64_t *out_start; /* nodes + 1 elements: the same edges by their tails */
    const int32_t *out;
    const int64_t
        *made_start; /* nodes + 1 elements: node v makes the nets made_start[v] to made_start[v + 1] - 1 */
    const double *transfer;      /* nets elements: time to move each */
    const int64_t *reader_start; /* nets + 1 elements: the nodes that read each net */
    const int32_t *reader;
    const int64_t *read_start; /* nodes + 1 elements: the nets that each node reads */
    const int32_t *read;
    const double *size;        /* units elements */
    const int64_t *unit_start; /* units + 1 elements: the nodes of each unit */
    const int32_t *member;
};

/* A placement. */
struct shard_latency_placement {
    int32_t *call;  /* nodes elements: the call of each node, -1 in the pool */
    int32_t *owner; /* calls elements: the accelerator of each call that has nodes */
    double *delay; /* calls elements: of calls that wait for one accelerator, that goes first whose inputs are
                    * there soonest, this time added */
    int32_t *mixed; /* accelerators elements: not 0: backward nodes are in the call 2a as well; 0 if `many` */
};

/* How to anneal. The energy is the latency, fees, and the mean end of the nodes with a weight. The
 * temperature falls geometrically. */
struct shard_latency_cooling {
    int64_t moves; /* moves to try */
    double hot;    /* temperature at the first move, in the unit of times, > 0 */
    double cold;   /* temperature at the last one, > 0 */
    double calm;   /* weight of the mean end, at least 0: what it rewards shows where many paths take the
                      longest */
};

/* Anneal a placement by moves of nodes, groups of nodes and calls.
 *
 *   workload  in
 *   chill     in
 *   random    in and out, 1 element: state of the random numbers, any value to begin with
 *   now       in and out: an allowed placement
 *   best      in and out: the placement of least latency so far
 *   cost      in and out, 1 element: its latency and fees, infinite if there is none yet
 *
 * Returns SHARD_OK, SHARD_NO_MEMORY, or SHARD_CYCLE if calls of `now` wait for one another. */
int shard_anneal_latency(const struct shard_latency_problem *workload, const struct shard_latency_cooling *chill, uint64_t *random,
                 struct shard_latency_placement *now, struct shard_latency_placement *best, double *cost);

/* The schedule of a placement.
 *
 *   finish  out, nodes elements: when each node ends
 *   turn    out, nodes elements: the place of its call among all, in the order in which they begin; -1 in the
 * pool cost    out, 1 element: latency and fees
 *
 * Returns as above. */
int shard_latency_schedule(const struct shard_latency_problem *workload, struct shard_latency_placement *now, double *finish,
                   int32_t *turn, double *cost);
/* cffi: end */

#endif
