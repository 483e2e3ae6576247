/* Kahn's algorithm over a binary heap of ready nodes. */
#include "common/kahn.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool runs_before(struct kahn_ready a, struct kahn_ready b) {
    return a.priority > b.priority || (a.priority >= b.priority && a.node < b.node);
}

static void push(struct kahn_ready *heap, int32_t size, struct kahn_ready item) {
    int32_t at = size;
    while (at > 0) {
        const int32_t parent = (at - 1) / 2;
        if (!runs_before(item, heap[parent]))
            break;
        heap[at] = heap[parent];
        at = parent;
    }
    heap[at] = item;
}

/* Remove the top of a heap of `size` elements, at least one. */
static int32_t pop(struct kahn_ready *heap, int32_t size) {
    const int32_t node = heap[0].node;
    const struct kahn_ready item = heap[size - 1];
    int32_t at = 0;
    for (int32_t child = 1; child < size - 1; child = 2 * at + 1) {
        if (child + 1 < size - 1 && runs_before(heap[child + 1], heap[child]))
            child++;
        if (!runs_before(heap[child], item))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = item;
    return node;
}

void kahn_indegree(int32_t nodes, const int64_t *out_start, const int32_t *out_head, int32_t *indegree) {
    memset(indegree, 0, (size_t)nodes * sizeof *indegree);
    for (int64_t e = 0; e < out_start[nodes]; e++)
        indegree[out_head[e]]++;
}

int kahn_sort(int32_t nodes, const int64_t *out_start, const int32_t *out_head, const int32_t *indegree,
              const double *priority, int32_t *waiting, struct kahn_ready *heap, int32_t *order) {
    int32_t ready = 0;
    int32_t placed = 0;
    memcpy(waiting, indegree, (size_t)nodes * sizeof *waiting);
    for (int32_t v = 0; v < nodes; v++) {
        if (isnan(priority[v]))
            return SHARD_NAN;
        if (waiting[v] == 0)
            push(heap, ready++, (struct kahn_ready){priority[v], v});
    }
    while (ready > 0) {
        const int32_t node = pop(heap, ready--);
        order[placed++] = node;
        for (int64_t e = out_start[node]; e < out_start[node + 1]; e++) {
            const int32_t head = out_head[e];
            if (--waiting[head] == 0)
                push(heap, ready++, (struct kahn_ready){priority[head], head});
        }
    }
    return placed == nodes ? SHARD_OK : SHARD_CYCLE;
}

int shard_kahn(int32_t nodes, const int64_t *out_start, const int32_t *out_head, const double *priority,
               int32_t *order) {
    int32_t *counts = malloc(2 * (size_t)nodes * sizeof *counts + 1); /* never zero bytes */
    struct kahn_ready *heap = malloc((size_t)nodes * sizeof *heap + 1);
    int status = SHARD_NO_MEMORY;
    if (counts && heap) {
        kahn_indegree(nodes, out_start, out_head, counts);
        status = kahn_sort(nodes, out_start, out_head, counts, priority, counts + nodes, heap, order);
    }
    free(counts);
    free(heap);
    return status;
}
