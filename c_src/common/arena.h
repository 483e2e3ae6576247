/* Arenas: arrays that are allocated one by one and freed together. */
#ifndef SHARD_ARENA_H
#define SHARD_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/status.h"

struct arena_block {
    struct arena_block *previous; /* NULL for the first */
    max_align_t memory[];
};

/* Zero-initialise it. arena_free is due in every case; an arena that was freed may be used again. */
struct arena {
    struct arena_block *last; /* owned */
    bool failed;              /* an allocation failed, so all later ones fail as well */
};

/* An array of the arena, as of malloc (or, if `zeros`, calloc), never NULL for a size of 0; NULL and `failed`
 * if there is no memory. Allocate all arrays of a kernel first and ask for arena_status once. */
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

/* Set a typed pointer to a new array of `count` elements: of undefined values, or of zeros. */
#define ARENA_ARRAY(arena, pointer, count)                                                                   \
    ((pointer) = arena_take((arena), (size_t)(count), sizeof *(pointer), false))
#define ARENA_ZEROS(arena, pointer, count)                                                                   \
    ((pointer) = arena_take((arena), (size_t)(count), sizeof *(pointer), true))

/* An array of `count` elements of `size` bytes that begins with the `used` elements of an older one, which
 * stays allocated; NULL and `failed` if there is no memory. Grow by factors, not by steps. */
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

#endif
