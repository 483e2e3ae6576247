#include "hybrid/walk.h"

#include "common/stop.h"

/* Grow the stage from `ideal` by nodes beyond `last`, in all ways. */
static void grow(struct walk *walk, int32_t ideal, int32_t last) {
    const struct suffixes *suffixes = walk->suffixes;
    if (is_stopped(walk->stop))
        walk->stopped = walk->over = true;
    for (int64_t up = suffixes->up_start[ideal]; up < suffixes->up_start[ideal + 1] && !walk->over; up++) {
        const int32_t v = suffixes->up_node[up], target = suffixes->up_ideal[up];
        if (v <= last)
            continue;
        if (stage_push(walk->stage, v)) {
            walk->over |= !walk->visit(walk->context, target);
            grow(walk, target, v);
        }
        stage_pop(walk->stage);
    }
}

/* Put all nodes before the base into the stage. */
static void complete(struct walk *walk) {
    int32_t size = 0;
    bool alive = true;
    for (int32_t v = 0; v < walk->stage->problem->dag.nodes && alive; v++)
        if (walk->stage->place[v] == BEFORE) {
            alive = stage_push(walk->stage, v);
            size++;
        }
    if (alive)
        walk->over |= !walk->visit(walk->context, (int32_t)(walk->suffixes->ideals.count - 1));
    while (size--)
        stage_pop(walk->stage);
    if (is_stopped(walk->stop))
        walk->stopped = walk->over = true;
}

void walk_from(struct walk *walk, int32_t ideal, bool whole) {
    mark_after(walk->suffixes, walk->stage, ideal);
    if (whole)
        complete(walk);
    else
        grow(walk, ideal, -1);
}

void rebuild_stage(const struct suffixes *suffixes, struct stage *stage, int32_t ideal, int32_t number,
                   int32_t *numbers) {
    const int32_t n = stage->problem->dag.nodes;
    mark_after(suffixes, stage, ideal);
    for (int32_t v = 0; v < n; v++)
        if (stage->place[v] == AFTER)
            numbers[v] = number + 1;
    for (int32_t v = 0; v < n; v++)
        if (numbers[v] == number)
            (void)stage_push(stage, v);
}

void take_apart(struct stage *stage, const int32_t *chosen, int64_t *configuration) {
    for (int32_t p = 0; p < stage->size; p++)
        configuration[stage->node[p]] = chosen[p];
    while (stage->size)
        stage_pop(stage);
}
