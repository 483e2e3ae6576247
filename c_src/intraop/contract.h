/* The cost tables of a network when variables merge and values go: every old cell finds its new place. */
#ifndef SHARD_CONTRACT_H
#define SHARD_CONTRACT_H

#include <stdint.h>

#include "common/status.h"

/* cffi: begin */

/* Each old variable follows a new one, its root: beside value i of the root it has value[value_start[x] + i].
 *
 *   pairs                    number of old pairs
 *   tail, head, cell_start,
 *   cell                     as in struct shard_network, but pairs may recur, or join a variable to itself
 *   size                     number of values of each old variable
 *   root, value_start, value see above; value_start and root have an element for each old variable
 *   new_size, new_start      number of values of each new variable, and their first row
 *   target                   pairs elements: first new cell of a table that is row-major over the root of
 *                            lower index and then the other; -1 where the costs belong to rows, which they do
 *                            where both ends have one root, or one of the roots a single value
 *   forbidden                costs from here on make any sum they are part of `forbidden`; all others in all
 *                            are less
 *   new_cell, row            in and out: the sums, which costs are added to
 *
 * Returns SHARD_OK. */
int shard_contract(int64_t pairs, const int64_t *tail, const int64_t *head, const int64_t *cell_start,
                   const int64_t *cell, const int64_t *size, const int64_t *root, const int64_t *value_start,
                   const int64_t *value, const int64_t *new_size, const int64_t *new_start,
                   const int64_t *target, int64_t forbidden, int64_t *new_cell, int64_t *row);
/* cffi: end */

#endif
