/* Values that others replace at no more cost and with no more memory, and variables that follow a neighbour.
 */
#ifndef SHARD_DOMINATE_H
#define SHARD_DOMINATE_H

#include <stdint.h>

#include "intraop/trws.h"

/* cffi: begin */

/* Rule out the values of variables, one after the other, that another value of the variable can replace
 * whatever its neighbours choose: it costs no more and uses no more memory at any time.
 *
 *   network      in;  costs below 2^58 in all, 2^60 where a cell is not allowed
 *   cost         in,  start[variables] elements: of each value
 *   usage_start  in,  variables + 1 elements; value k of v, of s values, uses the memory of the spans
 *   usage        in,  usage[usage_start[v] + k * w ..], w = (usage_start[v + 1] - usage_start[v]) / s of them
 *   keep         in,  variables elements: not 0 where a variable is to be left alone
 *   value        in and out, start[variables] elements: 0 where a value is ruled out, else 1
 *
 * Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_dominate(const struct shard_network *network, const int64_t *cost, const int64_t *usage_start,
                   const int64_t *usage, const int8_t *keep, int8_t *value);

/* Find the variables of one pair whose best value, by cost and by memory, is a function of the other end.
 *
 *   all but `follow` and `choice`  in, as above
 *   follow  out, variables elements: the other end, which follows none itself, or -1
 *   choice  out, message_start[pairs] elements: for the messages of a pair to values of the end that is
 *           followed, the value that the follower takes beside each
 *
 * Returns SHARD_OK. */
int shard_follow(const struct shard_network *network, const int64_t *cost, const int64_t *usage_start,
                 const int64_t *usage, const int8_t *keep, int64_t *follow, int64_t *choice);
/* cffi: end */

#endif
