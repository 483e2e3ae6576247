/* The choice of the device that the vertices of a move join, drawn by the longest path through them at their best
 * places. */
#pragma once

#include "common/random.h"
#include "scheduling/paths/longest_paths.h"

/* Most devices that a move compares. */
enum { MOST_DEVICES = 64 };

/* Elements of the table from which Gumbel variates are drawn: a logarithm per device takes a sixth of all time. */
enum { QUANTILES = 1024 };

/* A vertex that a move takes along. */
struct mover {
    int32_t vertex;
    int32_t device; /* where it was, and its place in the sequence and its neighbours there */
    int32_t index, before, after;
    double least;  /* the longest path up to its start without the last transfer, and without other movers */
    double head;   /* on the device considered: the longest path up to its start */
    double tail;   /* and from its end on */
    double ahead;  /* of a path from its end on: complexity of other movers */
    double beyond; /* and the time after these */
};

/* The caller owns `system` and `units`, the arena all arrays. */
struct path_search {
    struct arena arena;
    const struct shard_system *system;
    const struct shard_units *units;
    struct random random;
    struct paths paths;
    double longest;        /* longest makespan allowed */
    double mean_time;      /* of a vertex in the first schedule */
    int64_t *member_start; /* nodes + 2 elements: see list_members */
    int32_t *member;       /* nodes elements, likewise */
    struct mover *movers;  /* nodes elements, mover_count in use */
    int32_t mover_count;
    int32_t *mover_of; /* nodes elements: the mover, or -1 */
    int32_t *devices;  /* MOST_DEVICES elements, device_count in use: those that a move compares */
    int32_t device_count;
    int64_t *listed_in;                /* devices elements: the last round in which a move compared each */
    double *gumbel;                    /* QUANTILES elements: quantiles of the standard Gumbel distribution */
    int32_t *best_device, *best_order; /* nodes elements: the best schedule, as in shard_path_moves */
    double best;                       /* its makespan */
};

/* The place of the first vertex of a sequence whose past is longer than `time`. */
int32_t path_devices_first_after(const struct paths *paths, const struct sequence *sequence, double time);

/* The length of the longest path through a mover at its best place on device d; index, out, 1 element: that place.
 * `limit` or more, without a place, if no place is below `limit`. A vertex that ends after the mover's head does
 * not precede it in the graph, and one whose future is longer than the mover's tail does not succeed it. From the
 * first of the former to the last of the latter, every place is possible and one of them is best. If there is no
 * such range, all places that the graph allows are equally good, and the one at time `end` is taken. */
double path_devices_best_place(const struct path_search *s, int32_t d, const struct mover *mover,
                               double limit, double end, int32_t *index);

/* List the devices to compare: all that the units may use, or MOST_DEVICES of them. The most likely ones come
 * first, as later ones are evaluated only until they prove worse. */
void path_devices_list(struct path_search *s);

/* Find, for each mover, a path to it and one from it that exist on every device; the one from it is the longest if
 * the movers stay on d. */
void path_devices_prepare(struct path_search *s, int32_t d);

/* Draw the device to join with probability proportional to exp(-path / temperature); -1 if there is none. path,
 * out, 1 element: the longest path through the movers there. */
int32_t path_devices_draw(struct path_search *s, double temperature, double *path);
