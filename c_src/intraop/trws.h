/* Lower bounds of a network of cost functions by message passing, exact in 64-bit integers.
 *
 * Messages move costs between the tables of pairs and the values of variables. The total cost of every
 * assignment stays the same, and the part common to all assignments accumulates in a constant, the lower
 * bound: sequential tree-reweighted message passing (TRW-S; Kolmogorov, PAMI 2006) on reparametrised costs
 * (Kolmogorov, PAMI 2015). Only the split of a cost among pairs is rounded, never a sum, so the bound holds
 * after every step. */
#pragma once

#include "common/status.h"

/* cffi: begin */

/* Variables with a cost per value, and pairs of distinct variables with a cost table each.
 *
 *   start          variables + 1 elements: the values of variable v are the rows start[v] .. start[v + 1] - 1
 *   tail, head     pairs elements, tail[e] < head[e], at most one pair per two variables
 *   cell_start     pairs + 1 elements: the table of pair e begins at cell[cell_start[e]], row-major, the head's
 *   cell           value running fastest; each cost is 0 to 2^56, or 2^60 if the cell is forbidden
 *   message_start  pairs + 1 elements: the messages of e to its tail's values, then to its head's
 *   arc_start      variables + 1 elements: the pairs of v are arc[arc_start[v] .. arc_start[v + 1] - 1], those
 *   arc            with a lower variable first
 *
 * The caller owns all arrays; the core only reads them. */
struct shard_network {
    int64_t variables, pairs;
    const int64_t *start, *tail, *head, *cell_start, *cell;
    const int64_t *message_start, *arc_start, *arc;
};

/* Raise the lower bound by `sweeps` sweeps over all variables, up and down.
 *
 *   top      in,     at most 2^56: only assignments that cost less matter
 *   cost     in/out, start[variables] elements: reparametrised cost of each value, above -2^58 and below
 *                    2^58; 2^60 for values that no assignment below `top` takes
 *   message  in/out, message_start[pairs] elements: cost moved from the tables to the values; 0 at first
 *   bound    in/out, 1 element: the constant; `top` if no assignment costs less; INT64_MIN, and all else is as it
 *                    was, if the costs of values are so far below 0 that the bound would be less than -2^60
 * Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_trws(const struct shard_network *network, int64_t top, int64_t sweeps, int64_t *cost,
               int64_t *message, int64_t *bound);

/* Rule out, in a state left by shard_trws, the values and cells whose cheapest completion costs `top` or more:
 * value_allowed, out, start[variables] elements, and cell_allowed, out, cell_start[pairs] elements, are 1 if an
 * assignment below `top` may take it, else 0. Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_trws_prune(const struct shard_network *network, int64_t top, const int64_t *cost,
                     const int64_t *message, int64_t bound, int8_t *value_allowed, int8_t *cell_allowed);

/* Reparametrise exactly by given messages, clamped to keep costs in range, and move the minimum of every pair
 * to the constant: a state for shard_trws, with the same `top`. Returns SHARD_OK.
 *
 *   cost     in/out, start[variables] elements: without messages, then with them; 2^60 for forbidden values
 *   message  in/out, message_start[pairs] elements: requested messages, then those applied
 *   bound    in/out, 1 element: the constant, at most 2^60; `top` if some pair allows nothing; INT64_MIN if the
 *                    constant would be below -2^60, which is of no use */
int shard_trws_reparametrise(const struct shard_network *network, int64_t top, int64_t *cost,
                             int64_t *message, int64_t *bound);
/* cffi: end */

/* Cost of a forbidden value or cell; no sum of allowed costs comes near it. */
#define FORBIDDEN ((int64_t)1 << 60)
/* Allowed costs and messages stay below this in absolute value. */
#define COST_LIMIT ((int64_t)1 << 58)

static inline int64_t size_of(const struct shard_network *network, int64_t v) {
    return network->start[v + 1] - network->start[v];
}
