#include "hybrid/walk.h"

#include "common/stop.h"

/* Grow the stage from `ideal` in all ways, by nodes in ascending order. */
static void grow(struct walk *walk, int32_t ideal) {
    const struct suffixes *suffixes = walk->suffixes;
    struct stage *stage = walk->stage;
    walk->path[0] = (struct branch){ideal, suffixes->up_start[ideal]};
    while (!walk->over) {
        struct branch *at = walk->path + stage->size;
        if (is_stopped(walk->stop)) {
            walk->stopped = walk->over = true;
        } else if (at->up == suffixes->up_start[at->ideal + 1]) {
            if (!stage->size)
                return;
            stage_pop(stage);
        } else {
            const int32_t v = suffixes->up_node[at->up], target = suffixes->up_ideal[at->up++];
            if (stage->size && v <= stage->node[stage->size - 1])
                continue;
            if (stage_push(stage, v)) {
                if (!suffixes->ideals.border || suffixes->ideals.border[target])
                    walk->over |= !walk->visit(walk->context, target);
                walk->path[stage->size] = (struct branch){target, suffixes->up_start[target]};
            } else {
                stage_pop(stage);
            }
        }
    }
    while (stage->size)
        stage_pop(stage);
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
    if (whole)
        complete(walk);
    else
        grow(walk, ideal);
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
