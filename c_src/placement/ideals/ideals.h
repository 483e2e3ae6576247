/* The ideals of a graph: the sets of nodes that hold every node with an edge to one of theirs (Tarnawski et
 * al., NeurIPS 2020, Definition 5.1).
 *
 * Nodes are numbered such that every edge leads to a greater number. An ideal is known by its number: ideals
 * are numbered such that subsets come first, 0 is empty and the last one is the whole graph. No set is kept,
 * only, for each ideal, its maximal nodes and which ideals remain without each. Taking maximal nodes away in
 * descending order then leads to every smaller ideal on exactly one way. */
#ifndef SHARD_IDEALS_H
#define SHARD_IDEALS_H

#include <stdint.h>

#include "common/status.h"

/* cffi: begin */

/* A graph whose edges lead to greater numbers. */
struct shard_dag {
    int32_t nodes;
    const int64_t *out_start; /* nodes + 1 elements: the nodes after v are out_head[out_start[v] ..] */
    const int32_t *out_head;  /* out_start[nodes] elements, no edge twice */
    const int64_t *in_start;  /* nodes + 1 elements: the nodes before v are in_tail[in_start[v] ..] */
    const int32_t *in_tail;   /* in_start[nodes] elements */
};

/* Count the ideals and their maximal nodes, O(nodes / 64 + degree) for each ideal.
 *
 *   order    in
 *   most     in,  stop when there are more ideals than this, or links than `most_links`
 *   stop     in,  NULL, or not 0 once another thread wants an end
 *   ideals   out, 1 element: ideals found by then
 *   links    out, 1 element: their maximal nodes, summed
 *
 * Returns SHARD_OK, SHARD_BAD_ORDER if an edge leads to a lower number, or SHARD_NO_MEMORY. */
int shard_count_ideals(const struct shard_dag *order, int64_t most, int64_t most_links, const int32_t *stop,
                       int64_t *ideals, int64_t *links);

/* Enumerate them.
 *
 *   order       in
 *   ideals      in,  their number, below 2^31
 *   stop        in,  NULL, or not 0 once another thread wants an end
 *   listed      out, 1 element: ideals listed by then; all others are yet to come
 *   link_start  out, ideals + 1 elements: the links of ideal i are link_start[i] .. link_start[i + 1] - 1
 *   link_node   out, links elements: the maximal nodes of each ideal, ascending
 *   link_ideal  out, links elements: the ideal without that node
 *
 * Returns as above. */
int shard_list_ideals(const struct shard_dag *order, int64_t ideals, const int32_t *stop, int64_t *listed,
                      int64_t *link_start, int32_t *link_node, int32_t *link_ideal);
/* cffi: end */

#endif
