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
                            struct arena *arena, int32_t window, int32_t branches) {
    const size_t k = (size_t)direction->system.devices;
    const struct pair_lags *lags = &direction->lags;
    struct head_bounds *heads = head_bounds_new(arena, &direction->system, &direction->units, window,
                                                most_inputs(direction), branches, direction->start);
    if (arena->failed)
        return;
    head_bounds_set_order(heads, direction->order, direction->system.nodes);
    for (int32_t i = 0; i < direction->system.nodes; i++) {
        const int32_t v = direction->order[i];
        for (int64_t j = back->first ? back->first[v] : 0; back->first && j < back->first[v + 1]; j++)
            raise_follower(direction, back->follower[j], v, back->lag + (size_t)j * k * k, 1, k);
        head_bounds_raise(heads, v);
        for (int64_t j = lags->first ? lags->first[v] : 0; lags->first && j < lags->first[v + 1]; j++)
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
                      const int32_t *order, const int32_t *back, int32_t window, int32_t reach,
                      int32_t branches, double *start, double *behind) {
    struct arena arena = {0};
    double *bandwidth;
    if (ARENA_ARRAYS(&arena, (int64_t)system->devices * system->devices, bandwidth)) {
        struct direction directions[2] = {
            {.system = *system, .units = *units, .order = order, .start = start},
            {.order = back, .start = behind}};
        reverse(directions, directions + 1, bandwidth);
        for (int i = 0; i < 2 && reach; i++)
            pair_lags_fill(&directions[i].lags, &arena, &directions[i].system, &directions[i].units,
                           directions[i].order, window, reach, branches);
        for (int i = 0; i < 2; i++)
            bound_direction(directions + i, &directions[1 - i].lags, &arena, window, branches);
    }
    const int status = arena_status(&arena);
    arena_free(&arena);
    return status;
}
