/* The queue of the maximum successor rank: a device starts the executable vertex whose successors score most
 * (Mayer et al., DIDL 2017, Equation (13)), found without looking at all executable vertices. */
#pragma once

#include "common/heap.h"
#include "scheduling/simulate.h"

/* An executable vertex, and the keys by which vertices are compared. */
struct ready {
    double priority; /* greatest first */
    double since;    /* since when it is executable: then the least */
    int32_t rank;    /* then the least */
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
 * predecessors have finished; and delta if moreover its device is another one that is idle now, which the
 * vertex thus unlocks. Equal counts give equal scores: nothing is rounded on the way. */
struct msr_queue;

/* Allocate from an arena for a run in which nothing is executable yet; NULL, and the arena fails, if there is no
 * memory. device, in, nodes elements as of shard_simulate, and weight, in, alpha to delta, stay alive. */
struct msr_queue *msr_queue_new(struct arena *arena, const struct shard_system *system, const int32_t *device,
                                const double *weight);

/* Add vertex v, executable from `since` on: O(edges of v), and a logarithm per device that they lead to. */
void msr_queue_add(struct msr_queue *queue, int32_t v, double since, int32_t rank);

/* Vertex v has finished: its successors wait for one vertex less. */
void msr_queue_finish(struct msr_queue *queue, int32_t v);

/* Remove and return the executable vertex of idle device d with the greatest score, then executable for
 * longest, then of least rank; -1 if there is none. busy, in, devices elements: devices that are not idle. */
int32_t msr_queue_take(struct msr_queue *queue, int32_t d, const bool *busy);
