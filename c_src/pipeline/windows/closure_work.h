/* Work of the ancestors of each node. */
#pragma once

#include "common/status.h"

/* cffi: begin */

/* Add up the work of each node and of all nodes from which a path leads to it; for descendants, reverse the
 * edges and the order.
 *
 *   order    in,  nodes elements: a topological order
 *   start    in,  nodes + 1 elements: edges to v come from tail[start[v] .. start[v + 1] - 1]
 *   work     in,  nodes elements, not negative, at most 2^50 together
 *   stop     in,  1 element: the sums stay incomplete, too small, soon after another thread sets it to 1
 *   closure  out, nodes elements
 * O(nodes * (nodes + edges) / 64). Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_closure_work(int32_t nodes, const int32_t *order, const int64_t *start, const int32_t *tail,
                       const int64_t *work, const int32_t *stop, int64_t *closure);
