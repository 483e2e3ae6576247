#include "yardstick/yardstick.h"
#include "common/random.h"

enum { TABLE = 1024, SIDE = 64 };

static uint64_t hashed(uint64_t counter) {
    struct random random = {counter};
    return random_bits(&random);
}

uint64_t shard_yardstick_integers(int64_t rounds) {
    uint64_t table[TABLE] = {0};
    uint64_t sum = 0;
    for (int64_t round = 0; round < rounds; round++) {
        const uint64_t hash = hashed((uint64_t)round ^ sum);
        uint64_t *entry = &table[hash % TABLE];
        if (*entry < hash) {
            sum += *entry;
            *entry = hash >> 1;
        } else {
            sum ^= hash;
            *entry += 1;
        }
    }
    return sum;
}

double shard_yardstick_floats(int64_t rounds) {
    double left[SIDE][SIDE], right[SIDE][SIDE], product[SIDE][SIDE];
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            left[i][j] = (double)(hashed((uint64_t)(i * SIDE + j)) >> 40);
            right[i][j] = (double)(hashed((uint64_t)(j * SIDE + i)) >> 40);
        }
    for (int64_t round = 0; round < rounds; round++) {
        for (int i = 0; i < SIDE; i++)
            for (int j = 0; j < SIDE; j++)
                product[i][j] = INFINITY;
        for (int i = 0; i < SIDE; i++)
            for (int k = 0; k < SIDE; k++) {
                const double start = left[i][k];
                for (int j = 0; j < SIDE; j++) {
                    const double sum = start + right[k][j];
                    product[i][j] = sum < product[i][j] ? sum : product[i][j];
                }
            }
        memcpy(left, product, sizeof left);
    }
    return left[0][0] + left[SIDE - 1][SIDE - 1];
}

int64_t shard_yardstick_memory(int64_t size, const int32_t *next, int64_t rounds) {
    int64_t place = 0;
    for (int64_t round = 0; round < rounds; round++)
        place = next[place];
    return size > 0 ? place : -1;
}

/* Sattolo's algorithm: a random permutation of one cycle. */
void shard_yardstick_cycle(int64_t size, int32_t *next) {
    for (int64_t i = 0; i < size; i++)
        next[i] = (int32_t)i;
    for (int64_t i = size - 1; i > 0; i--) {
        const int64_t j = (int64_t)(hashed((uint64_t)i) % (uint64_t)i);
        const int32_t kept = next[i];
        next[i] = next[j];
        next[j] = kept;
    }
}
