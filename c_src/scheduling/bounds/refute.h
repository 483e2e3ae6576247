/* Refutation of a makespan by branch and bound over devices, then over orders, with heads and tails as bounds. */
#pragma once

#include "scheduling/simulation/simulate.h"
#include "scheduling/units.h"

/* cffi: begin */

/* Most vertices of a graph whose makespan can be refuted. */
enum { SHARD_MOST_REFUTED = 128 };

/* Prove that every schedule takes longer than a time (Carlier and Pinson, Management Science 35, 1989; here with
 * devices to choose). A device may stand for several, as in shard_heads_tails.
 *
 *   order, back, ancestors  in, as in shard_heads_tails
 *   start    in,  nodes * devices elements, vertex by vertex: known heads, infinite if a vertex may not go there
 *   behind   in,  nodes * devices elements: known tails, likewise
 *   longest  in,  the time, > 0; schedules within a relative 1e-9 of it are not ruled out
 *   nodes    in/out, 1 element: most nodes of the search, then how many of these are left
 *   refuted  out, 1 element: 1 if every schedule takes longer; 0 if not, or if the nodes did not suffice
 * All memory is the caller's. Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_refute(const struct shard_system *system, const struct shard_units *units, const int32_t *order,
                 const int32_t *back, int32_t ancestors, const double *start, const double *behind,
                 double longest, int64_t *nodes, int32_t *refuted);
