/* Search of the orders in which some vertices may start, by minimum cuts of what is held (ours). */
#pragma once

#include "scheduling/bounds/held.h"

/* cffi: begin */

/* Vertices whose orders can be searched together. */
enum { SHARD_MOST_CHOSEN = 128 };

/* Search depth first all sets of the chosen vertices that may have started, each one vertex larger than another,
 * from none to all. At the start of a vertex those that are ready for it or for an earlier one are on the side of
 * what has finished (1 layer) or started (2), and chosen vertices that have not started before are on the other.
 * With 2 layers memory overflows only if the first cut, a filter, shows it and some other one does.
 *
 *   chosen   in,  number of chosen vertices, at most SHARD_MOST_CHOSEN
 *   vertex   in,  chosen elements
 *   first    in,  chosen + 1 elements: those ready for vertex[i] are ready[first[i]] .. ready[first[i + 1] - 1]
 *   ready    in,  first[chosen] elements
 *   seconds  in,  time after which the search ends without a result
 *   refuted  out, 1 element: 1 if memory overflows in every order, else 0
 * All memory is the caller's. Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_order_cuts(const struct shard_system *system, const struct shard_held *held, int32_t chosen,
                     const int32_t *vertex, const int64_t *first, const int32_t *ready, double seconds,
                     int32_t *refuted);
/* cffi: end */
