/* Paths are updated in the order of ranks: a change marks the vertices that it reaches for a visit. */
#include "scheduling/paths/longest_paths.h"

/* Most changes per vertex, on average, in one call of paths_follow. */
enum { MOST_CHANGES = 16 };

/* The least time of a vertex, as a share of the first makespan: far above rounding errors, so paths grow. */
static const double LEAST_TIME = 1e-13;

static void allocate_direction(struct arena *arena, struct direction *direction, int64_t n, int64_t m,
                               int64_t k) {
    direction->words = (int32_t)(n / 64 + 1);
    direction->first = direction->words;
    ARENA_ZEROS(arena, n, direction->path, direction->changed_in);
    ARENA_ARRAYS(arena, n, direction->next, direction->rank, direction->at, direction->changed,
                 direction->old_path);
    ARENA_ARRAYS(arena, m, direction->lag, direction->twin);
    ARENA_ARRAYS(arena, k * k, direction->rate);
    ARENA_ZEROS(arena, direction->words, direction->marked);
}

void paths_allocate(struct paths *paths, struct arena *arena, const struct shard_system *system,
                    const struct shard_units *units, const int32_t *device, const int32_t *part,
                    int32_t own) {
    const int64_t n = system->nodes, m = system->out_start[n], k = system->devices;
    *paths = (struct paths){
        .arena = arena,
        .system = system,
        .part = part,
        .own = own,
        .past = {.start = units->in_start, .end = units->in_tail, .size = units->in_size},
        .future = {.start = system->out_start, .end = system->out_head, .size = system->size},
        .round = 1,
    };
    allocate_direction(arena, &paths->past, n, m, k);
    allocate_direction(arena, &paths->future, n, m, k);
    ARENA_ARRAYS(arena, n, paths->device, paths->time, paths->ends);
    ARENA_ARRAYS(arena, k, paths->inverse_speed);
    ARENA_ZEROS(arena, k, paths->sequences);
    for (int64_t v = 0; !arena->failed && v < n; v++)
        paths->sequences[device[v]].room++;
    for (int64_t d = 0; !arena->failed && d < k; d++)
        ARENA_ARRAYS(arena, paths->sequences[d].room, paths->sequences[d].vertex);
}

static void set_lags(const struct paths *paths, struct direction *direction, struct direction *other,
                     int32_t v) {
    const int32_t d = paths->device[v];
    for (int64_t e = direction->start[v]; e < direction->start[v + 1]; e++)
        other->lag[direction->twin[e]] = direction->lag[e] = d < 0 ? 0 : lag_on(paths, direction, e, d);
}

static void set_all_lags(struct paths *paths, int32_t v) {
    set_lags(paths, &paths->past, &paths->future, v);
    set_lags(paths, &paths->future, &paths->past, v);
}

static double path_of(const struct paths *paths, const struct direction *direction, int32_t v) {
    double longest = direction->next[v] >= 0 ? direction->path[direction->next[v]] : 0;
    for (int64_t e = direction->start[v]; e < direction->start[v + 1]; e++) {
        const double path = direction->path[direction->end[e]] + direction->lag[e];
        if (path > longest)
            longest = path;
    }
    return longest + paths->time[v];
}

void paths_mark(struct direction *direction, int32_t v) {
    if (v < 0 || direction->rank[v] < direction->low || direction->rank[v] >= direction->high)
        return;
    const int32_t word = direction->rank[v] >> 6;
    const uint64_t bit = UINT64_C(1) << (direction->rank[v] & 63);
    if (direction->marked[word] & bit)
        return;
    direction->marked[word] |= bit;
    direction->count++;
    if (word < direction->first)
        direction->first = word;
}

static int32_t take_marked(struct direction *direction) {
    while (!direction->marked[direction->first])
        direction->first++;
    uint64_t *word = direction->marked + direction->first;
    const int32_t bit = __builtin_ctzll(*word);
    *word &= *word - 1;
    direction->count--;
    return direction->at[64 * direction->first + bit];
}

void paths_mark_beyond(struct paths *paths, struct direction *direction, int32_t v) {
    const struct direction *other = direction == &paths->past ? &paths->future : &paths->past;
    paths_mark(direction, other->next[v]);
    for (int64_t e = other->start[v]; e < other->start[v + 1]; e++)
        paths_mark(direction, other->end[e]);
}

void paths_mark_around(struct paths *paths, int32_t v) {
    paths_mark(&paths->past, v);
    paths_mark(&paths->future, v);
    paths_mark_beyond(paths, &paths->past, v);
    paths_mark_beyond(paths, &paths->future, v);
}

static void set_path(const struct paths *paths, struct direction *direction, int32_t v, double path) {
    if (direction->changed_in[v] != paths->round) {
        direction->changed_in[v] = paths->round;
        direction->changed[direction->changes] = v;
        direction->old_path[direction->changes++] = direction->path[v];
    }
    direction->path[v] = path;
}

bool paths_follow(struct paths *paths, struct direction *direction, double limit, double settled,
                  double most) {
    const struct direction *other = direction == &paths->past ? &paths->future : &paths->past;
    int64_t left = MOST_CHANGES * (int64_t)paths->system->nodes;
    bool good = true;
    while (direction->count > 0) {
        const int32_t v = take_marked(direction);
        const double old = direction->path[v];
        if (!good || old > limit)
            continue;
        const double path = path_of(paths, direction, v);
        if (path >= old && path <= old)
            continue;
        good = left-- > 0 && (old < settled || path + other->path[v] - paths->time[v] <= most);
        set_path(paths, direction, v, path);
        paths_mark_beyond(paths, direction, v);
    }
    direction->first = direction->words;
    return good;
}

static void restore(struct direction *direction) {
    for (int32_t i = 0; i < direction->changes; i++)
        direction->path[direction->changed[i]] = direction->old_path[i];
    direction->changes = 0;
}

void paths_restore(struct paths *paths) {
    restore(&paths->past);
    restore(&paths->future);
    paths->round++;
}

void paths_keep(struct paths *paths) {
    paths->past.changes = paths->future.changes = 0;
    paths->round++;
}

void paths_insert(struct paths *paths, int32_t v, int32_t d, int32_t index) {
    struct sequence *sequence = paths->sequences + d;
    memmove(sequence->vertex + index + 1, sequence->vertex + index,
            (size_t)(sequence->count - index) * sizeof *sequence->vertex);
    sequence->vertex[index] = v;
    sequence->count++;
    const int32_t before = index > 0 ? sequence->vertex[index - 1] : -1;
    const int32_t after = index + 1 < sequence->count ? sequence->vertex[index + 1] : -1;
    paths->past.next[v] = before;
    paths->future.next[v] = after;
    if (before >= 0)
        paths->future.next[before] = v;
    if (after >= 0)
        paths->past.next[after] = v;
    paths->device[v] = d;
    paths->time[v] = time_on(paths, v, d);
    set_all_lags(paths, v);
}

void paths_remove(struct paths *paths, int32_t v, int32_t index) {
    struct sequence *sequence = paths->sequences + paths->device[v];
    sequence->count--;
    memmove(sequence->vertex + index, sequence->vertex + index + 1,
            (size_t)(sequence->count - index) * sizeof *sequence->vertex);
    const int32_t before = paths->past.next[v], after = paths->future.next[v];
    if (before >= 0)
        paths->future.next[before] = after;
    if (after >= 0)
        paths->past.next[after] = before;
    paths->past.next[v] = paths->future.next[v] = -1;
    paths->device[v] = -1;
    paths->time[v] = paths->least_time;
    set_all_lags(paths, v);
}

bool paths_make_room(struct paths *paths, int32_t d, int32_t more) {
    struct sequence *sequence = paths->sequences + d;
    if (sequence->count + more <= sequence->room)
        return true;
    const int32_t room = 2 * (sequence->count + more);
    int32_t *vertex =
        arena_grow(paths->arena, sequence->vertex, (size_t)sequence->count, (size_t)room, sizeof *vertex);
    if (!vertex)
        return false;
    sequence->vertex = vertex;
    sequence->room = room;
    return true;
}

static int by_time(const void *a, const void *b) {
    const struct vertex_end *first = a, *second = b;
    if (first->part != second->part)
        return first->part < second->part ? -1 : 1;
    return (first->time > second->time) - (first->time < second->time);
}

static void rank_by_end(struct paths *paths) {
    const int32_t n = paths->system->nodes;
    for (int32_t v = 0; v < n; v++)
        paths->ends[v] = (struct vertex_end){paths->past.path[v], v, paths->part[v]};
    qsort(paths->ends, (size_t)n, sizeof *paths->ends, by_time);
    for (int32_t i = 0; i < n; i++) {
        const int32_t v = paths->ends[i].vertex;
        paths->past.at[i] = paths->future.at[n - 1 - i] = v;
        paths->past.rank[v] = i;
        paths->future.rank[v] = n - 1 - i;
    }
}

/* Number each edge in the other direction. next, scratch, nodes elements: the next input of each vertex. */
static void pair_edges(struct paths *paths, int32_t *next) {
    const int64_t *in_start = paths->past.start;
    const struct shard_system *system = paths->system;
    memset(next, 0, (size_t)system->nodes * sizeof *next);
    for (int64_t e = 0; e < system->out_start[system->nodes]; e++) {
        const int32_t head = system->out_head[e];
        const int64_t input = in_start[head] + next[head]++;
        paths->future.twin[e] = input;
        paths->past.twin[input] = e;
    }
}

static void set_rates(struct paths *paths) {
    const size_t k = (size_t)paths->system->devices;
    for (size_t d = 0; d < k; d++)
        paths->inverse_speed[d] = 1 / paths->system->speed[d];
    for (size_t from = 0; from < k; from++)
        for (size_t to = 0; to < k; to++)
            paths->future.rate[from * k + to] = paths->past.rate[to * k + from] =
                1 / paths->system->bandwidth[from * k + to];
}

static void fill_sequences(struct paths *paths, const int32_t *order) {
    for (int32_t i = 0; i < paths->system->nodes; i++) {
        const int32_t v = order[i];
        struct sequence *sequence = paths->sequences + paths->device[v];
        paths->past.next[v] = sequence->count > 0 ? sequence->vertex[sequence->count - 1] : -1;
        paths->future.next[v] = -1;
        if (sequence->count > 0)
            paths->future.next[paths->past.next[v]] = v;
        sequence->vertex[sequence->count++] = v;
    }
}

static void set_times(struct paths *paths) {
    for (int32_t v = 0; v < paths->system->nodes; v++)
        paths->time[v] = time_on(paths, v, paths->device[v]);
}

/* The longest path up to the end of the last vertex of any device. */
static double longest_past(const struct paths *paths) {
    double longest = 0;
    for (int32_t d = 0; d < paths->system->devices; d++) {
        const struct sequence *sequence = paths->sequences + d;
        if (sequence->count > 0)
            longest = greater(longest, paths->past.path[sequence->vertex[sequence->count - 1]]);
    }
    return longest;
}

/* Compute all paths in a topological order; false if there is none. */
static bool compute_all(struct paths *paths) {
    const int32_t n = paths->system->nodes;
    const struct direction *future = &paths->future;
    int32_t *pending = paths->past.rank; /* scratch, as there are no ranks yet */
    int32_t *queue = paths->past.at;
    int32_t count = 0;
    for (int32_t v = 0; v < n; v++) {
        pending[v] = (int32_t)(paths->past.start[v + 1] - paths->past.start[v]) + (paths->past.next[v] >= 0);
        if (pending[v] == 0)
            queue[count++] = v;
    }
    for (int32_t i = 0; i < count; i++) {
        const int32_t v = queue[i];
        paths->past.path[v] = path_of(paths, &paths->past, v);
        for (int64_t e = future->start[v]; e < future->start[v + 1]; e++)
            if (--pending[future->end[e]] == 0)
                queue[count++] = future->end[e];
        if (future->next[v] >= 0 && --pending[future->next[v]] == 0)
            queue[count++] = future->next[v];
    }
    for (int32_t i = count - 1; i >= 0; i--)
        paths->future.path[queue[i]] = path_of(paths, future, queue[i]);
    paths->makespan = longest_past(paths);
    return count == n;
}

bool paths_begin(struct paths *paths, const int32_t *device, const int32_t *order) {
    memcpy(paths->device, device, (size_t)paths->system->nodes * sizeof *device);
    pair_edges(paths, paths->past.rank);
    set_rates(paths);
    fill_sequences(paths, order);
    set_times(paths);
    for (int32_t v = 0; v < paths->system->nodes; v++)
        set_all_lags(paths, v);
    if (!compute_all(paths))
        return false;
    paths->least_time = LEAST_TIME * paths->makespan;
    set_times(paths);
    if (!compute_all(paths))
        return false;
    paths->own_first = paths->own_count = 0;
    for (int32_t v = 0; v < paths->system->nodes; v++) {
        paths->own_first += paths->part[v] < paths->own;
        paths->own_count += paths->part[v] == paths->own;
    }
    paths_open(paths, paths->own_first, paths->own_count);
    return true;
}

/* Count the vertices of a sequence that are before the window and behind it. */
static void bound_window(const struct paths *paths, struct sequence *sequence) {
    const int32_t *rank = paths->past.rank;
    int32_t before = 0, behind = 0;
    while (before < sequence->count && rank[sequence->vertex[before]] < paths->past.low)
        before++;
    while (behind < sequence->count - before &&
           rank[sequence->vertex[sequence->count - 1 - behind]] >= paths->past.high)
        behind++;
    sequence->before = before;
    sequence->behind = behind;
}

/* The longest path that avoids the window: it ends before the window, begins behind it, or jumps over it. */
static double longest_around(const struct paths *paths) {
    const struct direction *past = &paths->past, *future = &paths->future;
    double longest = 0;
    for (int32_t d = 0; d < paths->system->devices; d++) {
        const struct sequence *sequence = paths->sequences + d;
        const int32_t *vertex = sequence->vertex;
        const double to = sequence->before ? past->path[vertex[sequence->before - 1]] : 0;
        const double from = sequence->behind ? future->path[vertex[sequence->count - sequence->behind]] : 0;
        longest = greater(longest, to + from);
    }
    for (int32_t i = 0; i < past->low; i++)
        for (int64_t e = future->start[past->at[i]]; e < future->start[past->at[i] + 1]; e++)
            if (past->rank[future->end[e]] >= past->high)
                longest =
                    greater(longest, past->path[past->at[i]] + future->lag[e] + future->path[future->end[e]]);
    return longest;
}

void paths_open(struct paths *paths, int32_t first, int32_t count) {
    const int32_t n = paths->system->nodes;
    compute_all(paths);
    rank_by_end(paths);
    paths->past.low = first;
    paths->past.high = first + count;
    paths->future.low = n - first - count;
    paths->future.high = n - first;
    for (int32_t d = 0; d < paths->system->devices; d++)
        bound_window(paths, paths->sequences + d);
    paths->around = longest_around(paths);
}

double paths_longest(const struct paths *paths) {
    const struct direction *past = &paths->past;
    if (past->high - past->low == paths->system->nodes)
        return longest_past(paths);
    double longest = paths->around;
    for (int32_t i = past->low; i < past->high; i++) {
        const int32_t v = past->at[i];
        longest = greater(longest, past->path[v] + paths->future.path[v] - paths->time[v]);
    }
    return longest;
}
