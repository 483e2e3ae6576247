/* TRW-S with a soft minimum, in floating point: unlike the exact form, it does not get stuck in suboptimal fixed
 * points.
 *
 * Instead of minima, messages hold -s log(sum of exp(-cost / s)) for a softness s: sum-product TRW-S on
 * monotonic chains (Savchynskyy et al., UAI 2012). The messages prove nothing themselves;
 * shard_trws_reparametrise computes the bound that they give in integers. */
#pragma once

#include "intraop/trws.h"

/* cffi: begin */

/* Most values computed at once. The messages to a variable are padded to a multiple. */
enum { SHARD_LANES = 16 };

/* What an arc, an entry of `arc` in the network, reads; numbers of elements from the beginning of each array.
 *
 *   table  its table: as many columns as its variable has values, and `rows` rows, a value of the other end each
 *   range  pairs of the least and the greatest cell of each row
 *   sent   messages of its pair to the other end */
struct shard_soft_arc {
    int64_t table, range, sent, rows;
};

/* Tables in the order in which sweeps read them, and where messages lie.
 *
 *   slot   variables + 1 elements: the messages to v begin at slot[v], arc by arc
 *   arc    2 * pairs elements
 *   table  2 * cell_start[pairs] + SHARD_LANES elements
 *   range  2 * message_start[pairs] elements */
struct shard_soft {
    const int64_t *slot;
    const struct shard_soft_arc *arc;
    const float *table, *range;
};

/* Write the arrays of struct shard_soft for a network. Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_soft_trws_tables(const struct shard_network *network, int64_t *slot, struct shard_soft_arc *arc,
                           float *table, float *range);

/* Pass softened messages in `sweeps` sweeps over all variables, up and down.
 *
 *   lanes     in,     8 or 16: values computed at once, 8 if the processor cannot do more; the result is the same
 *   softness  in,     above 0, in units of cost
 *   cost      in,     start[variables] elements: cost of each value; about 2^60 for forbidden values, which send no
 *                     messages
 *   message   in/out, slot[variables] elements: cost moved from the tables to the values; 0 at first
 *   belief    out,    start[variables] elements: excess over the variable's cheapest value, divided by its
 *                     number of chains; exp(-belief / softness) is the value's weight
 * Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_soft_trws(const struct shard_network *network, const struct shard_soft *soft, int64_t lanes,
                    int64_t sweeps, double softness, const double *cost, float *message, double *belief);

/* Copy the messages of shard_soft_trws to `sent`, out, message_start[pairs] elements, in the order of the network, and
 * add them to `cost`, in/out, start[variables] elements. */
void shard_soft_trws_messages(const struct shard_network *network, const struct shard_soft *soft,
                              const float *message, double *cost, double *sent);

/* Round the results of shard_soft_trws_messages to an assignment, value, out, variables elements: in order, each
 * variable takes its cheapest value given the values already chosen and the messages from later variables. Returns
 * SHARD_OK or SHARD_NO_MEMORY. */
int shard_soft_trws_round(const struct shard_network *network, const double *cost, const double *message,
                          int64_t *value);
