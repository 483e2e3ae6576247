/* Event-driven simulation of a dataflow graph on devices (Mayer et al., DIDL 2017, Section 4). */
#pragma once

#include "common/arena.h"

/* cffi: begin */

/* Sharing of a link by tensors. */
enum shard_links { SHARD_INDEPENDENT = 0, SHARD_QUEUE = 1, SHARD_SHARE = 2 };

/* The executable vertex that an idle device starts. */
enum shard_rule {
    SHARD_IN_ORDER = 0,     /* the next one of a given order, once it is executable */
    SHARD_BY_PRIORITY = 1,  /* the greatest priority, then the longest executable, then the least rank */
    SHARD_BY_SUCCESSORS = 2 /* the greatest score of Equation (13), then as above */
};

/* A graph and its devices. Edges are sorted by tail: those of v are out_start[v] .. out_start[v + 1] - 1.
 *
 * All arrays are the caller's and are only read. */
struct shard_system {
    int32_t nodes, devices;
    const int64_t *out_start; /* nodes + 1 elements */
    const int32_t *out_head;  /* out_start[nodes] elements */
    const double *size;       /* out_start[nodes] elements, >= 0: sizes of the tensors */
    const double *complexity; /* nodes elements, >= 0 */
    const double *speed;      /* devices elements, > 0 */
    const double *bandwidth;  /* devices * devices elements, row by row: from, to */
    int32_t links;            /* enum shard_links */
    double tolerance;         /* relative difference up to which times count as equal */
};

/* The rule by which devices choose, of enum shard_rule. All arrays are the caller's, nodes elements each.
 *
 *   order     for SHARD_IN_ORDER: the vertices of device 0 in their order, of device 1, ...
 *   priority  for SHARD_BY_PRIORITY
 *   rank      for the other two rules: breaks ties, least first
 *   weight    alpha, beta, gamma, delta, for SHARD_BY_SUCCESSORS */
struct shard_policy {
    int32_t rule;
    const int32_t *order;
    const double *priority;
    const int32_t *rank;
    double weight[4];
};

/* Simulate one iteration, in O(edges + nodes log nodes); for SHARD_BY_SUCCESSORS see `msr_queue.h`.
 *
 * A device chooses among all vertices that are executable at a moment, which begins with an event and lasts
 * for the tolerance of the system, so that rounding does not decide which inputs arrive in time. A vertex
 * starts once its device is free and its inputs have arrived, so the times follow from the order that
 * results.
 *
 *   device    in,  nodes elements, each from 0 to devices - 1
 *   start     out, nodes elements; infinite for a vertex that never runs
 *   finish    out, nodes elements; likewise
 *   arrival   out, out_start[nodes] elements, or NULL: time when each tensor reaches its reader; infinite
 *                  if there is no link
 *   sequence  out, nodes elements: the vertices in the order in which they start
 *   ran       out, 1 element: number of vertices that ran; the makespan is the greatest `finish` if all did
 * All memory is the caller's. Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_simulate(const struct shard_system *system, const struct shard_policy *policy,
                   const int32_t *device, double *start, double *finish, double *arrival, int32_t *sequence,
                   int32_t *ran);
/* cffi: end */

/* Workspace of the simulations of one system. */
struct simulation;

/* Allocate from an arena; NULL, and the arena fails, if there is no memory. */
struct simulation *simulation_new(struct arena *arena, const struct shard_system *system);

/* shard_simulate in this workspace; it allocates only for SHARD_BY_SUCCESSORS. */
int simulation_run(struct simulation *simulation, const struct shard_policy *policy, const int32_t *device,
                   double *start, double *finish, double *arrival, int32_t *sequence, int32_t *ran);
