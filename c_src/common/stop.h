/* Stop requests to running kernels, and the clock for their deadlines. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* True if another thread has asked this kernel to end. stop, in, 1 element: not 0 if so; NULL: never. */
static inline bool is_stopped(const int32_t *stop) {
    return stop && __atomic_load_n(stop, __ATOMIC_RELAXED);
}

/* Ask all kernels with this flag to end. stop, out, 1 element. */
static inline void stop_all(int32_t *stop) {
    __atomic_store_n(stop, 1, __ATOMIC_RELAXED);
}

/* Seconds on a monotonic clock. */
double monotonic_seconds(void);
