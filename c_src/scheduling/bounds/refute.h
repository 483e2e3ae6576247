/* Refutation of a makespan: a search over devices, then over orders, in which heads and tails rule out more. */
#pragma once

#include "scheduling/simulation/simulate.h"
#include "scheduling/units.h"

/* cffi: begin */

/* Vertices of a graph whose makespan can be refuted, at most. */
enum { SHARD_MOST_REFUTED = 128 };

/* Say whether each schedule takes longer than a time (Carlier and Pinson, Management Science 35, 1989; here with
 * devices to choose). A device may stand for several, as in shard_heads_tails.
 *
 *   order, back, window  in, as in shard_heads_tails
 *   start    in,  nodes * devices elements, vertex by vertex: known heads, infinite if a vertex may not go there
 *   behind   in,  nodes * devices elements: known tails, likewise
 *   longest  in,  the time, > 0; schedules within a relative 1e-9 of it are not ruled out
 *   nodes    in/out, 1 element: nodes of the search that it may take, then what is left
 *   refuted  out, 1 element: 1 if each schedule takes longer; 0 if not, or if the search was too short to tell
 * All memory is the caller's. Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_refute(const struct shard_system *system, const struct shard_units *units, const int32_t *order,
                 const int32_t *back, int32_t window, const double *start, const double *behind,
                 double longest, int64_t *nodes, int32_t *refuted);
