/* The head of a vertex follows from the vertices before it: from each alone, on its best device, and from
 * pair lags. Tails are the heads of the reversed graph. */
#include "scheduling/bounds/heads_tails.h"

#include "scheduling/bounds/head_bounds.h"
#include "scheduling/bounds/pair_lags.h"

/* The graph in one direction. */
struct direction {
    struct shard_system system;
    struct shard_units units;
    const int32_t *order;
    struct pair_lags lags;
    double *start;
};

static int64_t most_inputs(const struct direction *direction) {
    int64_t most = 0;
    for (int32_t v = 0; v < direction->system.nodes; v++)
        if (direction->units.in_start[v + 1] - direction->units.in_start[v] > most)
            most = direction->units.in_start[v + 1] - direction->units.in_start[v];
    return most;
}

/* Raise the start of a vertex by the lag from an earlier one. `lag` has an element per pair of devices: those
 * of the first vertex are `along` apart, those of the second `across`. */
static void raise_follower(const struct direction *direction, int32_t first, int32_t second,
                           const double *lag, size_t along, size_t across) {
    const size_t k = (size_t)direction->system.devices;
    const double *start = direction->start + (size_t)first * k;
    const double complexity = direction->system.complexity[first];
    double *raised = direction->start + (size_t)second * k;
    for (size_t d = 0; d < k; d++) {
        double least = INFINITY;
        for (size_t from = 0; from < k; from++)
            least = lesser(least, start[from] + complexity / direction->system.speed[from] +
                                      lag[from * along + d * across]);
        raised[d] = greater(raised[d], least);
    }
}

/* Bound starts in one direction by the pair lags of both; the arena fails if there is no memory. */
static void bound_direction(const struct direction *direction, const struct pair_lags *back,
                            struct arena *arena, int32_t ancestors, int32_t branches) {
    const size_t k = (size_t)direction->system.devices;
    const struct pair_lags *lags = &direction->lags;
    struct head_bounds *heads = head_bounds_new(arena, &direction->system, &direction->units, ancestors,
                                                most_inputs(direction), branches, direction->start);
    if (arena->failed)
        return;
    head_bounds_set_order(heads, direction->order, direction->system.nodes);
    for (int32_t i = 0; i < direction->system.nodes; i++) {
        const int32_t v = direction->order[i];
        for (int64_t j = back->first[v]; j < back->first[v + 1]; j++)
            raise_follower(direction, back->follower[j], v, back->lag + (size_t)j * k * k, 1, k);
        head_bounds_raise(heads, v);
        for (int64_t j = lags->first[v]; j < lags->first[v + 1]; j++)
            raise_follower(direction, v, lags->follower[j], lags->lag + (size_t)j * k * k, k, 1);
    }
}

/* Reverse the graph and the links. */
static void reverse(const struct direction *direction, struct direction *back, double *bandwidth) {
    const size_t k = (size_t)direction->system.devices;
    for (size_t from = 0; from < k; from++)
        for (size_t to = 0; to < k; to++)
            bandwidth[to * k + from] = direction->system.bandwidth[from * k + to];
    back->system = direction->system;
    back->system.out_start = direction->units.in_start;
    back->system.out_head = direction->units.in_tail;
    back->system.size = direction->units.in_size;
    back->system.bandwidth = bandwidth;
    back->units = direction->units;
    back->units.in_start = direction->system.out_start;
    back->units.in_tail = direction->system.out_head;
    back->units.in_size = direction->system.size;
}

int shard_heads_tails(const struct shard_system *system, const struct shard_units *units,
                      const int32_t *order, const int32_t *back, int32_t ancestors, int32_t reach,
                      int32_t branches, double *start, double *behind) {
    struct arena arena = {0};
    double *bandwidth;
    if (ARENA_ARRAYS(&arena, (int64_t)system->devices * system->devices, bandwidth)) {
        struct direction directions[2] = {
            {.system = *system, .units = *units, .order = order, .start = start},
            {.order = back, .start = behind}};
        reverse(directions, directions + 1, bandwidth);
        for (int i = 0; i < 2; i++)
            pair_lags_fill(&directions[i].lags, &arena, &directions[i].system, &directions[i].units,
                           directions[i].order, ancestors, reach, branches);
        for (int i = 0; i < 2; i++)
            bound_direction(directions + i, &directions[1 - i].lags, &arena, ancestors, branches);
    }
    const int status = arena_status(&arena);
    arena_free(&arena);
    return status;
}

struct heads_tails {
    struct direction directions[2];
    struct head_bounds *heads[2];
    double *bandwidth;
    double *old;       /* devices elements: the bounds of a vertex before it was raised */
    int32_t *distance; /* nodes elements: edges on the shortest path from a changed vertex */
    int32_t farthest;  /* distance at which a vertex may still follow from a changed one */
};

struct heads_tails *heads_tails_new(struct arena *arena, const struct shard_system *system,
                                    const struct shard_units *units, const int32_t *order,
                                    const int32_t *back, int32_t ancestors, double *start, double *behind) {
    struct heads_tails *ends;
    ARENA_ARRAYS(arena, 1, ends);
    if (arena->failed)
        return NULL;
    ARENA_ARRAYS(arena, (int64_t)system->devices * system->devices, ends->bandwidth);
    ARENA_ARRAYS(arena, system->devices, ends->old);
    ARENA_ARRAYS(arena, system->nodes, ends->distance);
    if (arena->failed)
        return NULL;
    ends->directions[0] =
        (struct direction){.system = *system, .units = *units, .order = order, .start = start};
    ends->directions[1] = (struct direction){.order = back, .start = behind};
    reverse(ends->directions, ends->directions + 1, ends->bandwidth);
    ends->farthest = ancestors > 1 ? ancestors : 1;
    for (int i = 0; i < 2 && !arena->failed; i++) {
        const struct direction *direction = ends->directions + i;
        ends->heads[i] = head_bounds_new(arena, &direction->system, &direction->units, ancestors,
                                         most_inputs(direction), 0, direction->start);
        if (!arena->failed)
            head_bounds_set_order(ends->heads[i], direction->order, system->nodes);
    }
    return arena->failed ? NULL : ends;
}

/* Edges on the shortest path to a vertex from a changed one before it; far more if there is none near. */
static int32_t nearest_change(const struct heads_tails *ends, const struct direction *direction, int32_t v) {
    int32_t nearest = ends->farthest;
    for (int64_t e = direction->units.in_start[v]; e < direction->units.in_start[v + 1]; e++)
        if (ends->distance[direction->units.in_tail[e]] < nearest)
            nearest = ends->distance[direction->units.in_tail[e]];
    return nearest + 1;
}

/* Raise the bounds of a vertex; true if any has grown. */
static bool raise_vertex(const struct heads_tails *ends, int i, int32_t v) {
    const size_t k = (size_t)ends->directions[i].system.devices;
    const double *start = ends->directions[i].start + (size_t)v * k;
    memcpy(ends->old, start, k * sizeof *start);
    head_bounds_raise(ends->heads[i], v);
    return memcmp(ends->old, start, k * sizeof *start) != 0;
}

void heads_tails_raise(struct heads_tails *ends, bool *head_changed, bool *tail_changed) {
    for (int i = 0; i < 2; i++) {
        const struct direction *direction = ends->directions + i;
        bool *changed = i ? tail_changed : head_changed;
        for (int32_t j = 0; j < direction->system.nodes; j++) {
            const int32_t v = direction->order[j], near = nearest_change(ends, direction, v);
            if (!changed[v] && near > ends->farthest)
                head_bounds_keep(ends->heads[i], v);
            else
                changed[v] |= raise_vertex(ends, i, v);
            ends->distance[v] = changed[v] ? 0 : near;
            changed[v] = false;
        }
    }
}
