/* The set of items of greatest profit whose load, transfers included, is at most a limit. */
#pragma once

#include "common/status.h"

/* cffi: begin */

/* A decision diagram of all sets: in layer i, every state decides on item i. The states of layer i are
 * layer[i] .. layer[i + 1] - 1, for i up to `items`; the first and the last layer have one state each.
 *
 *   layer  items + 2 elements
 *   next   2 * states elements: next[2 * s + 1] is the state of the next layer if the item of s is in the set,
 *          next[2 * s] if it is not; unused in the last layer
 *   pay    2 * states elements: load added by either choice, without the work of the item; not negative
 *   start  states + 1 elements: of[start[s] .. start[s + 1] - 1] are the indices in `next` that lead to s
 *   of     2 * layer[items] elements
 *   work   items elements: what an item adds to the load; -1 if no set may have it
 *
 * All work and pay of any path are together at most 2^40. All arrays are read only. */
struct shard_set_diagram {
    int32_t items;
    const int64_t *layer;
    const int32_t *next;
    const int64_t *pay;
    const int64_t *start;
    const int32_t *of;
    const int64_t *work;
};

/* Find a set of greatest profit, above `floor`, among those with a load of at most `limit`. Labels are pairs of
 * load and profit; dominated ones, and ones that cannot rise above the floor, are dropped.
 *
 *   profit   in,  items elements, of any sign; their absolute values together at most 2^30
 *   limit    in,  from 0 to 2^40
 *   floor    in,  from 0 to 2^30
 *   most     in,  labels of a layer, from 1 to 2^30: beyond, near ones become one
 *   relaxed  in,  not 0: with the least load and the greatest profit of these, else as one of them
 *   stop     in,  1 element: the search ends soon after another thread sets it to 1
 *   chosen   out, items elements: 1 for the items of the set found, all 0 if there is none; if relaxed, its load
 *            may exceed the limit
 *   bound    out, 1 element: no set within the limit has a greater profit, if relaxed or if there were never too
 *            many labels; -1 if the search was stopped
 * Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_best_set(const struct shard_set_diagram *diagram, const int64_t *profit, int64_t limit,
                   int64_t floor, int64_t most, int32_t relaxed, const int32_t *stop, int8_t *chosen,
                   int64_t *bound);
