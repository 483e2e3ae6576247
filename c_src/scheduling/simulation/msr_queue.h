/* The queue of the maximum successor rank: a device starts the executable vertex whose successors score most
 * (Mayer et al., DIDL 2017, Equation (13)), found without looking at all executable vertices. */
#pragma once

#include "scheduling/simulation/ready.h"
#include "scheduling/simulation/simulate.h"

/* The executable vertices of all devices in one run. Each successor adds to the score of a vertex: alpha;
 * beta if it is on another device; gamma if it waits for this vertex alone, that is, all its other
 * predecessors have finished; and delta if, moreover, it is on another device that is idle now, which the
 * vertex thus unlocks. Scores are computed from counts, so equal counts give equal scores. */
struct msr_queue;

/* Allocate from an arena for a run in which nothing is executable yet; NULL, and the arena fails, if there is
 * no memory. It keeps device, in, nodes elements as in shard_simulate, entry, in, the entries of executable
 * vertices by number, and weight, in, alpha to delta. fetches: most of what it reads is not in the cache. */
struct msr_queue *msr_queue_new(struct arena *arena, const struct shard_system *system, const int32_t *device,
                                const struct entry *entry, const double *weight, bool fetches);

/* Add the vertex of an entry, executable on device d from a turn on. */
void msr_queue_add(struct msr_queue *queue, int32_t d, uint64_t turn, int32_t number);

/* Vertex v of device d has finished: its successors wait for one vertex less. */
void msr_queue_finish(struct msr_queue *queue, int32_t v, int32_t d);

/* Hints to the cache: fetch what msr_queue_finish will read of a vertex's edges, the first of which is
 * `first`, and of one of its successors. */
void msr_queue_fetch_edges(const struct msr_queue *queue, int64_t first);
void msr_queue_fetch_successor(const struct msr_queue *queue, int32_t successor);

/* Return the number of the executable vertex of idle device d with the greatest score, then of the least turn;
 * -1 if there is none. idle, in: the set of idle devices. */
int32_t msr_queue_choose(struct msr_queue *queue, int32_t d, const uint64_t *idle);

/* Remove an executable vertex of device d. */
void msr_queue_remove(struct msr_queue *queue, int32_t d, int32_t number);
