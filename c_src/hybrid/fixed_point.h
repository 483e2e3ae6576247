/* Fixed-point numbers: sums and differences are exact, so a sum of rounded-down terms never exceeds the true one. */
#pragma once

#include <math.h>
#include <stdint.h>

__extension__ typedef __int128 int128;

/* Limits on time and memory have this many bits, so that each term is off by at most 2^-69 of the limit. */
#define LIMIT_BITS 70

/* Terms of time beyond this are cut off: it exceeds 2^31 replicas times the limit, and 2^23 of them do not overflow. */
#define MOST_TIME ((int128)1 << 103)

/* value * scale, rounded down, at most `most`. */
static inline int128 to_fixed(long double value, long double scale, int128 most) {
    if (value <= 0)
        return 0;
    const long double scaled = value * scale;
    return scaled < (long double)most ? (int128)scaled : most;
}
