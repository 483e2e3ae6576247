/* The queue of the maximum successor rank: a device starts the executable vertex whose successors score most
 * (Mayer et al., DIDL 2017, Equation (13)), found without looking at all executable vertices. */
#pragma once

#include "common/heap.h"
#include "scheduling/simulate.h"

/* An executable vertex, and the keys by which vertices are compared. */
struct ready {
    double priority; /* greatest first */
    double since;    /* of equals: when it became executable, least first */
    int32_t rank;    /* of equals: least first */
    int32_t number;  /* of the vertex */
};

static inline bool runs_before(struct ready a, struct ready b) {
    if (a.priority > b.priority || a.priority < b.priority)
        return a.priority > b.priority;
    if (a.since < b.since || a.since > b.since)
        return a.since < b.since;
    return a.rank < b.rank;
}
HEAP(ready_heap, struct ready, runs_before)

/* The executable vertices of all devices in one run. Each successor adds to the score of a vertex: alpha;
 * beta if it is on another device; gamma if it waits for this vertex alone, that is, all its other
 * predecessors have finished; and delta if, moreover, it is on another device that is idle now, which the
 * vertex thus unlocks. Scores are computed from counts, so equal counts give equal scores. */
struct msr_queue;

/* Allocate from an arena for a run in which nothing is executable yet; NULL, and the arena fails, if there is
 * no memory. It keeps device, in, nodes elements as in shard_simulate, and weight, in, alpha to delta. */
struct msr_queue *msr_queue_new(struct arena *arena, const struct shard_system *system, const int32_t *device,
                                const double *weight);

/* Add vertex v, executable from `since` on: O(edges of v), plus a logarithm per device that they lead to. */
void msr_queue_add(struct msr_queue *queue, int32_t v, double since, int32_t rank);

/* Vertex v has finished: its successors wait for one vertex less. */
void msr_queue_finish(struct msr_queue *queue, int32_t v);

/* Remove and return the executable vertex of idle device d with the greatest score, then executable for
 * longest, then of least rank; -1 if there is none. busy, in, devices elements: false for idle devices. */
int32_t msr_queue_take(struct msr_queue *queue, int32_t d, const bool *busy);
