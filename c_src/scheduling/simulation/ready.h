/* The rules choose among executable vertices and idle devices. */
#pragma once

#include <stdbool.h>

#include "common/heap.h"

/* An executable vertex, and the keys by which vertices are compared. */
struct ready {
    double priority; /* greatest first */
    uint64_t turn;   /* of equals: least first */
    int32_t number;  /* of its entry in a table of all executable vertices */
};

/* The turn of a vertex: the number of the moment when it became executable, then its rank. */
static inline uint64_t turn_of(uint32_t moment, int32_t rank) {
    return (uint64_t)moment << 32 | ((uint32_t)rank ^ UINT32_C(1) << 31);
}

static inline bool runs_before(struct ready a, struct ready b) {
    return a.priority > b.priority || (a.priority >= b.priority && a.turn < b.turn);
}
HEAP(ready_heap, struct ready, runs_before)

/* An executable vertex as it starts. */
struct entry {
    double latest; /* when its inputs have arrived */
    double duration;
    int64_t first; /* its first output */
    int32_t node;  /* of an unused entry: the next unused one, or -1 */
};

/* The entries of all executable vertices: as they are few among all, they lie close together. */
struct entry_table {
    struct entry *entry;
    int32_t count;  /* entries that have been used */
    int32_t unused; /* the first of these that is unused now, or -1 */
};

/* Store an entry and return its number. */
static inline int32_t enter(struct entry_table *table, struct entry entry) {
    int32_t number = table->unused;
    if (number >= 0)
        table->unused = table->entry[number].node;
    else
        number = table->count++;
    table->entry[number] = entry;
    return number;
}

/* Remove and return the entry of a number. */
static inline struct entry leave(struct entry_table *table, int32_t number) {
    const struct entry entry = table->entry[number];
    table->entry[number].node = table->unused;
    table->unused = number;
    return entry;
}

/* A set of devices has a bit for each: device d is bit d % DEVICE_WORD of word d / DEVICE_WORD. */
#define DEVICE_WORD 64

static inline int32_t device_words(int32_t devices) {
    return (devices + DEVICE_WORD - 1) / DEVICE_WORD;
}

static inline uint64_t device_bit(int32_t d) {
    return UINT64_C(1) << d % DEVICE_WORD;
}

static inline bool has_device(const uint64_t *set, int32_t d) {
    return (set[d / DEVICE_WORD] & device_bit(d)) != 0;
}

static inline void add_device(uint64_t *set, int32_t d) {
    set[d / DEVICE_WORD] |= device_bit(d);
}

static inline void remove_device(uint64_t *set, int32_t d) {
    set[d / DEVICE_WORD] &= ~device_bit(d);
}
