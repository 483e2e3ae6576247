/* A lower bound on what is left of a batch: time and devices of the nodes before an ideal, by Lagrangian relaxation. All but
 * the last stage have at least two microbatches in flight, so the ideal must not be empty.
 *
 * A stage with degrees d and t, time l, and k = d t devices has the repeated time r = (batch / d - 1) l, so
 * k >= batch * t * x / (r + x) for every x <= l. Let x be the sum of its nodes' least times with degree t, and `longest`
 * an upper bound on that by memory, and let all repeated times be at most r. Then devices >= batch / (r + longest) * sum
 * of t * x over the stages. Priced with m <= batch / devices per unit of device time, the sum of times plus the longest
 * repeated time, R >= r, is at least
 *
 *     sum over nodes of min over t of time * (1 + m t) - m * devices * longest / batch + R (1 - m * devices / batch). */
#pragma once

#include "hybrid/suffixes.h"

/* Prices are powers of a base; [i * prices + p] is an ideal and a price. All arrays are owned by the arena. */
struct completion {
    const struct shard_hybrid *problem;
    int32_t prices;
    double *price;  /* prices elements, ascending */
    double *priced; /* [i * prices + p]: the sum over the nodes before */
    double longest;
};

/* Allocate and fill. */
void completion_init(struct completion *completion, struct arena *arena, const struct costs *costs,
                     const struct suffixes *suffixes);

/* Least sum of the times of one microbatch plus longest repeated time, if the latter is at least `repeated` and the nodes
 * before `ideal` get the devices that are left. */
double least_completion(const struct completion *completion, int32_t ideal, int64_t devices, double repeated);
