/* Kahn's topological sort with priorities (Archer et al., ICML 2024, Algorithm 3). */
#pragma once

#include "common/heap.h"
#include "common/status.h"

/* cffi: begin */

/* Sort the nodes 0 .. nodes - 1 topologically, at every step taking the ready node of greatest priority, then
 * of least index. The consumers of v are out_head[out_start[v] .. out_start[v + 1] - 1], out_start has nodes
 * + 1 elements; priority, in, and order, out: nodes elements. O(nodes log nodes + edges).
 *
 * All memory is the caller's. Returns SHARD_OK, SHARD_CYCLE (order then starts with the nodes that could be
 * placed), SHARD_NAN or SHARD_NO_MEMORY. */
int shard_kahn(int32_t nodes, const int64_t *out_start, const int32_t *out_head, const double *priority,
               int32_t *order);
/* cffi: end */

/* A ready node. */
struct kahn_ready {
    double priority;
    int32_t node;
};

static inline bool kahn_before(struct kahn_ready a, struct kahn_ready b) {
    return a.priority > b.priority || (a.priority >= b.priority && a.node < b.node);
}
HEAP(kahn_heap, struct kahn_ready, kahn_before)

/* shard_kahn without allocation. nodes elements each: indegree, in, producers; waiting and heap, scratch. */
int kahn_sort(int32_t nodes, const int64_t *out_start, const int32_t *out_head, const int32_t *indegree,
              const double *priority, int32_t *waiting, struct kahn_ready *heap, int32_t *order);

/* Count the producers of each node: indegree, out, nodes elements. */
void kahn_indegree(int32_t nodes, const int64_t *out_start, const int32_t *out_head, int32_t *indegree);
