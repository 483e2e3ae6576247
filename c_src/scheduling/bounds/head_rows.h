/* Rows: for each of the nearest ancestors of a vertex v, lower bounds on the start of v, by the devices of both. */
#pragma once

#include "scheduling/bounds/head_bounds.h"

/* Values of row_of for a vertex without a row. */
enum { NOT_SEEN = -1, WAITING = -2 };

/* An edge from a vertex to `reader`, in the list of that vertex. */
struct arc {
    double size;
    int32_t reader;
    int32_t next; /* edge of the same vertex, or -1 */
};

/* Lower bounds for an ancestor u of v, by the device d of v; devices elements each. The arena owns all arrays. */
struct row {
    double *start_apart;   /* on the start of v if u is on another device */
    double *span_apart;    /* on the time from the start of u to that of v if u is on another device */
    double *span_together; /* the same if u is on d */
    double *lag_together;  /* on the time from the end of u to the start of v if u is on d */
    double *
        lag_apart; /* devices * devices elements: the same if u is on another device; for each d, by that device */
};

/* Most vertices whose devices are fixed at the same time. */
enum { MOST_FIXED = 4 };

/* The caller owns `system`, `units` and `start`, the arena all other arrays. */
struct head_bounds {
    const struct shard_system *system;
    const struct shard_units *units;
    int32_t ancestors;     /* rows at most */
    double *start;         /* nodes * devices elements: the bounds; infinite for devices that are ruled out */
    size_t k;              /* devices */
    int32_t *device;       /* nodes * devices elements: those that each vertex may use, once it is raised */
    int32_t *device_count; /* nodes elements: their number */
    double *inverse_bandwidth; /* devices * devices elements: transfer time per size, to and from */
    double *fastest_out;       /* devices elements: least transfer time per size to any other device */
    double *inverse_speed;     /* devices elements: time per operation */
    int32_t *position;         /* nodes elements: place in the order */
    int32_t *row_of;           /* nodes elements: row, NOT_SEEN or WAITING */
    int32_t *first;            /* nodes elements: the first arc of each waiting vertex */
    struct arc *arcs; /* the inputs of a vertex at most, and MOST_INPUTS elements per row; arc_count in use */
    int32_t arc_count;
    int32_t *waiting; /* nodes elements, waiting_count in use: vertices to visit */
    int32_t waiting_count;
    int32_t *seen; /* ancestors elements, seen_count in use: vertices with rows, in the order of `rows` */
    int32_t seen_count;
    struct row *rows;          /* ancestors elements; the arrays by row are as long */
    double *input_bound;       /* devices elements: bound of v from each input alone */
    double *lag;               /* devices elements: scratch, transfer time from each device */
    double *apart;             /* by row: v starts no earlier if the vertex is not on the device considered */
    double *second;            /* by row: the same for the device `best` */
    double *tail;              /* by row: time from the end of the vertex there to the start of v */
    int32_t *best;             /* by row: the device other than that of v that suits the vertex best, or -1 */
    int32_t *by_apart;         /* rows that count on a device, latest `apart` first */
    int32_t *by_start;         /* the same, latest start first */
    int32_t fixed[MOST_FIXED]; /* vertices whose devices are given, `depth` of them */
    size_t fixed_on[MOST_FIXED];
    int32_t depth;
    int32_t branches; /* most branches of the search for a vertex on a device */
    int32_t left;     /* branches that it may still look at */
    double *saved;    /* MOST_FIXED * ancestors * (4 + devices) elements: rows for one device, by depth */
    double *time;     /* MOST_FIXED * devices elements: starts of v by device of a fixed vertex, by depth */
};

static inline struct device_set devices_left(const struct head_bounds *work, int32_t u) {
    return (struct device_set){work->device + (size_t)u * work->k, work->device_count[u]};
}

/* True if `from` and `to` can be different devices: their numbers differ, or they are the same merged device. */
static inline bool may_differ(const struct head_bounds *work, size_t from, size_t to) {
    return from != to || !isinf(work->system->bandwidth[from * work->k + to]);
}

static inline bool same_unit(const struct head_bounds *work, int32_t u, int32_t v) {
    return work->units->unit[u] == work->units->unit[v];
}

/* The device fixed for u or for a vertex colocated with it; -1 if there is none. */
int64_t head_rows_given(const struct head_bounds *work, int32_t u);

/* The earliest start of v on d that each of its inputs alone allows. */
double head_rows_bound_by_inputs(const struct head_bounds *work, int32_t v, size_t d);

/* Fill a row for u and a device d of v; true if u must be on d for v to start as early as its inputs allow. */
bool head_rows_fill(const struct head_bounds *work, struct row *row, int32_t u, int32_t v, size_t d);

/* Make rows for ancestors of v, nearest first: as many as allowed for a search, else only for those that may have
 * to share the device of v. */
void head_rows_collect(struct head_bounds *work, int32_t v);
