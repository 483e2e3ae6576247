/* Schedules of placements: subgraphs and nodes of the pool in order of time. */
#pragma once

#include "common/heap.h"
#include "placement/latency/latency_problem.h"
#include "placement/latency/subgraphs.h"

/* cffi: begin */

/* Schedule a placement; every subgraph and every node of the pool begins as soon as it can. finish and turn,
 * out, nodes elements: end of each node, and rank of its subgraph among all by their start, -1 in the pool;
 * cost, out, 1 element: latency and pool penalties. Returns SHARD_OK, SHARD_NO_MEMORY, or SHARD_CYCLE if
 * subgraphs wait for one another. */
int shard_latency_schedule(const struct shard_latency_problem *problem,
                           struct shard_latency_placement *placement, double *finish, int32_t *turn,
                           double *cost);
/* cffi: end */

/* A subgraph that waits for its accelerator. */
struct ready_subgraph {
    double key; /* ready time and delay */
    int32_t subgraph;
};

static inline bool runs_first(struct ready_subgraph a, struct ready_subgraph b) {
    return a.key < b.key || (a.key <= b.key && a.subgraph < b.subgraph);
}
HEAP(ready_heap, struct ready_subgraph, runs_first)

struct simulation {
    const struct subgraphs *now;
    double mean_weight;             /* weight of the mean end in the energy */
    int32_t *indegree;              /* nodes elements */
    int32_t *source, sources;       /* nodes elements: those without predecessors; their number */
    int32_t *left, *subgraph_left;  /* nodes, subgraphs elements: predecessors that have not ended */
    double *ready, *subgraph_ready; /* nodes, subgraphs elements: latest end of these so far */
    double *free_at;                /* accelerators elements */
    int32_t *queue, queued;         /* nodes elements: nodes of the pool that are ready; their number */
    struct ready_heap heap;
    double last, sum; /* latest end, with penalties once all have ended; sum of the ends */
    double *finish;   /* nodes elements, the caller's; NULL: ends and turns are not written */
    int32_t *turn;    /* nodes elements, the caller's */
};

/* Set up the schedules of the current placement from an arena, which fails if there is no memory. */
void simulation_begin(struct simulation *simulation, const struct subgraphs *now, struct arena *arena);

/* Energy of the current placement: latency, penalties and the weighted mean end; infinite if it exceeds a
 * limit or if subgraphs wait for one another. */
double simulate(struct simulation *simulation, double limit);
