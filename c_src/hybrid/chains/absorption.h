/* Larger ideals that are never worse to go on from, so that many ideals need not be extended. */
#pragma once

#include "hybrid/suffixes.h"

/* Nodes that might join the ideal from which stages grow. */
struct absorption {
    const struct suffixes *suffixes;
    struct stage *stage;
    int32_t ideal; /* the one with all of the nodes */
    int32_t size;
    int32_t *node;  /* MOST_ABSORBED elements, descending */
    int128 *unpaid; /* nodes elements, of which those of `node` are used */
    int128 border;  /* what crosses `ideal`, less what crossed the first one */
    int128 least;   /* of all so far */
};

/* Nodes that join at most. */
#define MOST_ABSORBED 48

/* Allocate; the arena fails if there is no memory. */
void absorption_init(struct absorption *absorption, struct arena *arena, const struct suffixes *suffixes,
                     struct stage *stage);

/* Begin with an ideal, for which mark_after has been called. End before the stage grows. */
void absorption_begin(struct absorption *absorption, int32_t ideal);
void absorption_end(struct absorption *absorption);

/* Add nodes up to the next ideal whose border moves no more than those before; false if there is none near. */
bool absorption_grow(struct absorption *absorption);

/* True if no stage that follows the first ideal gets slower, or holds more, without the nodes that were added: so a state
 * of the larger ideal dominates one of the first with no fewer devices and no smaller sum.
 *
 * A stage that loses the nodes Y moves more on the edges from its other nodes to Y, and no longer takes the time of Y,
 * nor moves what left the stage from Y. A flow pays the former by the latter: from each node, along edges among those
 * added, each edge carrying at most what it moves. What leaves Y on the way moved out of the stage. */
bool absorption_is_safe(const struct absorption *absorption);
