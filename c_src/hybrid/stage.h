/* A stage that grows node by node, with the sums that decide whether it can meet the limits. */
#pragma once

#include "hybrid/costs.h"

/* Sums over the nodes of a stage, for a pair of degrees. */
struct sums {
    int128 time;         /* of the fastest configurations */
    int128 stashed;      /* the bytes of these */
    int128 kept;         /* the same */
    int128 least_kept;   /* of the configurations that keep least */
    int128 synchronised; /* of those that synchronise least; ONE_PASS only */
};

/* The same for a tensor-parallel degree. */
struct growth {
    int128 certain;       /* part of the time that larger stages have as well */
    int128 least_stashed; /* of the configurations that stash least */
    bool alive;           /* all nodes have the degree, and some larger stage may meet the limits */
};

/* Nodes are pushed in ascending order onto a base ideal and popped in reverse. All arrays are owned by the arena. */
struct stage {
    const struct shard_hybrid *problem;
    const struct costs *costs;
    int32_t size;         /* number of nodes */
    int32_t *node;        /* nodes elements */
    uint8_t *place;       /* nodes elements, of enum place */
    int128 *now;          /* [c]: time plus the transfers of the ends that leave the stage, of its nodes */
    struct sums *sums;    /* [(size * degrees + t) * counts + d], for every size up to the present one */
    struct growth *grown; /* [size * degrees + t] */
    int64_t devices;      /* devices left for the stage and those before it */
    int64_t least_after;  /* least sum of data-parallel degrees of the stages after it */
    const int128 *work;   /* [node]: least t * time of its configurations; set by mark_after, as is: */
    int128 before;        /* the sum of that over the nodes BEFORE */
    int128 limit;         /* of its time, times the batch for ONE_PASS, per replica */
};

enum place { BEFORE, AFTER, INSIDE };

/* Allocate; the arena fails if there is no memory. Every node is BEFORE, and the limit that of the costs. */
void stage_init(struct stage *stage, struct arena *arena, const struct costs *costs);

/* Append a node, all of whose successors in the model are INSIDE or AFTER. Returns false if no degree is alive. */
bool stage_push(struct stage *stage, int32_t v);

void stage_pop(struct stage *stage);

static inline const struct sums *stage_sums(const struct stage *stage, int32_t t, int32_t d) {
    return stage->sums + ((int64_t)stage->size * stage->problem->degrees + t) * stage->costs->counts + d;
}

static inline const struct growth *stage_grown(const struct stage *stage, int32_t t) {
    return stage->grown + (int64_t)stage->size * stage->problem->degrees + t;
}

/* Most time of d replicas. For ONE_PASS, the batch takes the time once and batch / d - 1 times. */
static inline int128 stage_limit(const struct stage *stage, int64_t d) {
    return stage->costs->synchronised ? stage->limit * d / stage->problem->batch : stage->limit * d;
}

/* Microbatches in flight at a stage of d replicas if those after it have a sum of s. */
static inline int64_t in_flight(int64_t s, int64_t d) {
    return 1 + (s + d - 1) / d;
}
