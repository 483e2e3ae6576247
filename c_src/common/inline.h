/* Functions that are always part of their callers. */
#pragma once

/* They are compiled for the same processor as the caller. GCC removes calls of other functions that only prefetch,
 * as these have no effect that it knows of. */
#if defined(__GNUC__)
#define SHARD_INLINE static inline __attribute__((always_inline))
#else
#define SHARD_INLINE static inline
#endif
