/* A row follows from the rows of the vertices that read a tensor of its vertex. */
#include "scheduling/bounds/head_rows.h"

/* The earliest start of v on d if u is on another device, given the lag from each device. shortest, out: the least
 * time from the start of u to that of v. */
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

/* lag, out: the transfer time of a tensor of u to a device, from each device that u may use. */
static void transfers(const struct head_bounds *work, int32_t u, double size, size_t to, double *lag) {
    const double *inverse_bandwidth = work->inverse_bandwidth + to * work->k;
    const struct device_set set = devices_left(work, u);
    for (int32_t i = 0; i < set.count; i++)
        lag[set.list[i]] = size > 0 ? size * inverse_bandwidth[set.list[i]] : 0;
}

double head_rows_bound_by_inputs(const struct head_bounds *work, int32_t v, size_t d) {
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

int64_t head_rows_given(const struct head_bounds *work, int32_t u) {
    for (int32_t i = 0; i < work->depth; i++)
        if (same_unit(work, u, work->fixed[i]))
            return (int64_t)work->fixed_on[i];
    return -1;
}

/* Least transfer time per size from each device to a vertex, which is on another one. */
static const double *out_to(const struct head_bounds *work, int32_t reader) {
    const int64_t given = head_rows_given(work, reader);
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

bool head_rows_fill(const struct head_bounds *work, struct row *row, int32_t u, int32_t v, size_t d) {
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
    const int64_t given = head_rows_given(work, u);
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

void head_rows_collect(struct head_bounds *work, int32_t v) {
    work->arc_count = 0;
    push_inputs(work, v);
    while (work->waiting_count && work->seen_count < work->ancestors) {
        const int32_t u = pop_latest(work);
        bool needed = work->branches > 0;
        for (size_t d = 0; d < work->k; d++)
            if (!isinf(work->input_bound[d]))
                needed |= head_rows_fill(work, work->rows + work->seen_count, u, v, d);
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
