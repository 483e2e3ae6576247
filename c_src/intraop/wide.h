/* Loops over cells compiled for wider registers as well, chosen when the program is loaded. */
#ifndef SHARD_WIDE_H
#define SHARD_WIDE_H

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define SHARD_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define SHARD_WIDE
#endif

#endif
