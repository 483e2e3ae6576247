/* Message passing under a softened minimum, in floating point: it does not get stuck where the exact kind
 * does.
 *
 * In place of least costs, messages hold -s log(sum of exp(-cost / s)) for a softness s, as sum-product
 * tree-reweighted message passing along monotonic chains has it (Savchynskyy et al., UAI 2012). The messages
 * say which way to go; what they are worth is found out in integers: shard_adopt.
 */
#ifndef SHARD_SOFTEN_H
#define SHARD_SOFTEN_H

#include <stdint.h>

#include "intraop/trws.h"

/* cffi: begin */

/* Write down the tables of a network for shard_soften, once for each end of a pair.
 *
 *   place  in,  pairs + 1 elements: e has the elements place[e] .. place[e + 1] - 1, as many as
 *          n * W(m) + m * W(n) for ends of n and m values, where W rounds up to a multiple of 8
 *   table  out, place[pairs] elements
 *
 * Returns SHARD_OK. */
int shard_soft_tables(const struct shard_network *network, const int64_t *place, float *table);

/* Pass softened messages.
 *
 *   place, table  in,  as for shard_soft_tables
 *   sweeps        in,  passes over all variables, there and back
 *   softness      in,  more than 0: in units of cost
 *   cost          in and out, start[variables] elements: what each value costs, messages included; about 2^60
 *                 for values that are not allowed, which tell their neighbours nothing
 *   message       in and out, message_start[pairs] elements: what cost was given of the tables
 *   belief        out, start[variables] elements: what each value costs more than the best of its variable, a
 *                 share of it for each chain; its weight is exp(-belief / softness)
 *
 * Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_soften(const struct shard_network *network, const int64_t *place, const float *table,
                 int64_t sweeps, double softness, double *cost, double *message, double *belief);

/* Choose a value for one variable after the other: the best beside those chosen before, by the messages of
 * pairs with those to come.
 *
 *   cost, message  in,  as shard_soften left them
 *   value          out, variables elements
 *
 * Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_round(const struct shard_network *network, const double *cost, const double *message,
                int64_t *value);

/* Move costs as messages say, exactly, as far as numbers stay in range, and what pairs cost at least to the
 * constant: a state for shard_messages.
 *
 *   top      in,  as for shard_messages
 *   cost     in and out, start[variables] elements: without messages, then with them; 2^60 for what is not
 * allowed message  in and out, message_start[pairs] elements: what cost should be given, then what it was
 * given bound    in and out, 1 element: the constant; `top` if some pair allows nothing, INT64_MIN if the
 * messages are too large to be of use
 *
 * Returns SHARD_OK. */
int shard_adopt(const struct shard_network *network, int64_t top, int64_t *cost, int64_t *message,
                int64_t *bound);
/* cffi: end */

#endif
