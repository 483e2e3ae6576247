/* State of a search for cheap convex sets, which the parts of `cheapest_set` share. */
#pragma once

#include "common/flow.h"
#include "common/inline.h"
#include "common/stop.h"
#include "pipeline/sets/cheapest_set.h"

/* A node of the tree whose second child is still to be visited. */
struct decision {
    int32_t trail; /* assignments before it */
    int32_t level; /* its level in the trunk */
    int32_t node;  /* in the set in the first child, out of it in the second */
    int64_t bound;
    double price;
};

/* Gains in the bound of the children of one kind of a node of the graph. */
struct gain {
    double sum;
    int32_t count;
};

/* A set of nodes, its cost and its weight. */
struct set {
    bool *side;
    int64_t cost, weight;
};

/* Sets found so far by a search that lists all of them. */
struct listing {
    uint64_t *member; /* most * words elements: bit v of row i says that node v is in set i */
    int64_t *cost;    /* most elements */
    int64_t most, count;
};

/* Nodes of the tree in preorder, as `shard_prove_sets` returns them. */
struct proof {
    int32_t *branch;         /* most elements */
    int64_t *price;          /* most elements */
    int64_t *moved, *closed; /* most * edges elements each; `closed` may be NULL */
    int64_t most, count;
    int64_t *excess; /* nodes elements: of the current node of the tree, by its numbers */
};

struct tree {
    struct arena arena;
    const struct shard_set_costs *problem;
    const int64_t *weight;
    int64_t need;
    int64_t total; /* of all weights; at least `need` when prices are set */
    int64_t limit;
    int32_t words;
    struct flow flow;
    double price;
    int64_t *reward;    /* nodes elements: price of the weight in the network */
    int8_t *value;      /* nodes elements: 1 in, -1 out, 0 open */
    int32_t *trail;     /* nodes elements: assigned nodes in order */
    int32_t assigned;   /* length of the trail */
    uint64_t *rows;     /* bit sets, see `bits` */
    struct gain *gains; /* 2 * nodes elements: of leaving a node out, and of putting it in */
    struct decision *decisions;
    int32_t depth; /* decisions whose second child is still to be visited */
    int32_t level; /* nodes left out so far if none was put in, else SHARD_TRUNK */
    int32_t *shared, *stop;
    double deadline;
    int64_t cuts, budget; /* minimum cuts computed, and allowed */
    struct set light;     /* costs little and weighs too little */
    struct set heavy;     /* weighs enough */
    struct set trial;
    int64_t bound;           /* of the current node of the tree */
    int32_t missing_node;    /* a node that the last cheap heavy set lacks to be convex, or -1 */
    struct listing *listing; /* NULL to search for one set */
    struct proof *proof;     /* NULL unless the tree is written down */
};

enum bits { IN, OUT, BELOW, ABOVE, FORCED, BARRED, BITS };

SHARD_INLINE uint64_t *row(const struct tree *tree, enum bits which) {
    return tree->rows + (size_t)which * (size_t)tree->words;
}

SHARD_INLINE bool has(const uint64_t *set, int32_t v) {
    return (set[v >> 6] >> (v & 63)) & 1;
}

SHARD_INLINE void unite(uint64_t *into, const uint64_t *from, int32_t words) {
    for (int32_t i = 0; i < words; i++)
        into[i] |= from[i];
}

/* True if no further minimum cut may be computed, no further set listed, or no further node written down: three nodes
 * may still get two children each, and open decisions one each. */
SHARD_INLINE bool is_exhausted(const struct tree *tree) {
    if (tree->listing && tree->listing->count == tree->listing->most)
        return true;
    if (tree->proof && tree->proof->count + tree->depth + 6 >= tree->proof->most)
        return true;
    return tree->cuts >= tree->budget || is_stopped(tree->stop) || monotonic_seconds() >= tree->deadline;
}

SHARD_INLINE const uint64_t *relatives(const struct tree *tree, const uint64_t *of, int32_t v) {
    return of + (size_t)v * (size_t)tree->words;
}
