/* A fast keyed digest that tells contents apart, also those made to be mistaken for each other, if who made
 * them did not know the key. */
#ifndef SHARD_DIGEST_H
#define SHARD_DIGEST_H

#include <stdint.h>

#include "common/status.h"

/* cffi: begin */
enum shard_digest_sizes { SHARD_BLOCK = 2048, SHARD_KEY = 258 };

/* Go on with the digest of bytes that come in pieces.
 *
 *   key     in, SHARD_KEY random words
 *   bytes   in, `length` of them: a multiple of SHARD_BLOCK, but for the last piece
 *   state   in and out, 2 elements, 0 to begin with: the digest so far
 *
 * Blocks are hashed by NH (Black et al., UMAC, CRYPTO 1999, Section 4.2) on words of 64 bits, what comes out
 * by polynomials modulo 2^61 - 1 at two points. Two contents of equal length below 2^34 bytes have the same
 * digest for a share of the keys of less than 2^-60; of different length, compare that too. */
void shard_digest(const uint64_t *key, const uint8_t *bytes, int64_t length, uint64_t *state);
/* cffi: end */

#endif
