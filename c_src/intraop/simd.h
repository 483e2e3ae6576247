/* Compiles a function for AVX2 too; the loader picks the version that the processor supports. */
#pragma once

#include "common/inline.h"

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define SHARD_SIMD __attribute__((target_clones("avx2", "default")))
#else
#define SHARD_SIMD
#endif
