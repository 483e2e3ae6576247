/* Fixed pieces of work by which machines are compared: each stands for what takes the time of many solvers. */
#pragma once

#include "common/status.h"

/* cffi: begin */
/* Integers: hash a counter `rounds` times, and branch and look up a small table by the hashes, as searches do.
 * Returns a number that depends on all of it. */
uint64_t shard_yardstick_integers(int64_t rounds);

/* Floating point: multiply matrices of 64 x 64 numbers `rounds` times in min and plus, as dynamic programs do.
 * Returns a number that depends on all of it. */
double shard_yardstick_floats(int64_t rounds);

/* Memory: follow `rounds` links of one cycle through next, in, shape (size,), in an order without a pattern, as
 * searches in graphs do. Returns where it ends. shard_yardstick_cycle makes the cycle: next, out, shape (size,). */
int64_t shard_yardstick_memory(int64_t size, const int32_t *next, int64_t rounds);
void shard_yardstick_cycle(int64_t size, int32_t *next);
/* cffi: end */
