/* A vertex starts no earlier than those before it let it, nor sooner after one before it, for the best device
 * of that one, than what runs between the two takes. Behind a vertex the same holds backwards. */
#include "scheduling/bounds/heads_tails.h"

#include <math.h>

#include "scheduling/bounds/head_bounds.h"
#include "scheduling/bounds/pair_lags.h"

/* A graph in one direction. */
struct side {
    struct shard_system system;
    struct shard_groups groups;
    const int32_t *order;
    struct since since;
    double *start;
};

static int64_t most_inputs(const struct side *side) {
    int64_t most = 0;
    for (int32_t v = 0; v < side->system.nodes; v++)
        if (side->groups.in_start[v + 1] - side->groups.in_start[v] > most)
            most = side->groups.in_start[v + 1] - side->groups.in_start[v];
    return most;
}

/* What passes between a vertex and one behind it raises the start of the latter; `lag` by their devices, that
 * of the first one `along` apart, that of the second `across`. */
static void raise(const struct side *side, int32_t first, int32_t second, const double *lag, size_t along,
                  size_t across) {
    const size_t k = (size_t)side->system.devices;
    const double *start = side->start + (size_t)first * k;
    const double complexity = side->system.complexity[first];
    double *raised = side->start + (size_t)second * k;
    for (size_t d = 0; d < k; d++) {
        double least = INFINITY;
        for (size_t from = 0; from < k; from++)
            least = lesser(least, start[from] + complexity / side->system.speed[from] +
                                      lag[from * along + d * across]);
        raised[d] = greater(raised[d], least);
    }
}

/* Bounds for one direction, with what is known of both; the arena fails if there is no memory. */
static void pass(const struct side *side, const struct since *back, struct arena *arena, int32_t window) {
    const size_t k = (size_t)side->system.devices;
    const struct since *since = &side->since;
    struct starts *starts =
        starts_new(arena, &side->system, &side->groups, window, most_inputs(side), side->start);
    if (arena->failed)
        return;
    starts_order(starts, side->order, side->system.nodes);
    for (int32_t i = 0; i < side->system.nodes; i++) {
        const int32_t v = side->order[i];
        for (int64_t j = back->first ? back->first[v] : 0; back->first && j < back->first[v + 1]; j++)
            raise(side, back->behind[j], v, back->lag + (size_t)j * k * k, 1, k);
        starts_vertex(starts, v);
        for (int64_t j = since->first ? since->first[v] : 0; since->first && j < since->first[v + 1]; j++)
            raise(side, v, since->behind[j], since->lag + (size_t)j * k * k, k, 1);
    }
}

/* The graph and the links the other way round. */
static void turn(const struct side *side, struct side *back, double *bandwidth) {
    const size_t k = (size_t)side->system.devices;
    for (size_t from = 0; from < k; from++)
        for (size_t to = 0; to < k; to++)
            bandwidth[to * k + from] = side->system.bandwidth[from * k + to];
    back->system = side->system;
    back->system.out_start = side->groups.in_start;
    back->system.out_head = side->groups.in_tail;
    back->system.size = side->groups.in_size;
    back->system.bandwidth = bandwidth;
    back->groups = side->groups;
    back->groups.in_start = side->system.out_start;
    back->groups.in_tail = side->system.out_head;
    back->groups.in_size = side->system.size;
}

int shard_earliest(const struct shard_system *system, const struct shard_groups *groups, const int32_t *order,
                   const int32_t *back, int32_t window, int32_t reach, double *start, double *behind) {
    struct arena arena = {0};
    double *bandwidth;
    if (ARENA_ARRAY(&arena, bandwidth, (int64_t)system->devices * system->devices)) {
        struct side side[2] = {{.system = *system, .groups = *groups, .order = order, .start = start},
                               {.order = back, .start = behind}};
        turn(side, side + 1, bandwidth);
        for (int i = 0; i < 2 && reach; i++)
            since_fill(&side[i].since, &arena, &side[i].system, &side[i].groups, side[i].order, window,
                       reach);
        for (int i = 0; i < 2; i++)
            pass(side + i, &side[1 - i].since, &arena, window);
    }
    const int status = arena_status(&arena);
    arena_free(&arena);
    return status;
}
