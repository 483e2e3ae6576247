/* The published greedy choice of configurations. */
#pragma once

#include "hybrid/choices/choice.h"

/* Start from the fastest configurations and save time per byte until the stage fits, as the published program does; the
 * time, -1 if even the choice of least memory does not fit or the time exceeds the limit. `chosen` then has the
 * configurations. Menus of at most two: in one pass by ascending ratio of time to bytes, ties by node. Else step by
 * step, where savings count only as far as they are needed. */
int128 choose_greedily(struct chooser *chooser, int32_t t, int32_t d, int64_t y, int128 limit);
