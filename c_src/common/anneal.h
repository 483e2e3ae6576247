/* Simulated annealing: acceptance at a temperature (Metropolis et al. 1953) and geometric cooling. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/random.h"

/* Costs that differ by less than this, relatively, count as equal. */
#define COST_TOLERANCE 1e-9

/* Moves between two changes of the temperature. */
enum { COOLING_INTERVAL = 64 };

/* The most energy that the next move may add: drawn so that a rise is accepted with the probability
 * exp(-rise / temperature). Drawn before a move, it lets the move be given up early. */
static inline double anneal_allowance(struct random *random, double temperature) {
    return -temperature * log(1.0 - random_share(random));
}

/* Whether a move from energy `now` to `next` is accepted; temperature >= 0. A move that adds none draws nothing. */
static inline bool anneal_accepts(struct random *random, double temperature, double now, double next) {
    return next <= now || (temperature > 0.0 && random_share(random) < exp((now - next) / temperature));
}

/* The factor by which the temperature changes in `steps` moves if it falls geometrically from `hot` to `cold`
 * in `moves`; all > 0 but `steps`, which is >= 0. */
static inline double anneal_cooling(double hot, double cold, int64_t steps, int64_t moves) {
    return pow(cold / hot, (double)steps / (double)moves);
}
