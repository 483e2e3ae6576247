/* The current placement of a search: the nodes, the duration and the memory of every subgraph. */
#pragma once

#include "common/arena.h"
#include "placement/latency/latency_problem.h"

#define POOL (-1)

struct subgraphs {
    const struct shard_latency_problem *problem;
    struct shard_latency_placement *placement; /* the caller's */
    int32_t *first;                            /* subgraphs elements: first node of each, -1 if it is empty */
    int32_t *next, *previous; /* nodes elements: linked lists of the nodes of each subgraph */
    int32_t *count;           /* subgraphs elements: nodes of each */
    int32_t *incoming;        /* subgraphs elements: edges into each from outside */
    int32_t *listed, *place;  /* subgraphs elements: all, those with nodes first; the index of each there */
    int32_t active;           /* subgraphs with nodes */
    double *duration;         /* subgraphs elements */
    int32_t *device;          /* units elements: the accelerator of each, or POOL */
    double *room;             /* accelerators elements: memory left, negative if it is exceeded */
    int32_t overfull;         /* accelerators whose memory is exceeded */
    int32_t pooled;           /* nodes in the pool */
    int64_t *net_mark, mark; /* nets elements: the last duration that counted each net; number of durations */
};

/* Set up from a placement; the arena fails if there is no memory. */
void subgraphs_begin(struct subgraphs *now, const struct shard_latency_problem *problem,
                     struct shard_latency_placement *placement, struct arena *arena);

/* Move a node to a subgraph or POOL, without updating durations and memory. */
void move_to_subgraph(struct subgraphs *now, int32_t v, int32_t to);

/* Move a unit to an accelerator or POOL, without moving its nodes. */
void move_unit(struct subgraphs *now, int32_t unit, int32_t device);

double duration_of(struct subgraphs *now, int32_t subgraph);

static inline int32_t owner_of(const struct subgraphs *now, int32_t subgraph) {
    return subgraph < 0 ? POOL : now->placement->owner[subgraph];
}
