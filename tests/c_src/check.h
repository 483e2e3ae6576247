/* Shared by the test programs of the C core: counted failures, failing allocations, random numbers.
 *
 * A program prints a line for each wrong result and exits with 1 if there is any. With an argument, it only
 * makes one check that fails, to show that failures are noticed. Compiled with -DPART=6, it draws a sixth of its
 * random problems.
 *
 * Link with -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc. One file of each program includes it. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef PART
#define PART 1
#endif

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
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);

/* True if the next allocation is granted. */
static int grant(void) {
    if (granted > 0)
        granted--;
    else if (granted == 0)
        return 0;
    return 1;
}

void *__wrap_malloc(size_t size) {
    return grant() ? __real_malloc(size) : NULL;
}

void *__wrap_calloc(size_t count, size_t size) {
    return grant() ? __real_calloc(count, size) : NULL;
}

void *__wrap_realloc(void *old, size_t size) {
    return grant() ? __real_realloc(old, size) : NULL;
}

/* Set `status` to that of a call, granting only its first `count` allocations. */
#define WITH_MEMORY_FOR(count, call) (granted = (count), status = (call), granted = -1)

static uint64_t state = 88172645463325252u;

/* A whole number from 0 to below - 1. */
static int32_t draw(int32_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (int32_t)(state % (uint64_t)below);
}

/* All checks of a program, or the one that fails if `wrong`. */
static void check_all(bool wrong);

int main(int arguments, char **argument) {
    (void)argument;
    check_all(arguments > 1);
    return failures > 0;
}
