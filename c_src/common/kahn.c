/* Kahn's algorithm over a binary heap of ready nodes. */
#include "common/kahn.h"

#include "common/arena.h"

void kahn_indegree(int32_t nodes, const int64_t *out_start, const int32_t *out_head, int32_t *indegree) {
    memset(indegree, 0, (size_t)nodes * sizeof *indegree);
    for (int64_t e = 0; e < out_start[nodes]; e++)
        indegree[out_head[e]]++;
}

int kahn_sort(int32_t nodes, const int64_t *out_start, const int32_t *out_head, const int32_t *indegree,
              const double *priority, int32_t *waiting, struct kahn_ready *heap, int32_t *order) {
    struct kahn_heap ready = {heap, 0};
    int32_t placed = 0;
    memcpy(waiting, indegree, (size_t)nodes * sizeof *waiting);
    for (int32_t v = 0; v < nodes; v++) {
        if (isnan(priority[v]))
            return SHARD_NAN;
        if (waiting[v] == 0)
            kahn_heap_push(&ready, (struct kahn_ready){priority[v], v});
    }
    while (ready.count > 0) {
        const int32_t node = kahn_heap_pop(&ready).node;
        order[placed++] = node;
        for (int64_t e = out_start[node]; e < out_start[node + 1]; e++) {
            const int32_t head = out_head[e];
            if (--waiting[head] == 0)
                kahn_heap_push(&ready, (struct kahn_ready){priority[head], head});
        }
    }
    return placed == nodes ? SHARD_OK : SHARD_CYCLE;
}

int shard_kahn(int32_t nodes, const int64_t *out_start, const int32_t *out_head, const double *priority,
               int32_t *order) {
    struct arena arena = {0};
    int32_t *indegree, *waiting;
    struct kahn_ready *heap;
    ARENA_ARRAYS(&arena, nodes, indegree, waiting, heap);
    int status = arena_status(&arena);
    if (status == SHARD_OK) {
        kahn_indegree(nodes, out_start, out_head, indegree);
        status = kahn_sort(nodes, out_start, out_head, indegree, priority, waiting, heap, order);
    }
    arena_free(&arena);
    return status;
}
