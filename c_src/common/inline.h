/* Functions that are always part of their callers. */
#pragma once

/* Compiled for the same processors as the caller. GCC drops calls of other functions that only fetch ahead:
 * they have no effect that it knows. */
#if defined(__GNUC__)
#define SHARD_INLINE static inline __attribute__((always_inline))
#else
#define SHARD_INLINE static inline
#endif
