/* TRW-S under a softened minimum, in floating point: it does not get stuck where the exact form does.
 *
 * Instead of minima, messages hold -s log(sum of exp(-cost / s)) for a softness s: sum-product TRW-S on
 * monotonic chains (Savchynskyy et al., UAI 2012). The messages prove nothing themselves;
 * shard_trws_reparametrise computes the bound that they give in integers. */
#pragma once

#include "intraop/trws.h"

/* cffi: begin */

/* Values computed at once. */
enum { SHARD_LANES = 8 };

/* Copy the tables of a network for shard_soft_trws to `table`, out, 2 * cell_start[pairs] + SHARD_LANES
 * elements: of each pair first row-major, then column-major. `range`, out, 2 * message_start[pairs] elements,
 * gets the least and the greatest cell of the value that each message belongs to. Returns SHARD_OK. */
int shard_soft_trws_tables(const struct shard_network *network, float *table, float *range);

/* Pass softened messages by copied tables in `sweeps` sweeps over all variables, up and down.
 *
 *   softness  in,     above 0, in units of cost
 *   cost      in/out, start[variables] elements: reparametrised cost of each value; about 2^60 for forbidden
 *                     values, which send no messages
 *   message   in/out, message_start[pairs] elements: cost moved from the tables to the values
 *   belief    out,    start[variables] elements: excess over the variable's cheapest value, divided by its
 *                     number of chains; exp(-belief / softness) is the value's weight
 * Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_soft_trws(const struct shard_network *network, const float *table, const float *range,
                    int64_t sweeps, double softness, double *cost, double *message, double *belief);

/* Round what shard_soft_trws leaves to an assignment, value, out, variables elements: in order, each variable
 * takes its cheapest value given the values already chosen and the messages from later variables. Returns
 * SHARD_OK or SHARD_NO_MEMORY. */
int shard_soft_trws_round(const struct shard_network *network, const double *cost, const double *message,
                          int64_t *value);
