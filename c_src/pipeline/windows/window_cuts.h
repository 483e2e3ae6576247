/* Tensors that must cross between stages: minimum cuts in windows of work. */
#pragma once

#include "common/status.h"

/* cffi: begin */

/* Bound from below the size of all tensors that cross between stages if no stage does more than `window` work.
 *
 * Stages in topological order end at ideals, sets that hold all ancestors of their nodes. For each j, one of
 * them does more than j * window work, and at most (j + 1) * window. The tensors that leave it, of which some
 * reader is outside, weigh at least a minimum cut, each with what earlier windows have left of its size.
 *
 *   start   in,  nodes + 1 elements: the tensor of u is read by head[start[u] .. start[u + 1] - 1]
 *   size    in,  nodes elements, not negative, at most 2^50 together
 *   before  in,  nodes elements: at most the work of the node and its ancestors
 *   after   in,  nodes elements: at most that of the node and its descendants
 *   total   all work, at most 2^50; no node does more than `window`, which is positive
 *   stop    in,  1 element: later windows are left out soon after another thread sets it to 1
 *   bound   out, 1 element
 *   moved   out, NULL or (total - 1) / window rows of as many elements as `head`, 0 at first: by window and edge, what
 *           the flow moves of a tensor towards a reader, less what it moves back
 * Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_window_cuts(int32_t nodes, const int64_t *start, const int32_t *head, const int64_t *size,
                      const int64_t *before, const int64_t *after, int64_t total, int64_t window,
                      const int32_t *stop, int64_t *bound, int64_t *moved);
