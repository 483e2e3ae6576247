/* The monotonic clock. */
#define _POSIX_C_SOURCE 199309L /* clock_gettime */
#include "common/stop.h"

#include <time.h>

double monotonic_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}
