/* Which sets can be stages of a partition of small total loss. */
#pragma once

#include "common/status.h"

/* cffi: begin */

/* Weigh sets of nodes.
 *
 *   member  in,  sets * words elements, words = (nodes + 63) / 64: bit v of row i says that node v is in set i
 *   weight  in,  nodes elements, not negative, at most 2^50 in all
 *   weighs  out, sets elements
 * All memory is the caller's. */
void shard_weigh_sets(int32_t nodes, int64_t sets, const uint64_t *member, const int64_t *weight,
                      int64_t *weighs);

/* Find the sets that can be stages of a partition whose stages together lose at most `slack`.
 *
 * Two sets are compatible if they are disjoint and paths do not lead in both directions between them. Given a set
 * that is a stage, every other node costs at least its share, by weight, of the loss of a compatible set that
 * contains it. The sum of the least such shares, and the greatest of the least losses, bound the loss of the other
 * stages.
 *
 *   member   in,     as above, by loss, least first
 *   loss     in,     sets elements, not negative, at most 2^50: `heaviest` less what the set weighs
 *   weight   in,     nodes elements, as above
 *   below    in,     nodes * words elements: bit w of row v says that w is v or comes after v
 *   slack    in,     greatest loss of all stages together, at most 2^50
 *   seconds  in,     time limit: sets that are not tested by then are kept
 *   keep     in/out, sets elements: 1 for sets to consider, then 0 for those that are in no such partition
 * All memory is the caller's. Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_compatible_sets(int32_t nodes, int64_t sets, const uint64_t *member, const int64_t *loss,
                          int64_t heaviest, const int64_t *weight, const uint64_t *below, int64_t slack,
                          double seconds, int8_t *keep);
