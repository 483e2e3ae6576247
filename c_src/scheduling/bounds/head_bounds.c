/* Let a vertex v start on device d at time t. An earlier vertex whose tensor would reach d too late from
 * elsewhere must have run on d itself, and vertices that must have run on d ran one after another. The same
 * holds for any other device. The least t for which this is possible is the bound of v. A search tries the
 * devices of a few earlier vertices. */
#include "scheduling/bounds/head_bounds.h"

/* Values of row_of for a vertex without a row. */
enum { NOT_SEEN = -1, WAITING = -2 };

/* An edge from a vertex to `reader`, in the list of that vertex. */
struct arc {
    double size;
    int32_t reader;
    int32_t next; /* edge of the same vertex, or -1 */
};

/* Lower bounds for a vertex u before v, by the device d of v; devices elements each. */
struct row {
    double *start_apart;   /* on the start of v if u is on another device */
    double *span_apart;    /* on the time from the start of u to that of v if u is on another device */
    double *span_together; /* the same if u is on d */
    double *lag_together;  /* on the time from the end of u to the start of v if u is on d */
    double *lag_apart; /* devices * devices elements: the same if it is not; for each d, by the device of u */
};

/* Most vertices whose devices are fixed at the same time. */
enum { MOST_FIXED = 4 };

struct head_bounds {
    const struct shard_system *system;
    const struct shard_units *units;
    int32_t ancestors; /* rows at most */
    double *start;
    size_t k;
    int32_t *device;       /* nodes * devices elements: those that each vertex may use, once it is raised */
    int32_t *device_count; /* nodes elements: their number */
    double *inverse_bandwidth; /* devices * devices elements: transfer time per size, to and from */
    double *fastest_out;       /* devices elements: least transfer time per size to any other device */
    double *inverse_speed;     /* devices elements: time per operation */
    int32_t *position;         /* nodes elements: place in the order */
    int32_t *row_of;           /* nodes elements: row, NOT_SEEN or WAITING */
    int32_t *first;            /* nodes elements: the first arc of each waiting vertex */
    struct arc *arcs;
    int32_t arc_count;
    int32_t *waiting; /* vertices to visit */
    int32_t waiting_count;
    int32_t *seen; /* vertices with rows, in the order of `rows` */
    int32_t seen_count;
    struct row *rows;
    double *input_bound; /* devices elements: bound of v from each input alone */
    double *lag;         /* devices elements: scratch, transfer time from each device */
    double *apart;       /* by row: v starts no earlier if the vertex is not on the device considered */
    double *second;      /* by row: the same for the device `best` */
    double *tail;        /* by row: time from the end of the vertex there to the start of v */
    int32_t *best;       /* by row: the device other than that of v that suits the vertex best, or -1 */
    int32_t *by_apart;   /* rows that count on a device, latest `apart` first */
    int32_t *by_start;
    int32_t fixed[MOST_FIXED]; /* vertices whose devices are given, `depth` of them */
    size_t fixed_on[MOST_FIXED];
    int32_t depth;
    int32_t branches; /* most branches of the search for a vertex on a device */
    int32_t left;     /* branches that it may still look at */
    double *saved;    /* rows for one device of v, before the device of each fixed vertex was given */
    double *time;     /* the starts of v by the devices of the next fixed vertex, for each depth */
};

static struct device_set devices_left(const struct head_bounds *work, int32_t u) {
    return (struct device_set){work->device + (size_t)u * work->k, work->device_count[u]};
}

/* True if `from` and `to` can be different devices: they are, or they are one that stands for several. */
static bool may_differ(const struct head_bounds *work, size_t from, size_t to) {
    return from != to || !isinf(work->system->bandwidth[from * work->k + to]);
}

/* The earliest start of v on d if u is on another device, given the lag from each. shortest, out: the least time
 * from the start of u to that of v. */
static double from_elsewhere(const struct head_bounds *work, int32_t u, size_t d, const double *lag,
                             double *shortest) {
    const double *start = work->start + (size_t)u * work->k;
    const double complexity = work->system->complexity[u];
    const size_t excluded = may_differ(work, d, d) ? SIZE_MAX : d;
    const struct device_set set = devices_left(work, u);
    double first = INFINITY, least = INFINITY;
    for (int32_t i = 0; i < set.count; i++) {
        const size_t from = (size_t)set.list[i];
        if (from == excluded)
            continue;
        const double time = complexity * work->inverse_speed[from] + lag[from];
        least = lesser(least, time);
        first = lesser(first, start[from] + time);
    }
    *shortest = least;
    return first;
}

/* lag, out: the time of a tensor of u to a device, from each that u may use. */
static void transfers(const struct head_bounds *work, int32_t u, double size, size_t to, double *lag) {
    const double *inverse_bandwidth = work->inverse_bandwidth + to * work->k;
    const struct device_set set = devices_left(work, u);
    for (int32_t i = 0; i < set.count; i++)
        lag[set.list[i]] = size > 0 ? size * inverse_bandwidth[set.list[i]] : 0;
}

static bool same_unit(const struct head_bounds *work, int32_t u, int32_t v) {
    return work->units->unit[u] == work->units->unit[v];
}

/* The earliest start of v on d as each of its inputs alone allows. */
static double bound_by_inputs(const struct head_bounds *work, int32_t v, size_t d) {
    const struct shard_units *units = work->units;
    double base = 0;
    for (int64_t e = units->in_start[v]; e < units->in_start[v + 1]; e++) {
        const int32_t u = units->in_tail[e];
        double time =
            work->start[(size_t)u * work->k + d] + work->system->complexity[u] * work->inverse_speed[d];
        if (time > base && !same_unit(work, u, v)) {
            double shortest;
            transfers(work, u, units->in_size[e], d, work->lag);
            time = lesser(time, from_elsewhere(work, u, d, work->lag, &shortest));
        }
        base = greater(base, time);
    }
    return base;
}

/* The device that is given for u or a vertex colocated with it, or -1. */
static int64_t given_device(const struct head_bounds *work, int32_t u) {
    for (int32_t i = 0; i < work->depth; i++)
        if (same_unit(work, u, work->fixed[i]))
            return (int64_t)work->fixed_on[i];
    return -1;
}

/* Least transfer time per size from each device to a vertex, which is on another one. */
static const double *out_to(const struct head_bounds *work, int32_t reader) {
    const int64_t given = given_device(work, reader);
    return given < 0 ? work->fastest_out : work->inverse_bandwidth + (size_t)given * work->k;
}

/* Raise the lags from u, on another device, to v on d by the path through a vertex x that reads a tensor of
 * u: x is on d, on the device of u, or elsewhere, whichever is shortest. */
static void extend_lag(const struct head_bounds *work, int32_t u, const struct arc *arc, double *lag_apart,
                       size_t d) {
    const struct row *row = work->rows + work->row_of[arc->reader];
    const double *lag = row->lag_apart + d * work->k, *start = work->start + (size_t)arc->reader * work->k;
    const double *here = work->inverse_bandwidth + d * work->k, *elsewhere = out_to(work, arc->reader);
    const double complexity = work->system->complexity[arc->reader];
    const double span_here = row->span_together[d], span_elsewhere = row->span_apart[d];
    const bool sent = arc->size > 0, same = same_unit(work, u, arc->reader);
    const struct device_set set = devices_left(work, u);
    for (int32_t i = 0; i < set.count; i++) {
        const size_t from = (size_t)set.list[i];
        double time = isinf(start[from]) ? INFINITY : complexity * work->inverse_speed[from] + lag[from];
        if (!same) {
            time = lesser(time, (sent ? arc->size * here[from] : 0) + span_here);
            time = lesser(time, (sent ? arc->size * elsewhere[from] : 0) + span_elsewhere);
        }
        lag_apart[from] = greater(lag_apart[from], time);
    }
}

/* Fill a row for u and a device d of v; true if u must be on d for v to start as early as its inputs allow. */
static bool fill_row(const struct head_bounds *work, struct row *row, int32_t u, int32_t v, size_t d) {
    double *lag_apart = row->lag_apart + d * work->k;
    const struct device_set set = devices_left(work, u);
    for (int32_t i = 0; i < set.count; i++)
        lag_apart[set.list[i]] = 0;
    double rest = 0;
    for (int32_t i = work->first[u]; i >= 0; i = work->arcs[i].next) {
        const struct arc *arc = work->arcs + i;
        if (arc->reader == v) {
            const double *inverse_bandwidth = work->inverse_bandwidth + d * work->k;
            for (int32_t j = 0; arc->size > 0 && j < set.count; j++) {
                const size_t from = (size_t)set.list[j];
                lag_apart[from] = greater(lag_apart[from], arc->size * inverse_bandwidth[from]);
            }
        } else {
            const struct row *reader = work->rows + work->row_of[arc->reader];
            const bool stays = may_differ(work, d, d) || same_unit(work, u, arc->reader) || arc->size <= 0;
            const double out = stays ? 0 : arc->size * out_to(work, arc->reader)[d];
            rest = greater(rest, lesser(reader->span_together[d], out + reader->span_apart[d]));
            extend_lag(work, u, arc, lag_apart, d);
        }
    }
    const int64_t given = given_device(work, u);
    const bool same = same_unit(work, u, v);
    for (int32_t i = 0; (same || given >= 0) && i < set.count; i++)
        if (same || set.list[i] != given)
            lag_apart[set.list[i]] = INFINITY;
    row->start_apart[d] = from_elsewhere(work, u, d, lag_apart, row->span_apart + d);
    row->lag_together[d] = rest;
    const bool allowed = !isinf(work->start[(size_t)u * work->k + d]) && (given < 0 || (size_t)given == d);
    row->span_together[d] = allowed ? work->system->complexity[u] * work->inverse_speed[d] + rest : INFINITY;
    return row->start_apart[d] > work->input_bound[d];
}

static void push_inputs(struct head_bounds *work, int32_t v) {
    const struct shard_units *units = work->units;
    for (int64_t e = units->in_start[v]; e < units->in_start[v + 1]; e++) {
        const int32_t u = units->in_tail[e];
        if (work->row_of[u] == NOT_SEEN) {
            work->row_of[u] = WAITING;
            work->first[u] = -1;
            work->waiting[work->waiting_count++] = u;
        }
        work->arcs[work->arc_count] = (struct arc){units->in_size[e], v, work->first[u]};
        work->first[u] = work->arc_count++;
    }
}

static int32_t pop_latest(struct head_bounds *work) {
    int32_t at = 0;
    for (int32_t i = 1; i < work->waiting_count; i++)
        if (work->position[work->waiting[i]] > work->position[work->waiting[at]])
            at = i;
    const int32_t u = work->waiting[at];
    work->waiting[at] = work->waiting[--work->waiting_count];
    return u;
}

/* Make rows for vertices before v, the nearest first: for a search, as many as may be; else only those that may
 * have to share the device of v. */
static void collect_rows(struct head_bounds *work, int32_t v) {
    work->arc_count = 0;
    push_inputs(work, v);
    while (work->waiting_count && work->seen_count < work->ancestors) {
        const int32_t u = pop_latest(work);
        bool needed = work->branches > 0;
        for (size_t d = 0; d < work->k; d++)
            if (!isinf(work->input_bound[d]))
                needed |= fill_row(work, work->rows + work->seen_count, u, v, d);
        work->row_of[u] = needed ? work->seen_count : NOT_SEEN;
        if (needed) {
            work->seen[work->seen_count++] = u;
            if (work->units->in_start[u + 1] - work->units->in_start[u] <= MOST_INPUTS)
                push_inputs(work, u);
        }
    }
    while (work->waiting_count)
        work->row_of[work->waiting[--work->waiting_count]] = NOT_SEEN;
}

/* Sort the rows with an `apart` above a bound, the latest first; return their number. */
static int32_t sort_by_apart(const struct head_bounds *work, double bound) {
    int32_t count = 0;
    for (int32_t i = 0; i < work->seen_count; i++) {
        if (!(work->apart[i] > bound))
            continue;
        int32_t at = count++;
        for (; at && work->apart[work->by_apart[at - 1]] < work->apart[i]; at--)
            work->by_apart[at] = work->by_apart[at - 1];
        work->by_apart[at] = i;
    }
    return count;
}

/* Add a row to the `count` rows of by_start, which run on a device in turn; return the earliest start of v. */
static double start_in_sequence(const struct head_bounds *work, int32_t row, int32_t count, size_t device) {
    const double *start = work->start + device;
    const double begin = start[(size_t)work->seen[row] * work->k];
    int32_t at = count;
    for (; at && start[(size_t)work->seen[work->by_start[at - 1]] * work->k] < begin; at--)
        work->by_start[at] = work->by_start[at - 1];
    work->by_start[at] = row;
    double sum = 0, rest = INFINITY, last = 0;
    for (int32_t i = 0; i <= count; i++) {
        const int32_t u = work->seen[work->by_start[i]];
        sum += work->system->complexity[u] * work->inverse_speed[device];
        rest = lesser(rest, work->tail[work->by_start[i]]);
        last = greater(last, start[(size_t)u * work->k] + sum + rest);
    }
    return last;
}

/* Raise a bound on the start of v: vertices that would be too late on other devices have run on this one. */
static double raise_in_sequence(const struct head_bounds *work, size_t device, double bound) {
    const int32_t count = sort_by_apart(work, bound);
    for (int32_t i = 0; i < count; i++) {
        const double here = start_in_sequence(work, work->by_apart[i], i, device);
        const double next = i + 1 < count ? work->apart[work->by_apart[i + 1]] : bound;
        if (here >= next)
            return greater(bound, lesser(here, work->apart[work->by_apart[i]]));
    }
    return bound;
}

/* Find the device, other than d, on which a vertex suits v on d best, and the start of v if it is not there. */
static void find_best(const struct head_bounds *work, int32_t i, size_t d) {
    const struct row *row = work->rows + i;
    const double *start = work->start + (size_t)work->seen[i] * work->k, *lag = row->lag_apart + d * work->k;
    const double complexity = work->system->complexity[work->seen[i]];
    double first = INFINITY, second = start[d] + row->span_together[d];
    const struct device_set set = devices_left(work, work->seen[i]);
    work->best[i] = -1;
    for (int32_t j = 0; j < set.count; j++) {
        const size_t from = (size_t)set.list[j];
        if (!may_differ(work, from, d))
            continue;
        const double begin = start[from] + complexity * work->inverse_speed[from] + lag[from];
        if (begin < first) {
            second = lesser(second, first);
            first = begin;
            work->best[i] = (int32_t)from;
        } else {
            second = lesser(second, begin);
        }
    }
    work->tail[i] = work->best[i] < 0 ? 0 : lag[work->best[i]];
    work->second[i] = second;
}

/* Raise a bound on the start of v on d by the vertices that would be too late on all devices but `device`. */
static double raise_elsewhere(const struct head_bounds *work, size_t device, double bound) {
    int32_t count = 0;
    for (int32_t i = 0; i < work->seen_count; i++) {
        work->apart[i] =
            work->best[i] == (int32_t)device ? work->second[i] : -INFINITY; /* below all bounds */
        count += work->apart[i] > bound;
    }
    return count > 1 ? raise_in_sequence(work, device, bound) : bound;
}

/* The earliest start of v on d, not before `bound`, such that all vertices that would be too late on all
 * devices but one have run there. */
static double start_on(const struct head_bounds *work, size_t d, double bound) {
    for (int32_t i = 0; i < work->seen_count; i++) {
        work->apart[i] = work->rows[i].start_apart[d];
        work->tail[i] = work->rows[i].lag_together[d];
    }
    bound = raise_in_sequence(work, d, bound);
    if (work->branches == 0)
        return bound; /* without a search, the other devices take half as long again and gain next to nothing */
    for (int32_t i = 0; i < work->seen_count; i++)
        find_best(work, i, d);
    for (size_t device = 0; device < work->k; device++)
        if (device != d && !may_differ(work, device, device))
            bound = raise_elsewhere(work, device, bound);
    return bound;
}

/* Save the elements of all rows for device d of v, or restore them. */
static void move_rows(const struct head_bounds *work, size_t d, bool back) {
    for (int32_t i = 0; i < work->seen_count; i++) {
        const struct row *row = work->rows + i;
        double *parts[] = {row->start_apart + d, row->span_apart + d, row->span_together + d,
                           row->lag_together + d};
        double *saved = work->saved + (size_t)(work->depth * work->ancestors + i) * (4 + work->k);
        double *lag = row->lag_apart + d * work->k;
        for (int j = 0; j < 4; j++)
            *(back ? parts[j] : saved + j) = *(back ? saved + j : parts[j]);
        memcpy(back ? lag : saved + 4, back ? saved + 4 : lag, work->k * sizeof *lag);
    }
}

/* The earliest start of v on d if the vertex of a row is on a device. */
static double start_if(const struct head_bounds *work, int32_t i, size_t on, size_t d) {
    const struct row *row = work->rows + i;
    const double start = work->start[(size_t)work->seen[i] * work->k + on];
    const double time = work->system->complexity[work->seen[i]] * work->inverse_speed[on];
    double found = on == d ? start + row->span_together[d] : INFINITY;
    if (!isinf(start) && may_differ(work, on, d))
        found = lesser(found, start + time + row->lag_apart[d * work->k + on]);
    return found;
}

/* The first row, from one on, whose vertex may be on several devices if v starts on d at `bound`; time, out:
 * the starts of v by these devices. */
static int32_t undecided(const struct head_bounds *work, int32_t i, size_t d, double bound, double *time) {
    for (; i < work->seen_count; i++) {
        int32_t count = 0;
        for (size_t on = 0; on < work->k; on++) {
            time[on] = start_if(work, i, on, d);
            count += time[on] <= bound;
        }
        if (count > 1 && given_device(work, work->seen[i]) < 0)
            break;
    }
    return i;
}

static size_t earliest(const struct head_bounds *work, const double *time) {
    size_t least = 0;
    for (size_t on = 1; on < work->k; on++)
        if (time[on] < time[least])
            least = on;
    return least;
}

/* Raise a bound on the start of v on d by the least bound of the branches, in which the next undecided vertex,
 * from a row on, is on each of its devices; further ones are tried in turn. The bound stays if no branches are left. */
static double search(struct head_bounds *work, int32_t v, int32_t row, size_t d, double bound) {
    if (work->depth == MOST_FIXED || work->left <= 0)
        return bound;
    double *time = work->time + (size_t)work->depth * work->k, least = INFINITY;
    if ((row = undecided(work, row, d, bound, time)) == work->seen_count)
        return bound;
    move_rows(work, d, false);
    for (;;) {
        const size_t on = earliest(work, time);
        if (time[on] >= least || least <= bound)
            break;
        if (work->left-- <= 0) {
            least = bound;
            break;
        }
        work->fixed[work->depth] = work->seen[row];
        work->fixed_on[work->depth++] = on;
        for (int32_t i = 0; i < work->seen_count; i++)
            fill_row(work, work->rows + i, work->seen[i], v, d);
        double found = start_on(work, d, greater(bound, time[on]));
        if (found < least)
            found = search(work, v, row + 1, d, found);
        least = lesser(least, found);
        work->depth--;
        move_rows(work, d, true);
        time[on] = INFINITY;
    }
    return greater(bound, least);
}

static bool may_use(const struct head_bounds *work, int32_t v, int32_t d) {
    const struct device_set set = devices_of(work->system, work->units, work->units->unit[v]);
    for (int32_t i = 0; set.list && i < set.count; i++)
        if (set.list[i] == d)
            return true;
    return !set.list;
}

void head_bounds_keep(struct head_bounds *work, int32_t v) {
    int32_t *device = work->device + (size_t)v * work->k;
    work->device_count[v] = 0;
    for (size_t d = 0; d < work->k; d++)
        if (!isinf(work->start[(size_t)v * work->k + d]))
            device[work->device_count[v]++] = (int32_t)d;
}

void head_bounds_raise(struct head_bounds *work, int32_t v) {
    double *start = work->start + (size_t)v * work->k;
    for (size_t d = 0; d < work->k; d++) {
        const bool may = !isinf(start[d]) && may_use(work, v, (int32_t)d);
        work->input_bound[d] = may ? greater(start[d], bound_by_inputs(work, v, d)) : INFINITY;
    }
    collect_rows(work, v);
    for (size_t d = 0; d < work->k; d++) {
        if (isinf(work->input_bound[d])) {
            start[d] = INFINITY;
        } else {
            work->left = work->branches;
            start[d] = search(work, v, 0, d, start_on(work, d, work->input_bound[d]));
        }
    }
    head_bounds_keep(work, v);
    while (work->seen_count)
        work->row_of[work->seen[--work->seen_count]] = NOT_SEEN;
}

static void prepare_devices(struct head_bounds *work) {
    const struct shard_system *system = work->system;
    for (size_t from = 0; from < work->k; from++) {
        work->inverse_speed[from] = 1 / system->speed[from];
        for (size_t to = 0; to < work->k; to++)
            work->inverse_bandwidth[to * work->k + from] = 1 / system->bandwidth[from * work->k + to];
        work->fastest_out[from] = INFINITY;
        for (size_t to = 0; to < work->k; to++)
            if (to != from)
                work->fastest_out[from] =
                    lesser(work->fastest_out[from], work->inverse_bandwidth[to * work->k + from]);
    }
}

void head_bounds_set_order(struct head_bounds *work, const int32_t *order, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        work->position[order[i]] = i;
        work->row_of[order[i]] = NOT_SEEN;
    }
}

struct head_bounds *head_bounds_new(struct arena *arena, const struct shard_system *system,
                                    const struct shard_units *units, int32_t ancestors, int64_t most_inputs,
                                    int32_t branches, double *start) {
    const int64_t n = system->nodes, k = system->devices, w = ancestors;
    struct head_bounds *work;
    double *rows;
    if (!ARENA_ZEROS(arena, 1, work))
        return NULL;
    work->system = system;
    work->units = units;
    work->ancestors = ancestors;
    work->branches = branches;
    work->start = start;
    work->k = (size_t)k;
    ARENA_ARRAYS(arena, k * k, work->inverse_bandwidth);
    ARENA_ARRAYS(arena, k, work->fastest_out, work->inverse_speed, work->input_bound, work->lag);
    ARENA_ARRAYS(arena, n, work->position, work->row_of, work->first, work->waiting, work->device_count);
    ARENA_ARRAYS(arena, n * k, work->device);
    ARENA_ARRAYS(arena, w, work->seen, work->by_apart, work->by_start, work->rows);
    ARENA_ARRAYS(arena, w, work->apart, work->second, work->tail, work->best);
    ARENA_ARRAYS(arena, MOST_FIXED * w * (4 + k), work->saved);
    ARENA_ARRAYS(arena, MOST_FIXED * k, work->time);
    ARENA_ARRAYS(arena, most_inputs + w * MOST_INPUTS, work->arcs);
    ARENA_ARRAYS(arena, w * (4 + k) * k, rows);
    if (arena->failed)
        return NULL;
    for (int32_t i = 0; i < ancestors; i++, rows += (4 + k) * k)
        work->rows[i] = (struct row){rows, rows + k, rows + 2 * k, rows + 3 * k, rows + 4 * k};
    prepare_devices(work);
    return work;
}
