#include "hybrid/stage.h"

void stage_init(struct stage *stage, struct arena *arena, const struct costs *costs) {
    const struct shard_hybrid *problem = costs->problem;
    const int64_t n = problem->dag.nodes, nt = problem->degrees;
    *stage = (struct stage){.problem = problem, .costs = costs, .limit = costs->limit};
    ARENA_ARRAYS(arena, n, stage->node);
    ARENA_ZEROS(arena, n, stage->place);
    ARENA_ARRAYS(arena, costs->configurations, stage->now);
    ARENA_ARRAYS(arena, (n + 1) * nt * costs->counts, stage->sums);
    ARENA_ARRAYS(arena, (n + 1) * nt, stage->grown);
    if (arena->failed)
        return;
    for (int64_t i = 0; i < nt * costs->counts; i++)
        stage->sums[i] = (struct sums){0};
    for (int32_t t = 0; t < nt; t++)
        stage->grown[t] = (struct growth){.alive = true};
}

/* Add the fastest configuration of a node to the sums of a pair of degrees, or take it out (sign -1). */
static void count_fastest(const struct stage *stage, struct menu menu, int32_t d, int sign,
                          struct sums *sums) {
    const struct costs *costs = stage->costs;
    const int32_t counts = costs->counts;
    int64_t best = menu.configuration[0];
    int128 time = stage->now[best] + costs->extra[best * counts + d];
    for (int64_t i = 1; i < menu.count; i++) {
        const int64_t c = menu.configuration[i];
        const int128 other = stage->now[c] + costs->extra[c * counts + d];
        if (other < time) {
            time = other;
            best = c;
        }
    }
    sums->time += sign * time;
    sums->stashed += sign * costs->stashed[best];
    sums->kept += sign * costs->kept[best * counts + d];
}

/* An edge between two nodes of the stage no longer leaves it: lower the times at one end by what it moved. */
static void keep_inside(struct stage *stage, int32_t v, int64_t end, bool counted) {
    const struct shard_hybrid *problem = stage->problem;
    const struct costs *costs = stage->costs;
    const int64_t j = end - problem->end_start[v];
    for (int32_t t = 0; t < problem->degrees; t++) {
        const struct menu menu = menu_of(costs, v, t);
        if (!menu.count)
            continue;
        const bool uniform = costs->uniform[end * problem->degrees + t];
        struct sums *sums = stage->sums + ((int64_t)stage->size * problem->degrees + t) * costs->counts;
        const bool shown = counted && stage_grown(stage, t)->alive;
        const int128 moved = costs->moved[problem->moved_start[menu.configuration[0]] + j];
        for (int32_t d = 0; shown && d < costs->counts; d++)
            if (uniform)
                sums[d].time -= moved;
            else
                count_fastest(stage, menu, d, -1, sums + d);
        for (int64_t i = 0; i < menu.count; i++)
            stage->now[menu.configuration[i]] -=
                costs->moved[problem->moved_start[menu.configuration[i]] + j];
        for (int32_t d = 0; shown && !uniform && d < costs->counts; d++)
            count_fastest(stage, menu, d, 1, sums + d);
    }
}

/* Add a node to the sums of a tensor-parallel degree. */
static void add_node(struct stage *stage, int32_t v, int32_t t, struct menu menu) {
    const struct shard_hybrid *problem = stage->problem;
    const struct costs *costs = stage->costs;
    struct growth *grown = stage->grown + (int64_t)stage->size * problem->degrees + t;
    struct sums *sums = stage->sums + ((int64_t)stage->size * problem->degrees + t) * costs->counts;
    int128 certain = 0, stashed = 0;
    for (int64_t i = 0; i < menu.count; i++) {
        const int64_t c = menu.configuration[i];
        int128 time = costs->time[c];
        const int128 *moved = costs->moved + problem->moved_start[c];
        for (int64_t e = problem->end_start[v]; e < problem->end_start[v + 1]; e++)
            if (stage->place[problem->neighbour[e]] == AFTER)
                time += moved[e - problem->end_start[v]];
        certain = !i || time < certain ? time : certain;
        stashed = !i || costs->stashed[c] < stashed ? costs->stashed[c] : stashed;
    }
    grown->certain += certain;
    grown->least_stashed += stashed;
    for (int32_t d = 0; d < costs->counts; d++) {
        count_fastest(stage, menu, d, 1, sums + d);
        int64_t c = menu.configuration[0];
        int128 kept = costs->kept[c * costs->counts + d];
        int128 synchronised = costs->synchronised ? costs->synchronised[c * costs->counts + d] : 0;
        for (int64_t i = 1; i < menu.count; i++) {
            c = menu.configuration[i];
            const int128 other = costs->kept[c * costs->counts + d];
            kept = other < kept ? other : kept;
            if (costs->synchronised && costs->synchronised[c * costs->counts + d] < synchronised)
                synchronised = costs->synchronised[c * costs->counts + d];
        }
        sums[d].least_kept += kept;
        sums[d].synchronised += synchronised;
    }
}

/* True if a stage that contains this one may meet the limits: with the most replicas, if with any number. */
static bool may_grow(const struct stage *stage, int32_t t) {
    const struct costs *costs = stage->costs;
    const struct growth *grown = stage_grown(stage, t);
    int32_t i = costs->counts - 1;
    while (i >= 0 && stage->problem->replicas[i] * stage->problem->degree[t] > stage->devices)
        i--;
    if (i < 0)
        return false;
    const int64_t d = stage->problem->replicas[i];
    if (grown->certain > stage_limit(stage, d))
        return false;
    /* A stage takes at least t * time / limit devices, and the nodes before it at least work / limit: no less once a node
     * of these joins the stage. */
    if (!costs->synchronised &&
        grown->certain * stage->problem->degree[t] + stage->before > stage->limit * stage->devices)
        return false;
    return grown->least_stashed * in_flight(stage->least_after, d) + stage_sums(stage, t, i)->least_kept <=
           costs->room;
}

bool stage_push(struct stage *stage, int32_t v) {
    const struct shard_hybrid *problem = stage->problem;
    const struct costs *costs = stage->costs;
    const int64_t nt = problem->degrees, row = nt * costs->counts;
    struct growth *grown = stage->grown + (stage->size + 1) * nt;
    memcpy(grown, grown - nt, (size_t)nt * sizeof *grown);
    for (int32_t t = 0; t < nt; t++)
        if (grown[t].alive) {
            const int64_t at = (stage->size * nt + t) * costs->counts;
            memcpy(stage->sums + at + row, stage->sums + at, (size_t)costs->counts * sizeof *stage->sums);
            grown[t].alive = menu_of(costs, v, t).count > 0;
        }
    stage->node[stage->size++] = v;
    stage->before -= stage->work[v];
    for (int64_t i = costs->menu_start[v * nt]; i < costs->menu_start[(v + 1) * nt]; i++)
        stage->now[costs->menu[i]] = costs->alone[costs->menu[i]];
    for (int64_t e = problem->end_start[v]; e < problem->end_start[v + 1]; e++)
        if (stage->place[problem->neighbour[e]] == INSIDE) {
            keep_inside(stage, v, e, false);
            keep_inside(stage, problem->neighbour[e], problem->other_end[e], true);
        }
    stage->place[v] = INSIDE;
    bool alive = false;
    for (int32_t t = 0; t < nt; t++)
        if (grown[t].alive) {
            add_node(stage, v, t, menu_of(costs, v, t));
            grown[t].alive = may_grow(stage, t);
            alive |= grown[t].alive;
        }
    return alive;
}

void stage_pop(struct stage *stage) {
    const struct shard_hybrid *problem = stage->problem;
    const int32_t v = stage->node[--stage->size];
    stage->place[v] = BEFORE;
    stage->before += stage->work[v];
    for (int64_t e = problem->end_start[v]; e < problem->end_start[v + 1]; e++) {
        const int32_t u = problem->neighbour[e];
        if (stage->place[u] != INSIDE)
            continue;
        const int64_t j = problem->other_end[e] - problem->end_start[u];
        for (int64_t i = stage->costs->menu_start[(int64_t)u * problem->degrees];
             i < stage->costs->menu_start[(int64_t)(u + 1) * problem->degrees]; i++) {
            const int32_t c = stage->costs->menu[i];
            stage->now[c] += stage->costs->moved[problem->moved_start[c] + j];
        }
    }
}
