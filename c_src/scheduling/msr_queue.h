/* Which executable vertex a device starts by the scores of its successors (Mayer et al., DIDL 2017, Equation
 * (13)), without looking at all that is executable. */
#ifndef SHARD_MSR_QUEUE_H
#define SHARD_MSR_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/heap.h"
#include "scheduling/simulate.h"

/* An executable vertex and what it is compared by. */
struct ready {
    double priority; /* greatest first */
    double since;    /* then the longest */
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

/* The executable vertices of all devices in one run. Each of a vertex's successors adds alpha to its score;
 * beta if it is on another device; gamma if it waits for this vertex alone, that is if all its other
 * predecessors have finished (that it never had others would not depend on the time, as idleness does); and
 * delta if moreover its device is another one that is idle now, so that the vertex sets it going. Equal
 * counts are equal scores: nothing is rounded on the way. */
struct msr_queue;

/* Allocate from an arena, for a run of a partition: `device` as for `shard_simulate`, `weight` alpha to
 * delta. Nothing is executable yet. Both have to stay alive; NULL, and the arena fails, if there is no
 * memory. */
struct msr_queue *msr_queue_new(struct arena *arena, const struct shard_system *system, const int32_t *device,
                                const double *weight);

/* Vertex v has become executable at time `since`. O(edges of v), and a logarithm for each device they lead
 * to. */
void msr_queue_add(struct msr_queue *queue, int32_t v, double since, int32_t rank);

/* Vertex v has finished: its successors wait for one vertex less. */
void msr_queue_finish(struct msr_queue *queue, int32_t v);

/* Take the executable vertex of device d with the greatest score, then the longest executable, then of least
 * rank; -1 if there is none. `busy`, devices elements, says which devices are not idle; d is. */
int32_t msr_queue_take(struct msr_queue *queue, int32_t d, const bool *busy);

#endif
