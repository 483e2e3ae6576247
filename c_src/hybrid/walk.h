/* All stages on top of an ideal, each grown from a smaller one by a node. */
#pragma once

#include "hybrid/suffixes.h"

/* How far the growth of an ideal has come. */
struct branch {
    int32_t ideal;
    int64_t up; /* index of the next node, see suffixes */
};

struct walk {
    struct stage *stage;
    struct branch *path; /* nodes + 1 elements: by size of the stage */
    const struct suffixes *suffixes;
    const int32_t *stop; /* 1 element: not 0 once another thread asks to end; NULL: never */
    bool (*visit)(void *context,
                  int32_t target); /* the stage is `target` without the base; false: end all walks */
    void *context;
    bool stopped, over; /* asked to end; ended for any reason */
};

/* Visit the stages on top of `ideal`, for which mark_after has been called, that end at a border and have a degree that is
 * alive; if `whole`, only the stage of all nodes before. */
void walk_from(struct walk *walk, int32_t ideal, bool whole);

/* While a chain of ideals is followed down: give the nodes of `ideal` the number after `number`, and put those that keep
 * `number` into the empty stage.
 *
 *   numbers  in and out, nodes elements; 0 before the first call */
void rebuild_stage(const struct suffixes *suffixes, struct stage *stage, int32_t ideal, int32_t number,
                   int32_t *numbers);

/* Empty the stage, and note the configurations chosen for its nodes. */
void take_apart(struct stage *stage, const int32_t *chosen, int64_t *configuration);
