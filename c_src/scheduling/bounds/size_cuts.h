/* Search of the sets of one size that may have started, by minimum cuts of what is held (ours). */
#pragma once

#include "scheduling/bounds/held.h"

/* cffi: begin */

/* Search all sets of vertices that may have finished (1 layer) or started (2) and whose size is in a range, by branch
 * and bound. A node of the tree has vertices that are in the set, with all before them, and others that are not, with
 * all behind them. Its bound is a minimum cut in which each counted vertex has a price or a reward, the same for all
 * (a Lagrangian relaxation of the size).
 *
 *   cut      in,  number of the cut whose prices hold
 *   counted  in,  nodes elements: 1 for vertices that count in the size, else 0
 *   least, most  in, the range of sizes
 *   seconds  in,  time after which the search ends
 *   share    out, 1 element: 1 if memory overflows in every such set. Else less: the share of the tree in which it
 *                 does, by what the search has seen; 0 if some set fits, so that more time would not help
 * All memory is the caller's. Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_size_cuts(const struct shard_system *system, const struct shard_held *held, int32_t cut,
                    const int8_t *counted, int64_t least, int64_t most, double seconds, double *share);
/* cffi: end */
