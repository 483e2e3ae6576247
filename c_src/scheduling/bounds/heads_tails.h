/* Heads and tails: the earliest start of a vertex on a device, and the least time after its end, in any schedule
 * (Papadimitriou and Yannakakis, SIAM J. Comput. 19, 1990; here with links, and devices of several speeds). */
#pragma once

#include "scheduling/simulation/simulate.h"
#include "scheduling/units.h"

/* cffi: begin */
/* For each vertex and device, bound the start of the vertex there from below (its head) and the time from its end
 * there to the end of the schedule (its tail). A device may stand for several merged ones; its diagonal bandwidth
 * is then the bandwidth between these. For a single device it is infinite.
 *
 *   order   in,     nodes elements: a topological order, vertices that start early first
 *   back    in,     nodes elements: the same of the reversed graph, vertices that may be last first
 *   ancestors in,   ancestors of a vertex that are considered together, >= 0
 *   reach   in,     number of vertices from one on in a subproblem of lags, that one included; 0: no lags
 *   branches in,    most branches of the search, per vertex and device, >= 0; 0: no search
 *   start   in/out, nodes * devices elements, vertex by vertex: known heads, at least 0; then greater ones,
 *                   infinite if the vertex may not go there
 *   behind  in/out, nodes * devices elements: tails, likewise
 * All memory is the caller's. Takes O((ancestors * edges * devices^2 + nodes * devices^2 * ancestors^2) *
 * (1 + branches) * (1 + devices * reach)) at most, and 16 * nodes * reach * devices^2 bytes.
 * Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_heads_tails(const struct shard_system *system, const struct shard_units *units,
                      const int32_t *order, const int32_t *back, int32_t ancestors, int32_t reach,
                      int32_t branches, double *start, double *behind);
/* cffi: end */

/* Heads and tails of one system that are raised again after changes. */
struct heads_tails;

/* Allocate from an arena; NULL, and the arena fails, if there is no memory. As shard_heads_tails, with neither reach
 * nor branches; `start` and `behind` must stay alive. */
struct heads_tails *heads_tails_new(struct arena *arena, const struct shard_system *system,
                                    const struct shard_units *units, const int32_t *order,
                                    const int32_t *back, int32_t ancestors, double *start, double *behind);

/* Raise the heads and tails that follow from changed ones. If `ancestors` is 0, or all vertices are as few, the
 * result is the same as if all were raised; otherwise a vertex far from any change might gain as well.
 *
 *   head_changed  in/out, nodes elements: true for vertices whose heads may differ from those after the last call,
 *                 or after an earlier call if all heads and tails were reset to its results; at the first call
 *                 true for all; then false for all
 *   tail_changed  in/out, likewise */
void heads_tails_raise(struct heads_tails *ends, bool *head_changed, bool *tail_changed);
