/* Eliminate dominated values, and leaves whose best value, by cost and memory, follows from their
 * neighbour. */
#pragma once

#include "intraop/trws.h"

/* cffi: begin */

/* Rule out, variable by variable, the values that another value of the variable can replace whatever the
 * neighbours choose: it costs no more and never uses more memory. A variable is visited again after a neighbour has
 * lost values, until no value is ruled out.
 *
 *   network      in,     costs below 2^58 in total, 2^60 for forbidden cells
 *   cost         in,     start[variables] elements: cost of each value
 *   usage_start  in,     variables + 1 elements: value k of v, of s values, uses usage[usage_start[v] + k * w ..]
 *   usage                in w spans of time, where w = (usage_start[v + 1] - usage_start[v]) / s
 *   skip         in,     variables elements: not 0 for variables to leave alone
 *   value        in/out, start[variables] elements: 0 if the value is ruled out, else 1
 *   log          out,    2 * start[variables] elements: for each value ruled out, in order, its row and the row that
 *                        replaces it, -1 if some pair forbids it altogether
 *   logged       out,    their number
 * Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_dead_end_elimination(const struct shard_network *network, const int64_t *cost,
                               const int64_t *usage_start, const int64_t *usage, const int8_t *skip,
                               int8_t *value, int64_t *log, int64_t *logged);

/* Find the leaves, variables of a single pair, whose best value by cost and memory is a function of the other
 * end's value; inputs as above.
 *
 *   parent    out, variables elements: the other end, itself no such leaf; -1 for variables to keep
 *   response  out, message_start[pairs] elements: laid out as the pair's messages to the parent's values, the
 *                  leaf's value for each of them
 * Returns SHARD_OK. */
int shard_leaf_elimination(const struct shard_network *network, const int64_t *cost,
                           const int64_t *usage_start, const int64_t *usage, const int8_t *skip,
                           int64_t *parent, int64_t *response);
