/* Binary heaps of any element type, defined by macros: the first element of an order is on top. */
#pragma once

#include <stdint.h>

/* HEAP(name, type, before) defines `struct name`, a heap of `type`, with
 *
 *   void name_push(struct name *heap, type value)  add an element
 *   type name_pop(struct name *heap)               remove the top of a heap that is not empty
 *
 * before(a, b) is true if a leaves the heap before b. It must be a strict order; if it is total, the sequence
 * of pops does not depend on the sequence of pushes. The caller owns `item`. */
#define HEAP(name, type, before)                                                                             \
    struct name {                                                                                            \
        type *item; /* count elements, the top first */                                                      \
        int64_t count;                                                                                       \
    };                                                                                                       \
    HEAP_SIFT(name, type, before, HEAP_SET)                                                                  \
    static inline void name##_push(struct name *heap, type value) {                                          \
        heap->count++;                                                                                       \
        name##_rise(heap, heap->count - 1, value);                                                           \
    }                                                                                                        \
    static inline type name##_pop(struct name *heap) {                                                       \
        const type top = heap->item[0];                                                                      \
        heap->count--;                                                                                       \
        name##_sink(heap, 0, heap->item[heap->count]);                                                       \
        return top;                                                                                          \
    }

/* HEAP_WITH_PLACES(name, type, before) defines a heap whose elements are identified by their field `number`,
 * so that any of them can be changed or removed:
 *
 *   void name_update(struct name *heap, type value)    add an element, or replace the one of its number
 *   void name_remove(struct name *heap, int32_t number)  remove an element
 *
 * place[number] is the index of an element in the heap, -1 if there is none. The caller owns `place` and
 * `item`; heaps of different numbers may share `place`. */
#define HEAP_WITH_PLACES(name, type, before)                                                                 \
    struct name {                                                                                            \
        type *item; /* count elements, the top first */                                                      \
        int32_t *place;                                                                                      \
        int64_t count;                                                                                       \
    };                                                                                                       \
    HEAP_SIFT(name, type, before, HEAP_SET_WITH_PLACE)                                                       \
    static inline void name##_settle(struct name *heap, int64_t at, type value) {                            \
        if (at > 0 && before(value, heap->item[(at - 1) / 2]))                                               \
            name##_rise(heap, at, value);                                                                    \
        else                                                                                                 \
            name##_sink(heap, at, value);                                                                    \
    }                                                                                                        \
    static inline void name##_update(struct name *heap, type value) {                                        \
        const int32_t at = heap->place[value.number];                                                        \
        name##_settle(heap, at < 0 ? heap->count++ : at, value);                                             \
    }                                                                                                        \
    static inline void name##_remove(struct name *heap, int32_t number) {                                    \
        const int32_t at = heap->place[number];                                                              \
        const type last = heap->item[--heap->count];                                                         \
        heap->place[number] = -1;                                                                            \
        if (at < heap->count)                                                                                \
            name##_settle(heap, at, last);                                                                   \
    }

#define HEAP_SET(heap, at, value) ((heap)->item[at] = (value))
#define HEAP_SET_WITH_PLACE(heap, at, value)                                                                 \
    ((heap)->item[at] = (value), (heap)->place[(heap)->item[at].number] = (int32_t)(at))

/* Put a value into the heap, whose element `at` is free, by sifting it up or down. */
#define HEAP_SIFT(name, type, before, set)                                                                   \
    static inline void name##_rise(struct name *heap, int64_t at, type value) {                              \
        for (; at > 0 && before(value, heap->item[(at - 1) / 2]); at = (at - 1) / 2)                         \
            set(heap, at, heap->item[(at - 1) / 2]);                                                         \
        set(heap, at, value);                                                                                \
    }                                                                                                        \
    static inline void name##_sink(struct name *heap, int64_t at, type value) {                              \
        for (int64_t child = 2 * at + 1; child < heap->count; child = 2 * at + 1) {                          \
            if (child + 1 < heap->count && before(heap->item[child + 1], heap->item[child]))                 \
                child++;                                                                                     \
            if (!before(heap->item[child], value))                                                           \
                break;                                                                                       \
            set(heap, at, heap->item[child]);                                                                \
            at = child;                                                                                      \
        }                                                                                                    \
        set(heap, at, value);                                                                                \
    }
