/* Simulated annealing: acceptance at a temperature (Metropolis et al. 1953) and geometric cooling. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/random.h"

/* Relative difference below which costs count as equal. */
#define COST_TOLERANCE 1e-9

/* Moves between two changes of the temperature. */
enum { COOLING_INTERVAL = 64 };

/* Draw the greatest rise in energy of the next move, such that a rise is accepted with probability exp(-rise /
 * temperature). As it is drawn before the move, the move can be abandoned early. */
static inline double anneal_allowance(struct random *random, double temperature) {
    return -temperature * log(1.0 - random_share(random));
}

/* True if a move from energy `now` to `next` is accepted; temperature >= 0. Draws only if energy rises. */
static inline bool anneal_accepts(struct random *random, double temperature, double now, double next) {
    return next <= now || (temperature > 0.0 && random_share(random) < exp((now - next) / temperature));
}

/* The factor by which the temperature changes in `steps` moves if it falls geometrically from `hot` to `cold`
 * in `moves`; steps >= 0, all others > 0. */
static inline double anneal_cooling(double hot, double cold, int64_t steps, int64_t moves) {
    return pow(cold / hot, (double)steps / (double)moves);
}
