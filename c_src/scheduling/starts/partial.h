/* A schedule up to a moment: what runs, what is under way, and what each device holds. */
#pragma once

#include "scheduling/units.h"

/* A vertex that finishes, or the tensor of an edge that arrives: number < nodes, or nodes + edge. */
struct coming {
    double time;
    int64_t number;
};

/* A tensor on a shared link: it arrives once the link has served as much to each of its tensors. */
struct shared {
    double through;
    int64_t edge;
    int32_t link, pad;
};

/* A vertex whose inputs have arrived, the last one at a time. */
struct executable {
    double time;
    int32_t vertex, pad;
};

/* Single values of a schedule. */
struct partial_head {
    double now;
    int64_t comings, shares, executables, readers; /* numbers of elements */
    int64_t next;                                  /* next output of `sender` */
    int32_t sender;                                /* vertex whose outputs depart; -1: none */
    int32_t turn;                                  /* first device that has not decided what it starts now */
    int32_t started, pad;
};

/* A schedule. Arrays are in one block of memory. */
struct partial {
    struct partial_head *head;
    double *held, *free_at; /* by device */
    double *served, *since; /* by link: from * devices + to; when a queue is free is in `since` */
    int32_t *running;       /* by device; -1: idle */
    int32_t *passing;       /* by link: tensors on it */
    int32_t *pending;       /* by vertex: inputs that have not arrived; -1: it has finished */
    int32_t *home;          /* by unit; -1: none yet */
    bool *touched;          /* by vertex: an input has departed */
    size_t fixed;           /* bytes up to here */
    struct coming *coming;  /* a heap, the soonest first */
    struct shared *shared;
    struct executable *executable;
    int32_t *reader; /* vertices with inputs that have departed that have not started */
};

/* The problem, which no schedule changes. */
struct setting {
    const struct shard_system *system;
    const struct shard_units *units;
    bool reserved;
    const double *weight,
        *limit; /* by edge, in the order of tails, and by device: whole numbers; or no limit: infinite */
    double *read, *made; /* by vertex: summed weights of inputs and outputs */
    int64_t *edge_of;    /* by place in in_tail: the place by tail */
    double
        step; /* least time from a start to its finish, or from a departure that takes time to the arrival */
};

/* Share of a time: what is overfull for less does not count. It covers the tolerance of times and rounding. */
static const double SLACK = 1e-8;

/* What `partial_process` ends with. */
enum progress { WITHOUT_LINK = -1, SETTLED = 0, NEEDS_HOME = 1 };

/* Allocate from an arena, which fails if there is no memory. */
void setting_allocate(struct setting *setting, struct arena *arena, const struct shard_system *system,
                      const struct shard_units *units, bool reserved, const double *weight,
                      const double *limit);
void partial_allocate(struct partial *partial, struct arena *arena, const struct setting *setting);

/* Nothing has started. */
void partial_reset(struct partial *partial, const struct setting *setting);

/* Process what happens now, until a unit needs a device, which is then the unit of the reader of the next output of the
 * sender; or a tensor has no link; or all is settled. */
enum progress partial_process(struct partial *partial, const struct setting *setting);

/* Start an executable vertex, or one without inputs, on device d. */
void partial_start(struct partial *partial, const struct setting *setting, int32_t v, int32_t d);

/* The next time at which something happens; infinite if nothing does. */
double partial_next(const struct partial *partial, const struct setting *setting);

/* Say if a device holds its limit or more. */
static inline bool is_full(const struct partial *partial, const struct setting *setting, int32_t d) {
    return partial->held[d] >= setting->limit[d];
}

/* Bytes of a packed schedule, and at most of any; pack it, and unpack it again. */
size_t partial_most(const struct partial *partial, const struct setting *setting);
size_t partial_size(const struct partial *partial);
void partial_pack(const struct partial *partial, char *bytes);
void partial_unpack(struct partial *partial, const char *bytes);
