/* Search of the orders in which some vertices may start, by minimum cuts of what is held (ours). */
#pragma once

#include "common/status.h"
#include "scheduling/simulation/simulate.h"

/* cffi: begin */

/* Vertices whose orders can be searched together. */
enum { SHARD_MOST_CHOSEN = 128 };

/* Tensors that are held between the vertices that have finished and those that have not started.
 *
 *   layers  1: a vertex has finished or has not started; 2: it may also have started and not finished
 *   parts   edges elements, by tail: what each tensor counts, >= 0
 *   cuts    number of cuts that are tried
 *   prices  cuts * nodes elements, >= 0, with 2 layers: what a vertex between the layers costs in each cut
 *   enough  cuts elements, > 0: a minimum cut of that much shows that memory overflows; with 2 layers only if the
 *           first cut, a filter, shows it and some other one does
 *   whole   more than all parts and each price, at most 2^44
 *
 * All arrays are the caller's and are only read. */
struct shard_held {
    int32_t layers, cuts;
    const int64_t *parts, *prices, *enough;
    int64_t whole;
};

/* Search depth first all sets of the chosen vertices that may have started, each one vertex larger than another,
 * from none to all. At the start of a vertex those that are ready for it or for an earlier one are on the side of
 * what has finished (1 layer) or started (2), and chosen vertices that have not started before are on the other.
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
