/* A configuration for each node of a stage, with the least time within the memory: the multiple-choice knapsack problem.
 *
 * Everything is counted from the fastest choice: an option of a node saves bytes and costs time. The relaxation, greedy
 * along the convex hulls of the nodes' options, decides most calls. Else its multiplier prices the bytes, and a
 * dynamic program keeps undominated pairs of bytes and time whose reduced cost fits between the bound and the limit.
 * Equal nodes give equal pairs, so k equal nodes add k + 1 pairs, not 2^k. A question with too many pairs is left open. */
#pragma once

#include "hybrid/stage.h"

/* An option of a node instead of its fastest configuration. */
struct option {
    int128 time, saved, synchronised; /* the last relative to the node's least, not to its fastest */
    int32_t configuration;
};

/* A partial choice. */
struct partial {
    int128 time, saved, synchronised;
    int64_t from; /* index of the partial choice that it extends; -1: none */
    int32_t option;
};

/* Working memory for choices, and the last one asked for. */
struct chooser {
    const struct stage *stage;
    const int32_t *stop;       /* 1 element: not 0 to leave all questions open; NULL: never */
    bool failed;               /* an allocation failed */
    bool undecided;            /* a question was left open: it may have a better answer than the one given */
    int128 limit_synchronised; /* of the sum, ONE_PASS only */
    struct option *option;     /* owned, `options` used of `room` elements */
    int64_t options, room;
    struct item *item; /* owned, nodes elements */
    int32_t items;
    struct increment *increment; /* owned, room elements */
    struct partial *partial;     /* owned */
    int64_t partials, partial_room;
    double *rest_price; /* owned, nodes + 1 elements */
    int128 *rest_saved; /* the same */
    int32_t *chosen;    /* owned, nodes elements: the configuration of each node of the stage, by position */
    int32_t *best;      /* the same */
    int64_t *head;      /* owned, room elements */
};

/* Allocate; `failed` if there is no memory. Always call chooser_free. */
void chooser_init(struct chooser *chooser, const struct stage *stage, const int32_t *stop);
void chooser_free(struct chooser *chooser);

/* The least time of the stage with the degrees t and d (indices) and y microbatches in flight, if at most `limit`; -1 if
 * not, or if the chooser failed. If `any`, some time of at most the limit. `chosen` then has the configurations. */
int128 choose(struct chooser *chooser, int32_t t, int32_t d, int64_t y, int128 limit, bool any);
