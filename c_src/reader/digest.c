/* NH within blocks, polynomials over blocks. */
#include "reader/digest.h"

#define WORDS (SHARD_BLOCK / 8)
#define PRIME ((UINT64_C(1) << 61) - 1)

__extension__ typedef unsigned __int128 uint128;

static uint128 block(const uint64_t *key, const uint8_t *bytes) {
    uint128 sum[2] = {0, 0}; /* two, so that neither waits for the other's additions */
    for (int i = 0; i < WORDS; i += 4) {
        uint64_t word[4];
        memcpy(word, bytes + 8 * i, sizeof word);
        sum[0] += (uint128)(word[0] + key[i]) * (word[1] + key[i + 1]);
        sum[1] += (uint128)(word[2] + key[i + 2]) * (word[3] + key[i + 3]);
    }
    return sum[0] + sum[1];
}

/* value * point + more modulo the prime, all three below 2^61. */
static uint64_t horner(uint64_t value, uint64_t point, uint64_t more) {
    const uint128 product = (uint128)value * point + more;
    const uint64_t folded = (uint64_t)(product & PRIME) + (uint64_t)(product >> 61);
    return folded >= PRIME ? folded - PRIME : folded;
}

static void absorb(const uint64_t *key, uint128 sum, uint64_t *state) {
    for (int part = 0; part < 128; part += 32)
        for (int i = 0; i < 2; i++)
            state[i] = horner(state[i], key[WORDS + i] & PRIME, (uint32_t)(sum >> part));
}

void shard_digest(const uint64_t *key, const uint8_t *bytes, int64_t length, uint64_t *state) {
    const int64_t whole = length - length % SHARD_BLOCK;
    for (int64_t at = 0; at < whole; at += SHARD_BLOCK)
        absorb(key, block(key, bytes + at), state);
    if (whole < length) {
        uint8_t rest[SHARD_BLOCK] = {0};
        memcpy(rest, bytes + whole, (size_t)(length - whole));
        absorb(key, block(key, rest), state);
    }
}
