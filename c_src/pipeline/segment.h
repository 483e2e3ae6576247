/* Costs of the segments of a topological order as stages (Archer et al., ICML 2024, Equations 1 to 3),
 * without a table.
 *
 * A segment [left, right) holds the nodes at positions left .. right - 1 of an order. A sweep fixes `right`
 * and moves `left` down one position at a time in constant time, plus, with a memory limit, amortised
 * near-constant time for the peak. For that, right ends must come one after another: each takes O(inputs of
 * the node before it), which is once per edge for all sweeps together, not once per edge and sweep. */
#pragma once

#include "common/arena.h"
#include "common/stop.h"

/* cffi: begin */

/* A graph to be cut into stages. All arrays are the caller's and are only read. */
struct shard_pipeline {
    int32_t nodes;  /* n >= 0 */
    int32_t stages; /* stages allowed, at least 1 */
    const int64_t
        *out_start; /* n + 1 elements: v's consumers are out_head[out_start[v] .. out_start[v + 1] - 1] */
    const int32_t *out_head;   /* out_start[n] elements, each from 0 to n - 1 */
    const int64_t *in_start;   /* n + 1 elements: the same edges from their heads */
    const int32_t *in_tail;    /* in_start[n] elements, each from 0 to n - 1; no edge twice */
    const double *work;        /* n elements >= 0, time */
    const double *output_size; /* n elements >= 0, size */
    const double *param_size;  /* n elements >= 0, size */
    double bandwidth;          /* size per time, > 0 */
    double memory;             /* fast memory of a stage, size; infinite: no overflow */
    const int32_t *stop;       /* 1 element: slicing ends soon after it is not 0, with what it has found,
                                  and orders not begun cost infinity; NULL: never */
};

/* Costs of all segments of an order, in, problem->nodes elements, topological, that end at position `right`.
 * cost, out, right elements: cost[left] is the cost of the nodes at positions left .. right - 1.
 *
 * Sizes are summed before they are divided by the bandwidth, so whole numbers of bytes below 2^53 stay exact;
 * others leave an error relative to the largest intermediate sum, as tensors join and leave a sum. All memory
 * is the caller's. Returns SHARD_OK, SHARD_BAD_ORDER or SHARD_NO_MEMORY. */
int shard_segment_costs(const struct shard_pipeline *problem, const int32_t *order, int32_t right,
                        double *cost);
/* cffi: end */

/* The contribution of a node to a segment that it joins. */
struct segment_node {
    double work;   /* of the node */
    double sent;   /* size of its tensor, 0 if it has no consumer */
    double closed; /* summed sizes of the tensors that it is the last to consume */
    double reread; /* summed sizes of the tensors that it consumes and a later node consumes too */
    int64_t input; /* where its elements of segments.input begin; those of the next position follow */
    int32_t first; /* position of its first consumer; n if there is none */
    int32_t last;  /* position of its last consumer; n if there is none */
};

/* A tensor that a node consumes and an earlier node consumed too. */
struct segment_input {
    double later;     /* summed sizes of the tensors that the earlier node shares with nodes after this one */
    int32_t prior;    /* position of that node, the last one before */
    int32_t producer; /* position */
};

/* One order of a problem, laid out by position, the right end, and the scratch of one sweep. */
struct segments {
    int32_t nodes;
    bool limited;                /* memory is finite */
    double bandwidth;            /* size per time */
    double memory;               /* of a stage */
    struct segment_node *at;     /* nodes + 1 elements, the last one only bounds `input` */
    struct segment_input *input; /* edges elements, not all of them used */
    double *size;                /* nodes elements: size of the tensor */
    double *param;               /* nodes elements */
    int32_t *position, *touched; /* nodes elements each, by node: scratch of segments_lay_out */
    double *shared;              /* nodes elements: the part of `reread` consumed from the right end on; valid
                                    left of it, like the next one */
    int32_t *latest;             /* nodes elements: last consumer before the right end, else the first */
    int32_t *candidate;          /* nodes + 1 elements: scratch of the peak */
    double *drop;                /* nodes elements: scratch of the peak */
};

/* Allocate from an arena, which fails if there is no memory. */
void segments_allocate(struct segments *segments, struct arena *arena, const struct shard_pipeline *problem);

/* Lay out an order, in, problem->nodes elements: O(nodes + edges). SHARD_OK or SHARD_BAD_ORDER. */
int segments_lay_out(struct segments *segments, const struct shard_pipeline *problem, const int32_t *order);

/* Move the right end to a position, from the position before. */
static inline void segments_advance(struct segments *segments, int32_t right) {
    const struct segment_node *node = &segments->at[right - 1];
    segments->shared[right - 1] = node->reread;
    segments->latest[right - 1] = node->first;
    for (int64_t i = node[1].input; i-- > node->input;) { /* of two with the same `prior`, the first counts */
        const struct segment_input *input = &segments->input[i];
        segments->shared[input->prior] = input->later;
        segments->latest[input->producer] = right - 1;
    }
}

/* The segment [left, right) while left moves down. */
struct sweep {
    int32_t right, left;
    double work, param;
    double open;   /* tensors that the segment makes or reads and a node from `right` on reads */
    double closed; /* tensors from outside that no node from `right` on reads */
    double inward; /* the part of `open` that comes from outside */
    double peak;   /* greatest memory in use while one of the nodes executes */
};

/* The empty segment at the right end. */
static inline struct sweep sweep_from(int32_t right) {
    return (struct sweep){.right = right, .left = right};
}

/* Move left down by one. */
void sweep_extend_limited(struct segments *segments, struct sweep *sweep);

static inline void sweep_extend(struct segments *segments, struct sweep *sweep, bool limited) {
    if (limited) {
        sweep_extend_limited(segments, sweep);
        return;
    }
    const struct segment_node *node = &segments->at[--sweep->left];
    sweep->work += node->work;
    sweep->closed += node->closed;
    sweep->open += segments->shared[sweep->left];
    if (node->first >= sweep->right)
        sweep->open += node->sent;
    else if (node->last < sweep->right)
        sweep->closed -= node->sent;
}

static inline double sweep_overflow(const struct segments *segments, const struct sweep *sweep,
                                    bool limited) {
    const double excess = limited ? sweep->param + sweep->peak - segments->memory : 0.0;
    return excess > 0.0 ? excess : 0.0;
}

/* Cost of the segment. */
static inline double sweep_cost(const struct segments *segments, const struct sweep *sweep, bool limited) {
    const double moved = sweep->open + sweep->closed + sweep_overflow(segments, sweep, limited);
    return sweep->work + moved / segments->bandwidth;
}

/* A lower bound on the cost of every longer segment with the same right end: its terms only grow. */
static inline double sweep_floor(const struct segments *segments, const struct sweep *sweep, bool limited) {
    return sweep->work + (sweep->open + sweep_overflow(segments, sweep, limited)) / segments->bandwidth;
}
