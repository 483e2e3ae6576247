/* Laying out an order, and the peak memory of a segment while its left end moves. */
#include "pipeline/segment.h"

void segments_allocate(struct segments *segments, struct arena *arena, const struct shard_pipeline *problem) {
    const int64_t n = problem->nodes;
    *segments = (struct segments){
        .nodes = problem->nodes,
        .limited = isfinite(problem->memory),
        .bandwidth = problem->bandwidth,
        .memory = problem->memory,
    };
    ARENA_ARRAYS(arena, n + 1, segments->at, segments->candidate);
    ARENA_ARRAYS(arena, problem->in_start[n], segments->input);
    ARENA_ARRAYS(arena, n, segments->size, segments->param, segments->position, segments->touched,
                 segments->shared, segments->latest, segments->drop);
}

/* Place the nodes; SHARD_BAD_ORDER unless `order` is a permutation. */
static int place(struct segments *segments, const struct shard_pipeline *problem, const int32_t *order) {
    const int32_t n = segments->nodes;
    for (int32_t v = 0; v < n; v++)
        segments->position[v] = -1;
    for (int32_t p = 0; p < n; p++) {
        const int32_t v = order[p];
        if (v < 0 || v >= n || segments->position[v] != -1)
            return SHARD_BAD_ORDER;
        segments->position[v] = p;
        segments->touched[v] = p;
        segments->at[p] = (struct segment_node){.work = problem->work[v], .first = n, .last = n};
        segments->size[p] = problem->output_size[v];
        segments->param[p] = problem->param_size[v];
        segments->shared[p] = 0.0;
    }
    return SHARD_OK;
}

/* From the first position to the last: the previous consumer of each tensor; `later` is its size for now. */
static int find_prior(struct segments *segments, const struct shard_pipeline *problem, const int32_t *order) {
    const int32_t n = segments->nodes;
    int64_t inputs = 0;
    for (int32_t p = 0; p < n; p++) {
        segments->at[p].input = inputs;
        for (int64_t e = problem->in_start[order[p]]; e < problem->in_start[order[p] + 1]; e++) {
            const int32_t u = problem->in_tail[e];
            const int32_t producer = segments->position[u], prior = segments->touched[u];
            if (producer >= p)
                return SHARD_BAD_ORDER;
            segments->touched[u] = p;
            segments->at[producer].last = p;
            if (prior == producer)
                segments->at[producer].first = p;
            else
                segments->input[inputs++] = (struct segment_input){problem->output_size[u], prior, producer};
        }
    }
    segments->at[n].input = inputs;
    return SHARD_OK;
}

/* From the last position to the first: sizes of the tensors that two nodes consume, latest second consumer
 * first. Sizes are only ever added, so no rounding error of a large one remains. */
static void add_up(struct segments *segments) {
    for (int32_t p = segments->nodes - 1; p >= 0; p--) {
        struct segment_node *node = &segments->at[p];
        node->reread = segments->shared[p];
        for (int64_t i = node->input; i < node[1].input; i++) {
            struct segment_input *input = &segments->input[i];
            const double size = input->later;
            input->later = segments->shared[input->prior];
            segments->shared[input->prior] += size;
        }
        if (node->last < segments->nodes) {
            node->sent = segments->size[p];
            segments->at[node->last].closed += segments->size[p];
        }
    }
}

int segments_lay_out(struct segments *segments, const struct shard_pipeline *problem, const int32_t *order) {
    int status = place(segments, problem, order);
    if (status == SHARD_OK)
        status = find_prior(segments, problem, order);
    if (status == SHARD_OK)
        add_up(segments);
    return status;
}

/* The peak. While the node at p executes, memory holds p's own tensor and every tensor made before p that a
 * node of [p, right) reads, wherever it was made, or that was made in the segment and is read from `right`
 * on. So when left moves down to a new node, p = left starts with what comes from outside and its own tensor;
 * and if that tensor is read from `right` on, it stays in memory at every position after its last reader in
 * the segment. Memory in use thus only grows, by additions to suffixes of the segment. A position that uses
 * no more than one after it never will, so the others, the candidates, fall strictly from left to right and
 * the first of them is the peak.
 *
 *   candidate[p + 1]  p + 1 if p is a candidate, else the slot of a position further left: a disjoint-set forest
 *   drop[p]           of a candidate: memory in use at p less that at the next one; unused for the last */

/* Slot of the last candidate at or before a position; at most `left` if there is none in the segment. */
static int32_t candidate_slot(int32_t *candidate, int32_t slot) {
    while (candidate[slot] != slot) {
        candidate[slot] = candidate[candidate[slot]];
        slot = candidate[slot];
    }
    return slot;
}

/* Add to the memory in use at every position after `after`, which is in the segment. */
static void add_after(struct segments *segments, struct sweep *sweep, int32_t after, double size) {
    if (after == sweep->right - 1)
        return;
    double rest = size;
    int32_t slot = candidate_slot(segments->candidate, after + 1);
    while (slot > sweep->left) {
        segments->drop[slot - 1] -= rest;
        if (segments->drop[slot - 1] > 0.0)
            return;
        rest = -segments->drop[slot - 1]; /* overtaken by the next candidate: leaves the front */
        segments->candidate[slot] = slot - 1;
        slot = candidate_slot(segments->candidate, slot - 1);
    }
    sweep->peak += rest;
}

/* Set the memory in use of the node that has just joined at sweep->left. */
static void add_candidate(struct segments *segments, struct sweep *sweep) {
    const int32_t left = sweep->left;
    const double in_use = sweep->closed + sweep->inward + segments->size[left];
    const bool only = left == sweep->right - 1;
    segments->candidate[left] = left;
    if (only || in_use > sweep->peak) {
        segments->drop[left] = in_use - sweep->peak;
        segments->candidate[left + 1] = left + 1;
        sweep->peak = in_use;
    } else {
        segments->candidate[left + 1] = left;
    }
}

void sweep_extend_limited(struct segments *segments, struct sweep *sweep) {
    sweep_extend(segments, sweep, false);
    const int32_t left = sweep->left;
    const struct segment_node *node = &segments->at[left];
    sweep->param += segments->param[left];
    sweep->inward += segments->shared[left];
    const bool read_inside = node->first < sweep->right;
    const bool read_outside = node->sent > 0.0 && node->last >= sweep->right;
    if (read_inside && read_outside)
        sweep->inward -= node->sent;
    add_candidate(segments, sweep);
    if (read_outside)
        add_after(segments, sweep, read_inside ? segments->latest[left] : left, node->sent);
}

int shard_segment_costs(const struct shard_pipeline *problem, const int32_t *order, int32_t right,
                        double *cost) {
    struct arena arena = {0};
    struct segments segments;
    segments_allocate(&segments, &arena, problem);
    int status = arena_status(&arena);
    if (status == SHARD_OK)
        status = segments_lay_out(&segments, problem, order);
    if (status == SHARD_OK) {
        for (int32_t r = 1; r <= right; r++)
            segments_advance(&segments, r);
        struct sweep sweep = sweep_from(right);
        while (sweep.left > 0) {
            sweep_extend(&segments, &sweep, segments.limited);
            cost[sweep.left] = sweep_cost(&segments, &sweep, segments.limited);
        }
    }
    arena_free(&arena);
    return status;
}
