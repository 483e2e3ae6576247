/* What the test programs of the C core share: failures that are counted, failing allocations, random numbers.
 *
 * Link with -Wl,--wrap=malloc. One file of a program includes it. */
#ifndef SHARD_CHECK_H
#define SHARD_CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int failures = 0;

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                  \
            failures++;                                                                                      \
        }                                                                                                    \
    } while (0)

/* Allocations to grant before all fail; negative: grant all. */
static int granted = -1;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size) {
    if (granted == 0)
        return NULL;
    if (granted > 0)
        granted--;
    return __real_malloc(size);
}

static uint64_t state = 88172645463325252u;

/* A whole number from 0 to below - 1. */
static int32_t draw(int32_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (int32_t)(state % (uint64_t)below);
}

#endif
