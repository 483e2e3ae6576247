/* Lower bounds of a network of cost functions by message passing, exact in 64-bit integers.
 *
 * Costs move between the tables of pairs and the values of variables such that what an assignment costs in
 * all stays the same, and what every assignment has in common goes to a constant: sequential tree-reweighted
 * message passing (Kolmogorov, PAMI 2006) in the form that moves costs (Kolmogorov, PAMI 2015). Shares are
 * rounded; sums never are, so the constant is a bound at any time.
 */
#ifndef SHARD_MESSAGES_H
#define SHARD_MESSAGES_H

#include <stdint.h>

#include "common/status.h"

/* cffi: begin */

/* Variables with a cost for each value, and pairs of distinct variables with a table each.
 *
 *   start          variables + 1 elements: the values of variable v are the rows start[v] .. start[v + 1] - 1
 *   tail, head     pairs elements, tail[e] < head[e], no two variables joined twice
 *   cell_start     pairs + 1 elements: the table of e, row-major, the head's value running fastest
 *   cell           cell_start[pairs] elements, each 0 to 2^56 or 2^60, which says that it is not allowed
 *   message_start  pairs + 1 elements: the messages of e to its tail's values, then to its head's
 *   arc_start      variables + 1 elements: the pairs of v are arc[arc_start[v] .. arc_start[v + 1] - 1],
 *                  those with a lower variable first
 *   arc            2 * pairs elements
 *
 * All arrays are read only. */
struct shard_network {
    int64_t variables;
    int64_t pairs;
    const int64_t *start;
    const int64_t *tail;
    const int64_t *head;
    const int64_t *cell_start;
    const int64_t *cell;
    const int64_t *message_start;
    const int64_t *arc_start;
    const int64_t *arc;
};

/* Raise the bound.
 *
 *   network  in
 *   top      in,  at most 2^56: only assignments that cost less are of interest
 *   sweeps   in,  passes over all variables, there and back
 *   cost     in and out, start[variables] elements: what each value costs, messages included, above -2^58
 *            and below 2^58; 2^60 for values that no assignment of interest takes
 *   message  in and out, message_start[pairs] elements: what cost was given of the tables; 0 at first
 *   bound    in and out, 1 element: the constant; `top` if no assignment is of interest
 *
 * Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_messages(const struct shard_network *network, int64_t top, int64_t sweeps, int64_t *cost,
                   int64_t *message, int64_t *bound);

/* Rule out values and cells: what costs `top` or more with the best of everything beside it.
 *
 *   cost, message, bound  in, as shard_messages left them
 *   value                 out, start[variables] elements: 1 where an assignment of interest may take it, or 0
 *   open                  out, cell_start[pairs] elements: the same of cells
 *
 * Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_prune(const struct shard_network *network, int64_t top, const int64_t *cost, const int64_t *message,
                int64_t bound, int8_t *value, int8_t *open);
/* cffi: end */

/* The cost of what is not allowed; no sum of others comes near it. */
#define NEVER ((int64_t)1 << 60)
/* What is allowed, messages too, stays below this in absolute value. */
#define TOO_MUCH ((int64_t)1 << 58)

#endif
