/* The ideals of a graph: the sets of nodes that contain all predecessors of their nodes (Tarnawski et al.,
 * NeurIPS 2020, Definition 5.1).
 *
 * Every edge leads to a node of greater number. Ideals are numbered so that subsets come first: 0 is empty and
 * the last is the whole graph. No set is stored, only the maximal nodes of each ideal and the ideals without
 * each of them. Removing maximal nodes in descending order reaches every smaller ideal in exactly one way. */
#pragma once

#include "common/status.h"

/* cffi: begin */

/* A graph whose edges lead to greater numbers. The arrays are the caller's and are only read. */
struct shard_dag {
    int32_t nodes;
    const int64_t *out_start; /* nodes + 1 elements: successors of v are out_head[out_start[v] ..] */
    const int32_t *out_head;  /* out_start[nodes] elements, no edge twice */
    const int64_t *in_start;  /* nodes + 1 elements: predecessors of v are in_tail[in_start[v] ..] */
    const int32_t *in_tail;   /* in_start[nodes] elements */
};

/* Count the ideals and their maximal nodes, in O(nodes / 64 + degree) per ideal.
 *
 *   max_ideals, max_links  in,  counting ends once there are more ideals or links
 *   stop                   in,  1 element: not 0 once another thread asks to end; NULL: never
 *   ideals, links          out, 1 element: ideals found by then, and the sum of their numbers of maximal nodes
 * Returns SHARD_OK, SHARD_BAD_ORDER if an edge leads to a lower number, or SHARD_NO_MEMORY. */
int shard_count_ideals(const struct shard_dag *dag, int64_t max_ideals, int64_t max_links,
                       const int32_t *stop, int64_t *ideals, int64_t *links);

/* List the ideals, whose number is known and below 2^31; `stop` and statuses as above.
 *
 *   listed      out, 1 element: ideals listed; fewer than `ideals` if stopped
 *   link_start  out, ideals + 1 elements: the links of ideal i are link_start[i] .. link_start[i + 1] - 1
 *   link_node   out, links elements: the maximal nodes of each ideal, ascending
 *   link_ideal  out, links elements: the ideal without that node */
int shard_list_ideals(const struct shard_dag *dag, int64_t ideals, const int32_t *stop, int64_t *listed,
                      int64_t *link_start, int32_t *link_node, int32_t *link_ideal);
