/* Decoding a batch with one workspace. */
#include "decode.h"

#include <math.h>
#include <stdlib.h>

#include "kahn.h"
#include "slice.h"

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

static int decode(struct workspace *workspace, const struct shard_pipeline *problem, const double *priority,
                  double upper, double *cost) {
    const int status = kahn_sort(problem->nodes, problem->out_start, problem->out_head, workspace->indegree,
                                 priority, workspace->waiting, workspace->heap, workspace->order);
    if (status != SHARD_OK)
        return status;
    return slicer_slice(&workspace->slicer, problem, workspace->order, upper, cost, NULL);
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
        const double *row = priority + (int64_t)i * problem->nodes;
        status = decode(&workspace, problem, row, upper, &cost[i]);
    }
    release(&workspace);
    return status;
}
