/* The longest paths of a schedule, kept up to date while vertices leave and join devices.
 *
 * With independent links, the makespan of a schedule is its longest path along tensors and along the
 * sequences of vertices on devices. For each vertex, the longest path up to its end (its past) and the
 * longest path from its start on (its future) are kept; they differ only in direction. */
#pragma once

#include "common/arena.h"
#include "scheduling/simulation/simulate.h"
#include "scheduling/units.h"

/* Maximum of numbers that are not NaN: fmax, which handles NaN, is not inlined. */
static inline double greater(double a, double b) {
    return a > b ? a : b;
}

/* One direction in time. The first three arrays are the caller's, the others the arena's. */
struct direction {
    const int64_t *start; /* nodes + 1 elements: edges of v in this direction: start[v] .. start[v + 1] - 1 */
    const int32_t *end;   /* edges elements: the other vertex */
    const double *size;   /* edges elements */
    double *path;         /* nodes elements: the longest path, the vertex itself included */
    int32_t *next;        /* nodes elements: the neighbour on the same device, or -1 */
    double *lag;          /* edges elements: time of the transfer, 0 within a device */
    int64_t *twin;        /* edges elements: number of the edge in the other direction */
    double *rate;         /* devices * devices elements, device by device: transfer time per size */
    /* Vertices to visit, in a nearly topological order of all vertices. */
    int32_t *rank;    /* nodes elements: place in that order */
    int32_t *at;      /* nodes elements: the vertex of each rank */
    uint64_t *marked; /* words elements: a bit per rank */
    int32_t words;
    int32_t low, high; /* ranks from low to high - 1 are in the window */
    int32_t first;     /* all earlier words are 0 */
    int32_t count;     /* bits */
    /* Changes in this round. */
    int32_t *changed;    /* nodes elements */
    double *old_path;    /* nodes elements: old paths of `changed` */
    int32_t changes;     /* elements of the two in use */
    int64_t *changed_in; /* nodes elements: the last round in which each vertex changed */
};

/* The vertices that a device runs, in order. */
struct sequence {
    int32_t *vertex; /* room elements of the arena, count in use */
    int32_t count, room;
    int32_t before, behind; /* leading and trailing vertices that are not in the window */
};

struct vertex_end {
    double time;
    int32_t vertex;
    int32_t part;
};

struct paths {
    struct arena *arena;
    const struct shard_system *system;
    struct direction past, future;
    int32_t *device;              /* nodes elements, -1: taken out */
    double *time;                 /* nodes elements: on its device */
    double least_time;            /* of a vertex */
    double *inverse_speed;        /* devices elements: time per operation */
    struct sequence *sequences;   /* devices elements */
    const int32_t *part;          /* nodes elements of the caller: see path_moves.h */
    int32_t own;                  /* the part whose vertices may move; */
    int32_t own_first, own_count; /* their ranks in the past: the first one, and the number */
    int64_t round;
    double makespan;
    double around;           /* the longest path that does not lead through the window */
    struct vertex_end *ends; /* nodes elements: scratch of rank_by_end */
};

/* Allocate for schedules on a system, with room on each device for the vertices that `device`, in, nodes
 * elements, puts there; the arena fails if there is no memory. part, own: as in shard_path_moves; `part` must stay
 * alive. */
void paths_allocate(struct paths *paths, struct arena *arena, const struct shard_system *system,
                    const struct shard_units *units, const int32_t *device, const int32_t *part, int32_t own);

/* Compute all paths of a schedule; false if it has a cycle.
 *
 *   device  in, nodes elements
 *   order   in, nodes elements: the vertices of device 0 as they run, then of device 1, ... */
bool paths_begin(struct paths *paths, const int32_t *device, const int32_t *order);

/* Recompute all paths, rank all vertices, and open a window: from now on only the `count` vertices from the past's
 * rank `first` on change. Only these may leave devices, and join them between vertices of the window. Pasts of
 * later vertices and futures of earlier ones are outdated until the next window. */
void paths_open(struct paths *paths, int32_t first, int32_t count);

/* True if a vertex is in the window. */
static inline bool in_window(const struct paths *paths, int32_t v) {
    return paths->past.rank[v] >= paths->past.low && paths->past.rank[v] < paths->past.high;
}

/* The makespan, as soon as all changes have been propagated. */
double paths_longest(const struct paths *paths);

/* Insert a vertex that is on no device into the sequence of device d, which has room, or remove it. A removed
 * vertex takes almost no time and its tensors none, but it still waits for its inputs. Paths are not updated. */
void paths_insert(struct paths *paths, int32_t v, int32_t d, int32_t index);
void paths_remove(struct paths *paths, int32_t v, int32_t index);

/* Make room for `more` vertices on device d; false, and the arena fails, if there is no memory. */
bool paths_make_room(struct paths *paths, int32_t d, int32_t more);

/* Mark a vertex to visit; -1, and one that is not in the window, is ignored. */
void paths_mark(struct direction *direction, int32_t v);

/* Mark the vertices whose path in this direction may lead through v. */
void paths_mark_beyond(struct paths *paths, struct direction *direction, int32_t v);

/* Mark v and these vertices, in both directions. */
void paths_mark_around(struct paths *paths, int32_t v);

/* Propagate the changes from the marked vertices, but not through paths beyond `limit`. Give up and return false as
 * soon as a path longer than `most` is found at a vertex beyond `settled`, after which no path has become shorter;
 * or after far more steps than are ever needed: vertices inserted one after another while some paths are outdated
 * may wait for each other. */
bool paths_follow(struct paths *paths, struct direction *direction, double limit, double settled,
                  double most);

/* End a round: undo its changes of paths, or keep them. */
void paths_restore(struct paths *paths);
void paths_keep(struct paths *paths);

/* Time of a vertex on device d. */
static inline double time_on(const struct paths *paths, int32_t v, int32_t d) {
    const double time = paths->system->complexity[v] * paths->inverse_speed[d];
    return time > paths->least_time ? time : paths->least_time;
}

/* Time of the transfer along an edge if its vertex is on d; 0 if the other end is on no device. */
static inline double lag_on(const struct paths *paths, const struct direction *direction, int64_t e,
                            int32_t d) {
    const int32_t other = paths->device[direction->end[e]];
    if (other < 0 || other == d || direction->size[e] <= 0)
        return 0;
    return direction->size[e] * direction->rate[(size_t)d * (size_t)paths->system->devices + (size_t)other];
}
