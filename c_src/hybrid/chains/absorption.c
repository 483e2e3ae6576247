#include "hybrid/chains/absorption.h"

void absorption_init(struct absorption *absorption, struct arena *arena, const struct suffixes *suffixes,
                     struct stage *stage) {
    *absorption = (struct absorption){.suffixes = suffixes, .stage = stage};
    ARENA_ARRAYS(arena, MOST_ABSORBED, absorption->node);
    ARENA_ARRAYS(arena, stage->problem->dag.nodes, absorption->unpaid);
}

void absorption_begin(struct absorption *absorption, int32_t ideal) {
    absorption->ideal = ideal;
    absorption->size = 0;
    absorption->border = absorption->least = 0;
}

void absorption_end(struct absorption *absorption) {
    while (absorption->size)
        absorption->stage->place[absorption->node[--absorption->size]] = BEFORE;
}

/* What the first configuration of a node moves through an end. */
static int128 usual(const struct costs *costs, int32_t v, int64_t end) {
    const struct shard_hybrid *problem = costs->problem;
    const int32_t c = costs->menu[costs->menu_start[(int64_t)v * problem->degrees]];
    return costs->moved[problem->moved_start[c] + end - problem->end_start[v]];
}

/* By how much more crosses the border with a node added. */
static int128 change(const struct absorption *absorption, int32_t v) {
    const struct costs *costs = absorption->stage->costs;
    const struct shard_hybrid *problem = costs->problem;
    int128 sum = 0;
    for (int64_t e = problem->end_start[v]; e < problem->end_start[v + 1]; e++) {
        const int32_t u = problem->neighbour[e];
        const int128 moved = usual(costs, v, e) + usual(costs, u, problem->other_end[e]);
        sum += u > v ? moved : -moved;
    }
    return sum;
}

static void add(struct absorption *absorption, int32_t v) {
    int32_t at = absorption->size++;
    for (; at && absorption->node[at - 1] < v; at--)
        absorption->node[at] = absorption->node[at - 1];
    absorption->node[at] = v;
    absorption->stage->place[v] = INSIDE;
}

bool absorption_grow(struct absorption *absorption) {
    const struct suffixes *suffixes = absorption->suffixes;
    while (absorption->size < MOST_ABSORBED) {
        const int64_t first = suffixes->up_start[absorption->ideal],
                      end = suffixes->up_start[absorption->ideal + 1];
        if (first == end)
            return false;
        int64_t best = first;
        int128 least = change(absorption, suffixes->up_node[first]);
        for (int64_t up = first + 1; up < end; up++) {
            const int128 other = change(absorption, suffixes->up_node[up]);
            if (other < least) {
                least = other;
                best = up;
            }
        }
        absorption->border += least;
        add(absorption, suffixes->up_node[best]);
        absorption->ideal = suffixes->up_ideal[best];
        if (absorption->border <= absorption->least) {
            absorption->least = absorption->border;
            return true;
        }
    }
    return false;
}

/* Least time of a node with what it moves to the ideal. */
static int128 spent(const struct stage *stage, int32_t v, struct menu menu) {
    const struct shard_hybrid *problem = stage->problem;
    int128 least = 0;
    for (int64_t i = 0; i < menu.count; i++) {
        const int32_t c = menu.configuration[i];
        const int128 *moved = stage->costs->moved + problem->moved_start[c];
        int128 time = stage->costs->time[c];
        for (int64_t e = problem->end_start[v]; e < problem->end_start[v + 1]; e++)
            if (stage->place[problem->neighbour[e]] == AFTER)
                time += moved[e - problem->end_start[v]];
        least = !i || time < least ? time : least;
    }
    return least;
}

/* The most that a node moves through an end with a degree. */
static int128 most_moved(const struct costs *costs, int32_t v, int32_t t, int64_t end) {
    const struct menu menu = menu_of(costs, v, t);
    const int64_t j = end - costs->problem->end_start[v];
    int128 most = 0;
    for (int64_t i = 0; i < menu.count; i++) {
        const int128 moved = costs->moved[costs->problem->moved_start[menu.configuration[i]] + j];
        most = moved > most ? moved : most;
    }
    return most;
}

/* Pay what has flown to a node, and pass on the rest; true if all is paid or passed on. */
static bool pay(const struct absorption *absorption, int32_t v, int32_t t) {
    const struct stage *stage = absorption->stage;
    const struct costs *costs = stage->costs;
    const struct shard_hybrid *problem = costs->problem;
    const struct menu menu = menu_of(costs, v, t);
    if (!menu.count)
        return true; /* no stage with this degree has the node */
    int128 unpaid = absorption->unpaid[v];
    for (int64_t e = problem->end_start[v]; e < problem->end_start[v + 1]; e++)
        if (stage->place[problem->neighbour[e]] == BEFORE)
            unpaid += most_moved(costs, problem->neighbour[e], t, problem->other_end[e]);
    unpaid -= spent(stage, v, menu);
    for (int64_t e = problem->end_start[v]; e < problem->end_start[v + 1] && unpaid > 0; e++) {
        const int32_t u = problem->neighbour[e];
        if (u > v || stage->place[u] != INSIDE)
            continue;
        int128 room = unpaid;
        for (int64_t i = 0; i < menu.count; i++) {
            const int64_t first = problem->moved_start[menu.configuration[i]];
            const int128 moved = costs->moved[first + e - problem->end_start[v]];
            room = moved < room ? moved : room;
        }
        absorption->unpaid[u] += room;
        unpaid -= room;
    }
    return unpaid <= 0;
}

bool absorption_is_safe(const struct absorption *absorption) {
    for (int32_t t = 0; t < absorption->stage->problem->degrees; t++) {
        for (int32_t i = 0; i < absorption->size; i++)
            absorption->unpaid[absorption->node[i]] = 0;
        for (int32_t i = 0; i < absorption->size; i++)
            if (!pay(absorption, absorption->node[i], t))
                return false;
    }
    return true;
}
