/* Stages from the back of the pipeline to the front, none slower than a limit (Tarnawski et al., NeurIPS 2021, with a
 * limit instead of a table of times).
 *
 * For every ideal, the undominated pairs of devices and sum of data-parallel degrees with which its nodes can be put
 * into stages within the limit. The sum fixes the microbatches in flight at the next stage. Of the numbers of replicas
 * of that stage only the least that meets the limits matters: more take more devices and a greater sum. */
#pragma once

#include "hybrid/problem.h"

/* cffi: begin */
/* Find stages whose times per sample are at most `limit`, or refute that there are any.
 *
 * All times are rounded down by at most 2^-60 in total relative to the limit, plus a few units of the last place of
 * float64, so none within (1 - 1e-12) * limit are missed.
 *
 *   ideals, link_*  in,  as shard_list_ideals gives them, or fewer: a chain of ideals, the empty and the whole one
 *                        included
 *   border          in,  ideals elements: 0 if no stage may begin or end at this ideal; not 0 for the whole one. Only for
 *                        a chain of ideals. NULL: stages may begin and end at all
 *   limit           in,  positive and finite
 *   greedy          in,  not 0: choose configurations as the published program does; nothing is refuted then
 *   stop            in,  1 element: not 0 once another thread asks to end; NULL: never
 *   stages          out, 1 element: number of stages; 0: there are none within the limit, -1: stopped
 *   stage           out, nodes elements: stage of each node, counted from the end of the pipeline
 *   configuration   out, nodes elements
 *   degree          out, nodes elements, of which `stages` are used: index of its tensor-parallel degree
 *   replicas        out, the same: index of its data-parallel degree
 * Returns SHARD_OK, SHARD_NO_MEMORY or, if there are no stages but a choice of configurations was left open,
 * SHARD_UNDECIDED. Nothing else is written unless there are stages. */
int shard_hybrid_chain(const struct shard_hybrid *problem, int64_t ideals, const int64_t *link_start,
                       const int32_t *link_node, const int32_t *link_ideal, const int8_t *border,
                       double limit, int32_t greedy, const int32_t *stop, int32_t *stages, int32_t *stage,
                       int64_t *configuration, int32_t *degree, int32_t *replicas);
