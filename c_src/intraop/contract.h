/* Contraction of a network: add the cost tables of old pairs into those of merged, smaller variables. */
#pragma once

#include "common/status.h"

/* cffi: begin */

/* Each old variable x is a function of a new one, its root: if the root has value i, x has
 * value[value_start[x] + i].
 *
 *   tail .. cell             in, as in struct shard_network, but pairs may recur or join a variable to itself
 *   size, root, value_start  in, per old variable: number of values, root, see above
 *   new_size, new_start      in, per new variable: number of values, first row
 *   target                   in, pairs elements: first new cell of the pair's table, row-major over the roots,
 *                            lower index first; -1 if the costs go to `row`, because both ends have one root
 *                            or one of the roots has a single value
 *   forbidden                in, any sum with a cost of at least this is `forbidden`; all other costs together
 *                            are less
 *   new_cell, row            in/out, sums to which costs are added: per new cell, per value of a new variable
 * Returns SHARD_OK. */
int shard_contract(int64_t pairs, const int64_t *tail, const int64_t *head, const int64_t *cell_start,
                   const int64_t *cell, const int64_t *size, const int64_t *root, const int64_t *value_start,
                   const int64_t *value, const int64_t *new_size, const int64_t *new_start,
                   const int64_t *target, int64_t forbidden, int64_t *new_cell, int64_t *row);
