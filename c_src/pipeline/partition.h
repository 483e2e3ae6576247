/* A partition into stages while nodes move between them: the cost of each stage (Archer et al., ICML 2024,
 * Equations 1 to 3) and the stages that a node may join.
 *
 * The stages have ranks, and no edge leads to a stage of lower rank, so the quotient graph has no cycle. A
 * move changes only the costs of the stage that a node leaves and of the one that it joins; without a memory
 * limit both are known in O(inputs of the node). With a limit, the nodes of a stage run in the order of a
 * list, a node joins at a given place in it, and a walk along the list finds the peak. */
#pragma once

#include "common/random.h"
#include "pipeline/segment.h"

/* No node: the place in front of a list. */
#define NO_NODE (-1)

/* A run holds at most this many nodes. */
#define LONGEST_RUN 64

/* Contents and cost of a stage. */
struct stage {
    double work;
    double param;    /* summed sizes of parameters; only with a memory limit, else 0 */
    double incoming; /* summed sizes of the incoming tensors */
    double crossing; /* the same plus those of the outgoing tensors */
    double cost;
};

struct partition {
    const struct shard_pipeline *problem;
    bool limited;          /* memory is finite */
    int32_t *home;         /* nodes elements: stage of each node */
    int32_t *readers;      /* nodes * stages elements: consumers of u in stage b at [u * stages + b] */
    struct stage *stage;   /* stages elements */
    int32_t *rank, *at;    /* stages elements each: rank of each stage, stage of each rank */
    int32_t *first;        /* stages elements: first node of each list; like the next two only with a limit */
    int32_t *next, *prior; /* nodes elements each: neighbours in the list */
    int32_t *mark, *left;  /* nodes elements each: scratch of the lists */
    int32_t *run, *place;  /* LONGEST_RUN elements each: nodes that move together, and their old `prior` */
    int32_t *member;       /* nodes elements: scratch of the ranks, and the next two */
    int32_t *start;        /* stages + 2 elements */
    int32_t *waiting;      /* stages elements */
};

/* Allocate from an arena, which fails if there is no memory. */
void partition_allocate(struct partition *partition, struct arena *arena,
                        const struct shard_pipeline *problem);

/* Begin with a slicing of order, in, nodes elements, topological; cut, in, stages + 1 elements: stage b holds
 * the positions cut[b] .. cut[b + 1] - 1. */
void partition_start(struct partition *partition, const int32_t *order, const int32_t *cut);

/* Recompute the cost of each stage, which clears the rounding errors of many moves. */
void partition_recount(struct partition *partition);

/* Write the same partition as a slicing: stages by rank, in each the order of its list or else that of `order`,
 * in. sliced, out, nodes elements: a topological order; cut, out, stages + 1 elements. */
void partition_slicing(struct partition *partition, const int32_t *order, int32_t *sliced, int32_t *cut);

/* Rank the stages by another topological order of the quotient graph. */
void partition_rerank(struct partition *partition, struct random *random);

/* The least and the greatest rank that a node may go to. */
static inline void partition_rank_range(const struct partition *partition, int32_t v, int32_t *low,
                                        int32_t *high) {
    const struct shard_pipeline *problem = partition->problem;
    *low = 0;
    *high = problem->stages - 1;
    for (int64_t e = problem->in_start[v]; e < problem->in_start[v + 1]; e++) {
        const int32_t rank = partition->rank[partition->home[problem->in_tail[e]]];
        *low = rank > *low ? rank : *low;
    }
    for (int64_t e = problem->out_start[v]; e < problem->out_start[v + 1]; e++) {
        const int32_t rank = partition->rank[partition->home[problem->out_head[e]]];
        *high = rank < *high ? rank : *high;
    }
}

/* Preview the stages that v would leave and join, which differ. With a limit, their overflow counts only
 * their parameters and incoming tensors, which are in memory from the start: the peak is not less. */
void partition_preview(const struct partition *partition, int32_t v, int32_t to, struct stage *leaves,
                       struct stage *joins);

/* Move v to another stage, but leave lists and costs as they are. */
void partition_move(struct partition *partition, int32_t v, int32_t to);

/* Fill `run` with v and the nodes of its stage that must move together with it: its descendants if v leaves
 * forwards, its ancestors if backwards; with a limit, in the order of the list. Returns their number, 0 if they are
 * too many or have nowhere to go. to, out: the nearest stage with a neighbour of the run, else the next stage. */
int32_t partition_run(struct partition *partition, int32_t v, bool forwards, int32_t *to);

/* Move the first `count` nodes of `run` to another stage; with a limit, to the end of its list on the side
 * that they came from. leaves, joins, out: contents and costs of the stages, as in a preview. */
void partition_move_run(struct partition *partition, int32_t count, bool forwards, int32_t to,
                        struct stage *leaves, struct stage *joins);

/* Undo partition_move_run. */
void partition_return_run(struct partition *partition, int32_t count, int32_t from);

/* Cost of a stage, given the peak of its memory. */
double partition_cost(const struct partition *partition, const struct stage *stage, double peak);

/* The greatest memory in use while a node of the list of stage b runs, given the size of what comes in. */
double partition_peak(struct partition *partition, int32_t b, double incoming);

/* Remove v from the list of its stage b. */
void partition_unlink(struct partition *partition, int32_t v, int32_t b);

/* Insert v into the list of stage b after one of its nodes or, at NO_NODE, in front. */
void partition_link(struct partition *partition, int32_t v, int32_t b, int32_t after);

/* Draw a place for v in the list of stage b, between its producers and its consumers there. */
int32_t partition_place(struct partition *partition, int32_t v, int32_t b, struct random *random);
