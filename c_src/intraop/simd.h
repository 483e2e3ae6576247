/* Compiles a function for AVX2 too; the loader picks the version that the processor supports. SHARD_AVX512 is defined
 * if the compiler can also compile for AVX-512, by a pragma. */
#pragma once

#include "common/inline.h"

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#include <immintrin.h>
#define SHARD_SIMD __attribute__((target_clones("avx2", "default")))
#define SHARD_AVX512
#else
#define SHARD_SIMD
#endif
