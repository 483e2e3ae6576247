/* Arc consistency on forbidden entries (Mackworth, Artificial Intelligence 1977), and pairs that are functions. */
#pragma once

#include "intraop/trws.h"

/* cffi: begin */

/* Remove the values that some pair leaves without support: every cell with a living value of the other end is
 * forbidden. Repeats until no value is removed, so the result does not depend on the order of the pairs.
 *
 *   network     in,     cells of any numbers
 *   forbidden   in,     cells of this or more are not allowed
 *   alive       in/out, start[variables] elements: 1 for values that are still possible, else 0
 *   determines  out,    2 * pairs elements: 1 if every living value of the tail allows at most one living value of
 *                       the head, for all pairs; then the same with the ends swapped
 * Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_arc_consistency(const struct shard_network *network, int64_t forbidden, int8_t *alive,
                          int8_t *determines);

/* The maps of pairs that are functions: for each living value of the parent, in order, the rank of the child's value
 * among its living ones. To be called after shard_arc_consistency.
 *
 *   count    in,  number of maps
 *   pair     in,  count elements: pair of each map
 *   by_tail  in,  count elements: not 0 if the tail is the parent
 *   rank     out, as many elements as the parents of all maps have living values
 * Returns SHARD_OK. */
int shard_function_maps(const struct shard_network *network, int64_t forbidden, const int8_t *alive,
                        int64_t count, const int64_t *pair, const int8_t *by_tail, int64_t *rank);
