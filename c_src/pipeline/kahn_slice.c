/* All rows of a batch are decoded in one workspace. */
#include "pipeline/kahn_slice.h"

#include "common/kahn.h"
#include "pipeline/slice.h"

/* Length of an order as a linear arrangement. position, scratch, nodes elements. */
static double length(const struct shard_pipeline *problem, const int32_t *order, int32_t *position,
                     bool weighted) {
    double sum = 0.0;
    for (int32_t p = 0; p < problem->nodes; p++)
        position[order[p]] = p;
    for (int32_t u = 0; u < problem->nodes; u++) {
        int64_t distance = 0;
        for (int64_t e = problem->out_start[u]; e < problem->out_start[u + 1]; e++)
            distance += position[problem->out_head[e]] - position[u];
        sum += (double)distance * (weighted ? problem->output_size[u] / problem->bandwidth : 1.0);
    }
    return sum;
}

/* The cost of the order of a row. */
enum measure { SLICED, ARRANGED, ARRANGED_WEIGHTED };

static int decode(const struct shard_pipeline *problem, enum measure measure, int32_t count,
                  const double *priority, double upper, double *cost) {
    struct arena arena = {0};
    struct slicer slicer;
    struct kahn_ready *heap;
    int32_t *indegree, *waiting, *order;
    ARENA_ARRAYS(&arena, problem->nodes, heap, indegree, waiting, order);
    slicer_allocate(&slicer, &arena, problem);
    int status = arena_status(&arena);
    if (status == SHARD_OK)
        kahn_indegree(problem->nodes, problem->out_start, problem->out_head, indegree);
    for (int32_t i = 0; status == SHARD_OK && i < count; i++, priority += problem->nodes) {
        cost[i] = INFINITY;
        if (is_stopped(problem->stop))
            continue;
        status = kahn_sort(problem->nodes, problem->out_start, problem->out_head, indegree, priority, waiting,
                           heap, order);
        if (status == SHARD_OK && measure == SLICED)
            status = slicer_slice(&slicer, problem, order, upper, &cost[i], NULL);
        else if (status == SHARD_OK) /* `waiting` is free again after the sort */
            cost[i] = length(problem, order, waiting, measure == ARRANGED_WEIGHTED);
    }
    arena_free(&arena);
    return status;
}

int shard_kahn_slice(const struct shard_pipeline *problem, int32_t count, const double *priority,
                     double upper, double *cost) {
    return isnan(upper) ? SHARD_NAN : decode(problem, SLICED, count, priority, upper, cost);
}

int shard_kahn_arrangement(const struct shard_pipeline *problem, int32_t count, const double *priority,
                           int32_t weighted, double *cost) {
    return decode(problem, weighted ? ARRANGED_WEIGHTED : ARRANGED, count, priority, INFINITY, cost);
}
