/* Branch and bound over the possible sets of started vertices at some moment, by minimum cuts (ours). */
#pragma once

#include "scheduling/simulation/simulate.h"

/* cffi: begin */

/* Devices hold the tensors from vertices that have finished to vertices that have not started.
 *
 *   parts   edges elements, by tail: size of each tensor, >= 0
 *   prices  nodes elements, >= 0: price of a vertex that has started and not finished; NULL if none counts
 *   enough  > 0: memory overflows if this much is held, prices included
 *   whole   more than all parts together and than each price, at most 2^44; the capacity of uncuttable arcs
 *
 * All arrays are the caller's and are only read. */
struct shard_held {
    const int64_t *parts, *prices;
    int64_t enough, whole;
};

/* Search all sets of vertices that may have started (finished, without prices) and whose size is in a range, by branch
 * and bound. A node of the tree has vertices that are in the set, with all before them, and others that are not, with
 * all behind them. Its bound is a minimum cut in which each counted vertex has a price or a reward, the same for all
 * (a Lagrangian relaxation of the size). With a range that leaves out no set, the first cut decides.
 *
 *   fixed    in,  nodes elements: 1 for vertices in all sets, -1 for those in none, else 0; no 1 is behind a -1
 *   counted  in,  nodes elements: 1 for vertices that count in the size, else 0
 *   least, most  in, the range of sizes
 *   seconds  in,  time after which the search ends
 *   share    out, 1 element: 1 if memory overflows in every such set. Else less: the share of the tree in which it
 *                 does, by what the search has seen; 0 if some set fits, so that more time would not help
 * All memory is the caller's. Returns SHARD_OK, or SHARD_NO_MEMORY if the network does not fit; a search that runs out
 * of memory ends as if time did. */
int shard_set_cuts(const struct shard_system *system, const struct shard_held *held, const int8_t *fixed,
                   const int8_t *counted, int64_t least, int64_t most, double seconds, double *share);
/* cffi: end */
