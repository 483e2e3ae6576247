/* The state of a simulation: its workspace and the run under way. */
#pragma once

#include "scheduling/simulation/msr_queue.h"

/* An event: vertex v finishes (v) or becomes executable (nodes + v), or the next tensor of link l has passed (-1 -
 * l), unless the link has changed since. */
struct event {
    double time;
    int64_t what, change;
};

static inline bool sooner(struct event a, struct event b) {
    return a.time < b.time || (a.time <= b.time && a.what < b.what);
}
HEAP(event_heap, struct event, sooner)

/* A tensor on a shared link: it arrives once each tensor there has been served `through`. */
struct passing {
    double through;
    int64_t edge;
};

static inline bool served_sooner(struct passing a, struct passing b) {
    return a.through < b.through;
}
HEAP(passing_heap, struct passing, served_sooner)

/* A link that is shared or on which tensors queue. */
struct transfer_link {
    double bandwidth;
    double served;               /* size served to each tensor since the link was last empty, up to `since` */
    double since;                /* if tensors queue: when it is free */
    int64_t change;              /* changes of the number of its tensors */
    int32_t carried;             /* tensors that it carries in the run */
    struct passing_heap passing; /* the tensors on it */
};

/* Columns that are read when an input of a vertex arrives. */
struct vertex {
    double latest;   /* the last arrival of an input so far */
    int32_t pending; /* inputs that have not arrived */
    int32_t device;
};

struct simulation {
    struct shard_system system;
    /* by event */
    struct event_heap events;
    /* by vertex */
    struct vertex *vertex;
    int32_t *indegree;
    double reach;             /* mean difference of the numbers of an edge's ends */
    struct entry_table table; /* of the executable vertices; not used if in order */
    struct ready *executable; /* device d has executable[first[d]] .. */
    /* by device */
    int32_t *first;             /* devices + 1 elements */
    struct ready_heap *waiting; /* its part of `executable` */
    int32_t *next;              /* if in order: the place of its next vertex */
    int32_t *marked;
    uint64_t *idle;  /* the set of idle devices */
    double *free_at; /* when its last vertex so far finishes */
    bool *listed;    /* it is among those marked */
    /* by link */
    int32_t *number; /* of each pair of devices, plus 1; 0: none yet */
    struct transfer_link *links;
    int32_t link_count;
    struct passing *passing;
    /* by edge */
    int32_t *link_of;
};

/* A run under way. */
struct run {
    struct simulation *s;
    const struct shard_policy *policy;
    const int32_t *device;
    struct msr_queue *msr; /* NULL for other rules */
    double *start, *finish, *arrival;
    int32_t *sequence;
    int32_t started, marked;
    bool fetches;     /* what coming events read is fetched ahead */
    double now;       /* when the moment began */
    double until;     /* events up to then belong to the moment */
    double since;     /* when the last moment began in which a vertex became executable */
    uint32_t moments; /* number of such moments before it */
};
