/* Random numbers from the caller's state: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). */
#pragma once

#include <stdint.h>

struct random {
    uint64_t state; /* any value is a seed */
};

static inline uint64_t random_bits(struct random *random) {
    uint64_t z = random->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* A number from 0 to below - 1, for below > 0; its distribution is within below / 2^32 of uniform. */
static inline int32_t random_below(struct random *random, int32_t below) {
    return (int32_t)(((random_bits(random) >> 32) * (uint64_t)below) >> 32);
}

/* A number in [0, 1). */
static inline double random_share(struct random *random) {
    return (double)(random_bits(random) >> 11) * 0x1p-53;
}
