/* The state of an `msr_queue`. */
#pragma once

#include "scheduling/simulation/msr_queue.h"

/* A vertex that could unlock devices, in the heap of one of them. */
struct unlocker {
    double bound;    /* greatest first: the score if all that it could unlock were idle */
    uint64_t turn;   /* of equals: least first */
    double fixed;    /* the fixed part of the score */
    uint64_t others; /* the devices that it could unlock, each modulo DEVICE_WORD */
    int32_t number;  /* of the slot */
    int32_t ready;   /* number of the vertex */
    int32_t spare;   /* successors that it could unlock beyond one per device */
};

static inline bool bounds_before(struct unlocker a, struct unlocker b) {
    return a.bound > b.bound || (a.bound >= b.bound && a.turn < b.turn);
}
HEAP_WITH_PLACES(unlocker_heap, struct unlocker, bounds_before)
HEAP_WITH_PLACES(score_heap, struct ready, runs_before)

/* Further state of an executable vertex. Counts include what its device has seen. */
struct candidate {
    double base; /* its score while no successor waits for it alone */
    uint64_t turn;
    int32_t end;     /* behind its last slot; its first one has the number of its first output */
    int32_t unlocks; /* successors that wait for it alone */
    int32_t unlocks_elsewhere;
    int32_t next; /* in the list `added` of its device, or -1 */
};

/* The predecessors of a vertex that have not finished. Of a single one, the exclusive ors are its values. */
struct waiting {
    int32_t pending; /* number of them */
    int32_t slots;   /* exclusive or of the slots that they have for the vertex */
    int32_t devices; /* exclusive or of their devices */
    int32_t next;    /* in the list `sole` of a device, or -1 */
};

/* The successors of one vertex on one device. */
struct slot {
    int32_t ready;      /* number of the vertex if it is executable and its device has seen it, else -1 */
    int32_t link;       /* from the vertex's device to theirs; -1 if it is the same */
    int32_t successors; /* 0: the slot is not used */
    int32_t unlocks;    /* number of them that wait for the vertex alone */
};

/* A heap of the vertices of one device that could unlock another. */
struct unlock_link {
    struct unlocker_heap heap;
    int32_t target;
};

struct msr_queue {
    const struct shard_system *system;
    const int32_t *device;
    const double *weight;
    bool fetches; /* what it reads soon is fetched ahead */
    /* by vertex */
    struct waiting *waiting;
    /* by number */
    const struct entry *entry;
    struct candidate *candidate;
    int32_t *at; /* place in the heap of its device */
    /* by edge */
    int32_t *slot_of;   /* slot of the edge's tail for its head */
    struct slot *slots; /* vertex v's begin at out_start[v] */
    int32_t *slot_at;   /* place of a slot in the heap of its link */
    /* by device */
    struct score_heap *heaps;
    int32_t *sole;  /* the first of a list of vertices that wait for one vertex of the device alone, which it
                          has not seen, or -1 */
    int32_t *added; /* the first number of a list of executable vertices that it has not seen, or -1 */
    uint64_t *targets; /* a set for each device: the devices to which it has a link whose heap is not empty */
    /* by pair of devices that some edge joins */
    int32_t *link_number; /* of each pair, plus 1 */
    struct unlock_link *links;
    int32_t link_count;
};
