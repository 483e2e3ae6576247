/* Running a data flow graph on heterogeneous devices, event by event (Mayer et al., DIDL 2017, Section 4). */
#ifndef SHARD_SIMULATE_H
#define SHARD_SIMULATE_H

#include <stdint.h>

#include "common/arena.h"
#include "common/status.h"

/* cffi: begin */

/* What tensors on one link do at the same time. */
enum shard_links { SHARD_INDEPENDENT = 0, SHARD_QUEUE = 1, SHARD_SHARE = 2 };

/* Which executable vertex an idle device starts. */
enum shard_rule {
    SHARD_IN_ORDER = 0,     /* the next one of a given order, once it is executable */
    SHARD_BY_PRIORITY = 1,  /* the greatest priority, then the longest executable, then the least rank */
    SHARD_BY_SUCCESSORS = 2 /* the greatest score of Equation (13), then as above */
};

/* A graph and devices. Edges are sorted by tail: those of v are out_start[v] .. out_start[v + 1] - 1. */
struct shard_system {
    int32_t nodes;
    int32_t devices;
    const int64_t *out_start; /* nodes + 1 elements */
    const int32_t *out_head;  /* out_start[nodes] elements */
    const double *size;       /* the same: sizes of the tensors, >= 0 */
    const double *complexity; /* nodes elements, >= 0 */
    const double *speed;      /* devices elements, > 0 */
    const double *bandwidth;  /* devices * devices elements, row by row: from, to */
    int32_t links;            /* enum shard_links */
    double tolerance;         /* times that differ by no more than this, relatively, count as equal */
};

/* How devices choose.
 *
 *   rule      enum shard_rule
 *   order     nodes elements, for SHARD_IN_ORDER: the vertices of device 0 in their order, of device 1, ...
 *   priority  nodes elements, for SHARD_BY_PRIORITY
 *   rank      nodes elements, for the others: what decides between equals
 *   weight    alpha, beta, gamma, delta, for SHARD_BY_SUCCESSORS
 */
struct shard_policy {
    int32_t rule;
    const int32_t *order;
    const double *priority;
    const int32_t *rank;
    double weight[4];
};

/* Run a graph once, O(edges + nodes log nodes); by successors see `successors.h`.
 *
 * Devices that choose do so among all that is executable at a moment, which begins with an event and lasts
 * for the system's tolerance: rounding does not decide what is there in time. A vertex starts when its device
 * is free and its inputs are there, so the times are those of the order that results.
 *
 *   device    in,  nodes elements, each from 0 to devices - 1
 *   start     out, nodes elements; of a vertex that never runs, infinite
 *   finish    out, nodes elements; the same
 *   arrival   out, out_start[nodes] elements, or null: when each tensor is where it is read; infinite without
 *                  a link
 *   sequence  out, nodes elements: the vertices as they start
 *   ran       out, 1 element: how many of them ran; the makespan is the greatest `finish` if all did
 *
 * Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_simulate(const struct shard_system *system, const struct shard_policy *choice,
                   const int32_t *device, double *start, double *finish, double *arrival, int32_t *sequence,
                   int32_t *ran);
/* cffi: end */

/* Memory that runs of one system can use again and again. */
struct simulation;

/* Allocate from an arena; the arena fails if there is no memory. */
struct simulation *simulation_new(struct arena *arena, const struct shard_system *system);

/* `shard_simulate` without allocation, unless by successors. */
int simulation_run(struct simulation *simulation, const struct shard_policy *choice, const int32_t *device,
                   double *start, double *finish, double *arrival, int32_t *sequence, int32_t *ran);

#endif
