/* A vertex v on device d starts at t: a vertex before it from which a tensor would reach d too late for that
 * must have run on d itself, and what must have run there has done so one after another. The least t at which
 * this works is a bound, and from it come the bounds of later vertices. */
#include "scheduling/bounds/head_bounds.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* What has more inputs is not looked behind: for all that reads it, they would be gone through again. */
enum { NOT_SEEN = -1, WAITING = -2 };

/* A tensor that takes a vertex's result on to `reader`. */
struct way {
    double size;
    int32_t reader;
    int32_t next; /* of the same vertex; -1: none */
};

/* What is known of a vertex u before v, for each device d of v. */
struct row {
    double *away;   /* v starts no earlier if u is on another device */
    double *behind; /* time from the start of u to that of v if u is on another device */
    double *beside; /* the same if u is on d */
    double *rest;   /* time from the end of u to the start of v if u is on d */
    double *onward; /* the same if u is on another device: for each d, from each device */
};

struct starts {
    const struct shard_system *system;
    const struct shard_groups *groups;
    int32_t window; /* rows at most */
    double *start;
    size_t k;
    double *slowness; /* of the links: to, from */
    double *outwards; /* of the best link from each device */
    double *pace;     /* of the devices: time an operation */
    int32_t *place;   /* of each vertex in the order */
    int32_t *slot;    /* of each vertex: its row, NOT_SEEN or WAITING */
    int32_t *first;   /* of each vertex that waits: its first way */
    struct way *ways;
    int32_t way_count;
    int32_t *waiting; /* vertices to look at */
    int32_t waiting_count;
    int32_t *seen; /* vertices with rows */
    int32_t seen_count;
    struct row *rows;
    double *base;  /* of each device */
    double *lag;   /* of each device: a row under way */
    int32_t *late; /* rows of what must be on v's device, as they count */
    int32_t *by_start;
};

/* Whether a vertex that is not on device `to` may be on device `from`. */
static bool apart(const struct starts *work, size_t from, size_t to) {
    return from != to || !isinf(work->system->bandwidth[from * work->k + to]);
}

/* When v starts on d at the earliest if its input u, from elsewhere, takes `lag` from each device. */
static double from_elsewhere(const struct starts *work, int32_t u, size_t d, const double *lag,
                             double *shortest) {
    const double *start = work->start + (size_t)u * work->k;
    const double complexity = work->system->complexity[u];
    double first = INFINITY;
    double least = INFINITY;
    for (size_t from = 0; from < work->k; from++) {
        if (isinf(start[from]) || !apart(work, from, d))
            continue;
        const double time = complexity * work->pace[from] + lag[from];
        least = lesser(least, time);
        first = lesser(first, start[from] + time);
    }
    *shortest = least;
    return first;
}

static void transfers(const struct starts *work, double size, size_t to, double *lag) {
    const double *slowness = work->slowness + to * work->k;
    for (size_t from = 0; from < work->k; from++)
        lag[from] = size > 0 ? size * slowness[from] : 0;
}

static bool together(const struct starts *work, int32_t u, int32_t v) {
    return work->groups->unit[u] == work->groups->unit[v];
}

/* When v starts on d at the earliest for each of its inputs alone. */
static double by_inputs(const struct starts *work, int32_t v, size_t d) {
    const struct shard_groups *groups = work->groups;
    double base = 0;
    for (int64_t e = groups->in_start[v]; e < groups->in_start[v + 1]; e++) {
        const int32_t u = groups->in_tail[e];
        double time = work->start[(size_t)u * work->k + d] + work->system->complexity[u] * work->pace[d];
        if (time > base && !together(work, u, v)) {
            double shortest;
            transfers(work, groups->in_size[e], d, work->lag);
            time = lesser(time, from_elsewhere(work, u, d, work->lag, &shortest));
        }
        base = greater(base, time);
    }
    return base;
}

/* Time from the end of u on another device to the start of v on d, by the tensor that a vertex x reads: x is
 * on d, or where u is, or elsewhere. Where u may be, the longest way counts. */
static void widen(const struct starts *work, int32_t u, const struct way *way, double *onward, size_t d) {
    const double *slowness = work->slowness + d * work->k;
    const struct row *row = work->rows + work->slot[way->reader];
    const double *start = work->start + (size_t)way->reader * work->k;
    const double complexity = work->system->complexity[way->reader];
    const bool same = together(work, u, way->reader);
    for (size_t from = 0; from < work->k; from++) {
        double time =
            isinf(start[from]) ? INFINITY : complexity * work->pace[from] + row->onward[d * work->k + from];
        if (!same) {
            time = lesser(time, (way->size > 0 ? way->size * slowness[from] : 0) + row->beside[d]);
            time = lesser(time, (way->size > 0 ? way->size * work->outwards[from] : 0) + row->behind[d]);
        }
        onward[from] = greater(onward[from], time);
    }
}

/* Fill a row for u and one device of v; whether u has to be there for v to start as early as its base. */
static bool fill(const struct starts *work, struct row *row, int32_t u, int32_t v, size_t d) {
    double *onward = row->onward + d * work->k;
    memset(onward, 0, work->k * sizeof *onward);
    double rest = 0;
    for (int32_t i = work->first[u]; i >= 0; i = work->ways[i].next) {
        const struct way *way = work->ways + i;
        if (way->reader == v) {
            transfers(work, way->size, d, work->lag);
            for (size_t from = 0; from < work->k; from++)
                onward[from] = greater(onward[from], work->lag[from]);
        } else {
            const struct row *reader = work->rows + work->slot[way->reader];
            rest = greater(rest, lesser(reader->beside[d], reader->behind[d]));
            widen(work, u, way, onward, d);
        }
    }
    for (size_t from = 0; together(work, u, v) && from < work->k; from++)
        onward[from] = INFINITY;
    row->away[d] = from_elsewhere(work, u, d, onward, row->behind + d);
    row->rest[d] = rest;
    const bool allowed = !isinf(work->start[(size_t)u * work->k + d]);
    row->beside[d] = allowed ? work->system->complexity[u] * work->pace[d] + rest : INFINITY;
    return row->away[d] > work->base[d];
}

static int64_t inputs_of(const struct shard_groups *groups, int32_t v) {
    return groups->in_start[v + 1] - groups->in_start[v];
}

static void await_inputs(struct starts *work, int32_t v) {
    const struct shard_groups *groups = work->groups;
    for (int64_t e = groups->in_start[v]; e < groups->in_start[v + 1]; e++) {
        const int32_t u = groups->in_tail[e];
        if (work->slot[u] == NOT_SEEN) {
            work->slot[u] = WAITING;
            work->first[u] = -1;
            work->waiting[work->waiting_count++] = u;
        }
        work->ways[work->way_count] = (struct way){groups->in_size[e], v, work->first[u]};
        work->first[u] = work->way_count++;
    }
}

static int32_t take_last(struct starts *work) {
    int32_t at = 0;
    for (int32_t i = 1; i < work->waiting_count; i++)
        if (work->place[work->waiting[i]] > work->place[work->waiting[at]])
            at = i;
    const int32_t u = work->waiting[at];
    work->waiting[at] = work->waiting[--work->waiting_count];
    return u;
}

/* Rows for vertices before v that may have to share its device, those next to it first. */
static void look_back(struct starts *work, int32_t v) {
    work->way_count = 0;
    await_inputs(work, v);
    while (work->waiting_count && work->seen_count < work->window) {
        const int32_t u = take_last(work);
        bool needed = false;
        for (size_t d = 0; d < work->k; d++)
            if (!isinf(work->base[d]))
                needed |= fill(work, work->rows + work->seen_count, u, v, d);
        work->slot[u] = needed ? work->seen_count : NOT_SEEN;
        if (needed) {
            work->seen[work->seen_count++] = u;
            if (inputs_of(work->groups, u) <= MOST_INPUTS)
                await_inputs(work, u);
        }
    }
    while (work->waiting_count)
        work->slot[work->waiting[--work->waiting_count]] = NOT_SEEN;
}

/* Rows that count for v on d, the latest tensors first. */
static int32_t sort_late(const struct starts *work, size_t d) {
    int32_t count = 0;
    for (int32_t i = 0; i < work->seen_count; i++) {
        const double away = work->rows[i].away[d];
        if (!(away > work->base[d]))
            continue;
        int32_t at = count++;
        for (; at && work->rows[work->late[at - 1]].away[d] < away; at--)
            work->late[at] = work->late[at - 1];
        work->late[at] = i;
    }
    return count;
}

/* When v starts on d at the earliest if the rows `by_start` run there, too; one more of them is added. */
static double in_turn(const struct starts *work, int32_t row, int32_t count, size_t d) {
    const double *start = work->start + d;
    const double begin = start[(size_t)work->seen[row] * work->k];
    int32_t at = count;
    for (; at && start[(size_t)work->seen[work->by_start[at - 1]] * work->k] < begin; at--)
        work->by_start[at] = work->by_start[at - 1];
    work->by_start[at] = row;
    double sum = 0;
    double rest = INFINITY;
    double last = 0;
    for (int32_t i = 0; i <= count; i++) {
        const int32_t u = work->seen[work->by_start[i]];
        sum += work->system->complexity[u] * work->pace[d];
        rest = lesser(rest, work->rows[work->by_start[i]].rest[d]);
        last = greater(last, start[(size_t)u * work->k] + sum + rest);
    }
    return last;
}

/* The least time at which everything that would come too late has run on d before. */
static double earliest_on(const struct starts *work, size_t d) {
    const int32_t count = sort_late(work, d);
    for (int32_t i = 0; i < count; i++) {
        const double here = in_turn(work, work->late[i], i, d);
        const double next = i + 1 < count ? work->rows[work->late[i + 1]].away[d] : work->base[d];
        if (here >= next)
            return lesser(here, work->rows[work->late[i]].away[d]);
    }
    return work->base[d];
}

static bool allowed(const struct shard_groups *groups, int32_t v, int32_t d) {
    const int32_t number = groups->choice[groups->unit[v]];
    if (number < 0)
        return true;
    for (int64_t i = groups->choice_start[number]; i < groups->choice_start[number + 1]; i++)
        if (groups->choice_device[i] == d)
            return true;
    return false;
}

void starts_vertex(struct starts *work, int32_t v) {
    double *start = work->start + (size_t)v * work->k;
    for (size_t d = 0; d < work->k; d++)
        work->base[d] =
            allowed(work->groups, v, (int32_t)d) ? greater(start[d], by_inputs(work, v, d)) : INFINITY;
    look_back(work, v);
    for (size_t d = 0; d < work->k; d++)
        start[d] = isinf(work->base[d]) ? INFINITY : earliest_on(work, d);
    while (work->seen_count)
        work->slot[work->seen[--work->seen_count]] = NOT_SEEN;
}

static void prepare_devices(struct starts *work) {
    const struct shard_system *system = work->system;
    for (size_t from = 0; from < work->k; from++) {
        work->pace[from] = 1 / system->speed[from];
        for (size_t to = 0; to < work->k; to++)
            work->slowness[to * work->k + from] = 1 / system->bandwidth[from * work->k + to];
        work->outwards[from] = INFINITY;
        for (size_t to = 0; to < work->k; to++)
            if (to != from)
                work->outwards[from] = lesser(work->outwards[from], work->slowness[to * work->k + from]);
    }
}

void starts_order(struct starts *work, const int32_t *order, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        work->place[order[i]] = i;
        work->slot[order[i]] = NOT_SEEN;
    }
}

struct starts *starts_new(struct arena *arena, const struct shard_system *system,
                          const struct shard_groups *groups, int32_t window, int64_t most_inputs,
                          double *start) {
    const int64_t n = system->nodes, k = system->devices, w = window;
    struct starts *work;
    double *rows;
    if (!ARENA_ZEROS(arena, work, 1))
        return NULL;
    work->system = system;
    work->groups = groups;
    work->window = window;
    work->start = start;
    work->k = (size_t)k;
    ARENA_ARRAY(arena, work->slowness, k * k);
    ARENA_ARRAY(arena, work->outwards, k);
    ARENA_ARRAY(arena, work->pace, k);
    ARENA_ARRAY(arena, work->base, k);
    ARENA_ARRAY(arena, work->lag, k);
    ARENA_ARRAY(arena, work->place, n);
    ARENA_ARRAY(arena, work->slot, n);
    ARENA_ARRAY(arena, work->first, n);
    ARENA_ARRAY(arena, work->waiting, n);
    ARENA_ARRAY(arena, work->seen, w);
    ARENA_ARRAY(arena, work->late, w);
    ARENA_ARRAY(arena, work->by_start, w);
    ARENA_ARRAY(arena, work->ways, most_inputs + w * MOST_INPUTS);
    ARENA_ARRAY(arena, work->rows, w);
    ARENA_ARRAY(arena, rows, w * (4 + k) * k);
    if (arena->failed)
        return NULL;
    for (int32_t i = 0; i < window; i++, rows += (4 + k) * k)
        work->rows[i] = (struct row){rows, rows + k, rows + 2 * k, rows + 3 * k, rows + 4 * k};
    prepare_devices(work);
    return work;
}
