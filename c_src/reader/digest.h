/* A fast keyed digest: without the key, nobody can construct two contents with the same digest. */
#pragma once

#include "common/status.h"

/* cffi: begin */
enum shard_digest_sizes { SHARD_BLOCK = 2048, SHARD_KEY = 258 };

/* Add `length` bytes (in; except in the last piece, a multiple of SHARD_BLOCK) to a digest, `state`, in/out, 2
 * elements, 0 at first. key, in: SHARD_KEY random words.
 *
 * Blocks are hashed by NH (Black et al., UMAC, CRYPTO 1999, Section 4.2) on 64-bit words, the results by
 * polynomials modulo 2^61 - 1 at two points. Two contents of equal length below 2^34 bytes have the same
 * digest for less than 2^-60 of the keys; compare lengths separately. */
void shard_digest(const uint64_t *key, const uint8_t *bytes, int64_t length, uint64_t *state);
