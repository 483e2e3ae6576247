/* Let a vertex v start on device d at time t. An ancestor whose tensor would arrive at d after t from any other
 * device must have run on d, and vertices that must have run on d did so one after another. The same holds for
 * every other device. The least t for which this is possible is the bound of v. A search tries the devices of a few
 * ancestors. */
#include "scheduling/bounds/head_bounds.h"

#include "scheduling/bounds/head_rows.h"

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

/* Add a row to the `count` rows of by_start, which run in sequence on a device; return the earliest start of v. */
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

/* Raise a bound on the start of v: vertices that would be too late on other devices must have run on this one. */
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

/* Find the device, other than d, of a vertex that lets v start on d earliest, and the start of v if the vertex is
 * not there. */
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
        return bound; /* without a search, the other devices take half as much time again and gain almost nothing */
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

/* The first row, from row i on, whose vertex can be on several devices if v starts on d at `bound`; time, out: the
 * starts of v by these devices. */
static int32_t undecided(const struct head_bounds *work, int32_t i, size_t d, double bound, double *time) {
    for (; i < work->seen_count; i++) {
        int32_t count = 0;
        for (size_t on = 0; on < work->k; on++) {
            time[on] = start_if(work, i, on, d);
            count += time[on] <= bound;
        }
        if (count > 1 && head_rows_given(work, work->seen[i]) < 0)
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

/* Raise a bound on the start of v on d to the least bound of all branches, one for each device of the next
 * undecided vertex from `row` on; branches are searched recursively. If no branches are left, the bound stays. */
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
            head_rows_fill(work, work->rows + i, work->seen[i], v, d);
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
        work->input_bound[d] = may ? greater(start[d], head_rows_bound_by_inputs(work, v, d)) : INFINITY;
    }
    head_rows_collect(work, v);
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
