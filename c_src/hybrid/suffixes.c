#include "hybrid/suffixes.h"

/* Invert the links, sorted by ideal, then by node. */
static void fill_links(struct suffixes *suffixes, int64_t nodes, int64_t *first, int32_t *sorted,
                       int32_t *owner) {
    const struct ideals *ideals = &suffixes->ideals;
    const int64_t links = ideals->link_start[ideals->count];
    for (int64_t l = 0; l < links; l++)
        first[ideals->link_node[l] + 1]++;
    for (int64_t v = 0; v < nodes; v++)
        first[v + 1] += first[v];
    for (int64_t i = 0; i < ideals->count; i++)
        for (int64_t l = ideals->link_start[i]; l < ideals->link_start[i + 1]; l++) {
            owner[l] = (int32_t)i;
            sorted[first[ideals->link_node[l]]++] = (int32_t)l;
        }
    int64_t *start = suffixes->up_start;
    for (int64_t l = 0; l < links; l++)
        start[ideals->link_ideal[l] + 1]++;
    for (int64_t i = 0; i < ideals->count; i++)
        start[i + 1] += start[i];
    for (int64_t at = 0; at < links; at++) {
        const int32_t l = sorted[at];
        const int64_t to = start[ideals->link_ideal[l]]++;
        suffixes->up_node[to] = ideals->link_node[l];
        suffixes->up_ideal[to] = owner[l];
    }
    for (int64_t i = ideals->count; i > 0; i--)
        start[i] = start[i - 1];
    start[0] = 0;
}

/* Least values of a node over all its configurations. */
struct least {
    int128 work, time;
    double stashed, device_stashed;
    int64_t degree; /* 0: it has no configuration */
};

static struct least least_of(const struct costs *costs, int32_t v) {
    const struct shard_hybrid *problem = costs->problem;
    const double room = (double)costs->room;
    const int128 most = costs->limit * problem->devices; /* times of all replicas' devices together */
    struct least least = {0};
    for (int32_t t = 0; t < problem->degrees; t++) {
        const struct menu menu = menu_of(costs, v, t);
        const int64_t degree = problem->degree[t];
        for (int64_t i = 0; i < menu.count; i++) {
            const int32_t c = menu.configuration[i];
            if (costs->time[c] > most / degree)
                continue;
            const int128 work = costs->time[c] * degree;
            const double stashed = room > 0 ? (double)costs->stashed[c] / room : 0;
            if (!least.degree || work < least.work)
                least.work = work;
            if (!least.degree || costs->time[c] < least.time)
                least.time = costs->time[c];
            if (!least.degree || stashed < least.stashed)
                least.stashed = stashed;
            if (!least.degree || stashed * (double)degree < least.device_stashed)
                least.device_stashed = stashed * (double)degree;
            if (!least.degree)
                least.degree = degree;
        }
    }
    return least;
}

bool suffixes_init(struct suffixes *suffixes, struct arena *arena, const struct costs *costs,
                   struct ideals ideals) {
    const int64_t n = costs->problem->dag.nodes, count = ideals.count, links = ideals.link_start[count];
    int64_t *first;
    int32_t *sorted, *owner;
    struct least *least;
    *suffixes = (struct suffixes){.ideals = ideals};
    ARENA_ZEROS(arena, count + 2, suffixes->up_start);
    ARENA_ARRAYS(arena, links, suffixes->up_node, suffixes->up_ideal, sorted, owner);
    ARENA_ARRAYS(arena, count, suffixes->work, suffixes->time, suffixes->stashed, suffixes->device_stashed,
                 suffixes->growth, suffixes->least_degree);
    ARENA_ZEROS(arena, n + 2, first);
    ARENA_ARRAYS(arena, n, least, suffixes->node_work);
    if (arena->failed)
        return false;
    fill_links(suffixes, n, first, sorted, owner);
    suffixes->work[count - 1] = suffixes->time[count - 1] = 0;
    suffixes->stashed[count - 1] = suffixes->device_stashed[count - 1] = 0;
    suffixes->growth[count - 1] = 0;
    suffixes->least_degree[count - 1] = 0;
    for (int32_t v = 0; v < n; v++) {
        least[v] = least_of(costs, v);
        if (!least[v].degree)
            return false;
        suffixes->node_work[v] = least[v].work;
    }
    for (int64_t i = count - 2; i >= 0; i--) {
        const int64_t up = suffixes->up_start[i];
        const struct least *one = least + suffixes->up_node[up];
        const int32_t larger = suffixes->up_ideal[up];
        suffixes->work[i] = suffixes->work[larger] + one->work;
        suffixes->time[i] = suffixes->time[larger] + one->time;
        suffixes->stashed[i] = suffixes->stashed[larger] + one->stashed;
        suffixes->device_stashed[i] = suffixes->device_stashed[larger] + one->device_stashed;
        suffixes->growth[i] = expm1(suffixes->stashed[i]) * (1 - 1e-8);
        suffixes->least_degree[i] =
            suffixes->least_degree[larger] > one->degree ? suffixes->least_degree[larger] : one->degree;
    }
    return true;
}

void mark_after(const struct suffixes *suffixes, struct stage *stage, int32_t ideal) {
    stage->work = suffixes->node_work;
    stage->before = suffixes->work[ideal];
    memset(stage->place, BEFORE, (size_t)stage->problem->dag.nodes * sizeof *stage->place);
    for (int64_t i = ideal; i > 0;) {
        const int64_t link = suffixes->ideals.link_start[i];
        stage->place[suffixes->ideals.link_node[link]] = AFTER;
        i = suffixes->ideals.link_ideal[link];
    }
}
