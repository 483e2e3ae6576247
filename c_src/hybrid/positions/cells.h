/* Positions in the pipeline: what the nodes of the last stages cost together, at given prices.
 *
 * The nodes of the last stages form an ideal of the reversed graph. Its position is the sum of the prices of its nodes.
 * The positions 0 .. total are cut into cells. Of an ideal whose position lies in a cell, the settled nodes are known to
 * be members, the open ones may be, and all others are not. */
#pragma once

#include "common/arena.h"
#include "hybrid/fixed_point.h"

/* cffi: begin */

/* Arrays are the caller's and only read. All prices are positive; their sum is below 2^29. */
struct shard_cells {
    int32_t nodes;
    const int64_t *price; /* nodes elements */
    int32_t cells;
    const int64_t *low, *high; /* cells elements: first and last position, ascending */
    const int32_t *order;      /* nodes elements: nodes by when they are settled */
    const int32_t *settled;    /* cells elements: so many nodes of `order` are settled */
    const int64_t *open_start; /* cells + 1 elements */
    const int32_t *open;       /* the open nodes of cell c are open[open_start[c]] .. */
    int32_t spans;
    const int64_t *span; /* spans elements, ascending, the first 0: least distances of two cells */
};
