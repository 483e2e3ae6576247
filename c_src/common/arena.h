/* Arenas: arrays that are allocated one by one and freed together. */
#pragma once

#include <stddef.h>

#include "common/status.h"

struct arena_block {
    struct arena_block *previous; /* NULL for the first */
    max_align_t memory[];
};

/* Zero-initialise it. Always call arena_free, after which the arena may be used again. */
struct arena {
    struct arena_block *last; /* owned */
    bool failed;              /* an allocation failed, so all later ones fail as well */
};

/* Allocate an array as malloc does or, if `zeros`, calloc; never NULL for a size of 0. Returns NULL and sets
 * `failed` if there is no memory. Allocate all arrays of a kernel first, then check arena_status once. */
static inline void *arena_take(struct arena *arena, size_t count, size_t size, bool zeros) {
    struct arena_block *block = NULL;
    if (!arena->failed && count <= (SIZE_MAX - sizeof *block) / size) {
        const size_t bytes = sizeof *block + count * size;
        block = zeros ? calloc(1, bytes) : malloc(bytes);
    }
    if (!block) {
        arena->failed = true;
        return NULL;
    }
    block->previous = arena->last;
    arena->last = block;
    return block->memory;
}

/* Set one to eight typed pointers to new arrays of `count` elements each, uninitialised or zeroed. */
#define ARENA_ARRAYS(arena, count, ...) ARENA_EACH(arena, count, false, __VA_ARGS__)
#define ARENA_ZEROS(arena, count, ...) ARENA_EACH(arena, count, true, __VA_ARGS__)
#define ARENA_EACH(arena, count, zeros, ...)                                                                 \
    ARENA_EIGHTH(__VA_ARGS__, ARENA_8, ARENA_7, ARENA_6, ARENA_5, ARENA_4, ARENA_3, ARENA_2, ARENA_1, )      \
    (arena, (size_t)(count), zeros, __VA_ARGS__)
#define ARENA_EIGHTH(a, b, c, d, e, f, g, h, eighth, ...) eighth
#define ARENA_1(a, n, z, p) ((p) = arena_take((a), (n), sizeof *(p), (z)))
#define ARENA_2(a, n, z, p, ...) ARENA_1(a, n, z, p), ARENA_1(a, n, z, __VA_ARGS__)
#define ARENA_3(a, n, z, p, ...) ARENA_1(a, n, z, p), ARENA_2(a, n, z, __VA_ARGS__)
#define ARENA_4(a, n, z, p, ...) ARENA_1(a, n, z, p), ARENA_3(a, n, z, __VA_ARGS__)
#define ARENA_5(a, n, z, p, ...) ARENA_1(a, n, z, p), ARENA_4(a, n, z, __VA_ARGS__)
#define ARENA_6(a, n, z, p, ...) ARENA_1(a, n, z, p), ARENA_5(a, n, z, __VA_ARGS__)
#define ARENA_7(a, n, z, p, ...) ARENA_1(a, n, z, p), ARENA_6(a, n, z, __VA_ARGS__)
#define ARENA_8(a, n, z, p, ...) ARENA_1(a, n, z, p), ARENA_7(a, n, z, __VA_ARGS__)

/* Allocate an array of `count` elements of `size` bytes and copy the `used` elements of an older one, which
 * stays allocated; NULL and `failed` if there is no memory. Grow geometrically, not linearly. */
static inline void *arena_grow(struct arena *arena, const void *old, size_t used, size_t count, size_t size) {
    void *grown = arena_take(arena, count, size, false);
    if (grown && used > 0)
        memcpy(grown, old, used * size);
    return grown;
}

/* SHARD_NO_MEMORY if an allocation has failed, else SHARD_OK. */
static inline int arena_status(const struct arena *arena) {
    return arena->failed ? SHARD_NO_MEMORY : SHARD_OK;
}

static inline void arena_free(struct arena *arena) {
    while (arena->last) {
        struct arena_block *previous = arena->last->previous;
        free(arena->last);
        arena->last = previous;
    }
    arena->failed = false;
}
