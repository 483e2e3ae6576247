/* Local search on a schedule with independent links: vertices on long paths move to shorten them. */
#pragma once

#include "scheduling/simulation/simulate.h"
#include "scheduling/units.h"

/* cffi: begin */

/* Try moves one after another on a schedule, as if links were independent and memory unlimited, whatever the
 * system says. The unit of a vertex on a longest path, sometimes with units that follow it on the path,
 * leaves its device and joins a device at the places that make the longest path through it shortest. The more
 * a device lengthens that path, the less likely it is drawn; a longer makespan is accepted with probability
 * exp(-difference / temperature). A vertex takes at least 1e-13 of the first makespan.
 *
 *   moves          in,     moves to try
 *   temperature    in,     of the first move, >= 0
 *   last           in,     of the last move, likewise: it falls or rises geometrically; 0 if and only if the first is
 *   window         in,     number of vertices whose ends follow one another, at a random place: only these move;
 *                          0: 300, and others after 200 + nodes / 16 moves made, or 8 times as many tried
 *   part, own      in,     nodes elements: a number for each vertex, such that neither an edge nor a device leads from
 *                          one to a vertex of a lesser number; only those whose number is `own` move, at least one,
 *                          and stay behind all lesser and before all greater numbers
 *   random         in/out, 1 element: state of the random numbers, initially any value
 *   device, order  in/out, nodes elements: devices; the vertices of device 0 as they run, then of device 1, ...
 *   best_*         in/out, the same for the best schedule so far; best_makespan, 1 element, is infinite if there
 *                          is none yet
 * All memory is the caller's. Returns SHARD_OK, SHARD_NO_MEMORY, or SHARD_CYCLE, with nothing written, if
 * vertices of the order wait for each other. */
int shard_path_moves(const struct shard_system *system, const struct shard_units *units, int64_t moves,
                     double temperature, double last, int32_t window, const int32_t *part, int32_t own,
                     uint64_t *random, int32_t *device, int32_t *order, int32_t *best_device,
                     int32_t *best_order, double *best_makespan);
