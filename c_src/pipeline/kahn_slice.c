/* Decoding a batch with one workspace. */
#include "pipeline/kahn_slice.h"

#include <math.h>
#include <stdlib.h>

#include "common/kahn.h"
#include "pipeline/slice.h"

struct workspace {
    struct slicer slicer;
    struct kahn_ready *heap;
    int32_t *indegree, *waiting, *order;
};

static int allocate(struct workspace *workspace, const struct shard_pipeline *problem) {
    const size_t n = (size_t)problem->nodes + 1;
    workspace->heap = malloc(n * sizeof *workspace->heap);
    workspace->indegree = malloc(n * sizeof *workspace->indegree);
    workspace->waiting = malloc(n * sizeof *workspace->waiting);
    workspace->order = malloc(n * sizeof *workspace->order);
    const bool whole = workspace->heap && workspace->indegree && workspace->waiting && workspace->order;
    const int status = slicer_allocate(&workspace->slicer, problem);
    return whole ? status : SHARD_NO_MEMORY;
}

static void release(struct workspace *workspace) {
    slicer_free(&workspace->slicer);
    free(workspace->heap);
    free(workspace->indegree);
    free(workspace->waiting);
    free(workspace->order);
}

static int sort(struct workspace *workspace, const struct shard_pipeline *problem, const double *priority) {
    return kahn_sort(problem->nodes, problem->out_start, problem->out_head, workspace->indegree, priority,
                     workspace->waiting, workspace->heap, workspace->order);
}

int shard_decode(const struct shard_pipeline *problem, int32_t count, const double *priority, double upper,
                 double *cost) {
    struct workspace workspace;
    if (isnan(upper))
        return SHARD_NAN;
    int status = allocate(&workspace, problem);
    if (status == SHARD_OK)
        kahn_indegree(problem->nodes, problem->out_start, problem->out_head, workspace.indegree);
    for (int32_t i = 0; status == SHARD_OK && i < count; i++) {
        cost[i] = INFINITY;
        if (is_stopped(problem->stop))
            continue;
        status = sort(&workspace, problem, priority + (int64_t)i * problem->nodes);
        if (status == SHARD_OK)
            status = slicer_slice(&workspace.slicer, problem, workspace.order, upper, &cost[i], NULL);
    }
    release(&workspace);
    return status;
}

/* Length of the order in the workspace; `position` has room for one number a node. */
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

int shard_arrange(const struct shard_pipeline *problem, int32_t count, const double *priority,
                  int32_t weighted, double *cost) {
    struct workspace workspace;
    int status = allocate(&workspace, problem);
    if (status == SHARD_OK)
        kahn_indegree(problem->nodes, problem->out_start, problem->out_head, workspace.indegree);
    for (int32_t i = 0; status == SHARD_OK && i < count; i++) {
        cost[i] = INFINITY;
        if (is_stopped(problem->stop))
            continue;
        status = sort(&workspace, problem, priority + (int64_t)i * problem->nodes);
        if (status == SHARD_OK) /* what waited for its producers does so no longer */
            cost[i] = length(problem, workspace.order, workspace.waiting, weighted != 0);
    }
    release(&workspace);
    return status;
}
