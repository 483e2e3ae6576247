/* Moves are chosen by the longest path through their vertices (path_devices.h); only moves that are made propagate
 * changes. */
#include "scheduling/paths/path_moves.h"

#include "common/anneal.h"
#include "scheduling/paths/path_devices.h"

/* A move of this many vertices takes no further unit along. */
enum { MOST_MOVERS = 64 };

/* The share of moves that begin on a longest path; others begin up to SLACK mean vertex times below it. */
static const double CRITICAL_SHARE = 0.5;
static const double SLACK = 10;

/* The probability that a move takes along the next unit of the path as well. */
static const double ALONG_SHARE = 0.7;

/* The distance from a removed vertex up to which changes are propagated at once, in mean vertex times. Paths
 * beyond keep their old lengths, which are too long, not too short. */
static const double WINDOW = 0.5;

/* Vertices of a window: with fewer, propagation is quicker, but more units move only in windows of all vertices. */
enum { WINDOW_NODES = 300 };

/* The share of windows with all vertices. */
static const double WHOLE_SHARE = 0.1;

/* Moves tried in a window at most, per move after which ranks are outdated. */
enum { TRIED_EACH = 8 };

/* Greatest growth factor of the makespan, with which the least time stays above rounding errors. */
static const double MOST_GROWTH = 100;

/* ---------------------------------------------------------------- the vertices that move */

/* Add the unit of a vertex; false if not all of it is in the window. */
static bool add_unit(struct path_search *s, int32_t v) {
    const int32_t unit = s->units->unit[v];
    for (int64_t i = s->member_start[unit]; i < s->member_start[unit + 1]; i++)
        if (!in_window(&s->paths, s->member[i]))
            return false;
    for (int64_t i = s->member_start[unit]; i < s->member_start[unit + 1]; i++) {
        s->mover_of[s->member[i]] = s->mover_count;
        s->movers[s->mover_count++].vertex = s->member[i];
    }
    return true;
}

/* The next vertex on the longest path from v, or -1. */
static int32_t next_on_path(const struct path_search *s, int32_t v) {
    const struct direction *future = &s->paths.future;
    double longest = -INFINITY;
    int32_t next = -1;
    for (int64_t e = future->start[v]; e < future->start[v + 1]; e++) {
        const double path = future->path[future->end[e]] + future->lag[e];
        if (path <= longest)
            continue;
        longest = path;
        next = future->end[e];
    }
    return next;
}

/* Draw a vertex on a path that is nearly longest; any vertex of the window if 200 draws find none. */
static int32_t draw_critical(struct path_search *s) {
    const struct paths *paths = &s->paths;
    const double slack =
        random_share(&s->random) < CRITICAL_SHARE ? 0 : SLACK * s->mean_time * random_share(&s->random);
    const double path = paths->makespan * (1 - 1e-9) - slack; /* 1e-9: for rounding */
    int32_t v = 0;
    for (int tries = 0; tries < 200; tries++) {
        v = paths->past.at[paths->past.low + random_below(&s->random, paths->past.high - paths->past.low)];
        if (paths->past.path[v] + paths->future.path[v] - paths->time[v] >= path)
            break;
    }
    return v;
}

/* Choose units along a path, as long as they may use the same devices; sort their vertices by their ends. There
 * are none if the first one is not all in the window. */
static void choose_movers(struct path_search *s) {
    const double *past = s->paths.past.path;
    int32_t v = draw_critical(s);
    const int32_t choice = s->units->choice[s->units->unit[v]];
    s->mover_count = 0;
    if (!add_unit(s, v))
        return;
    while (s->mover_count < MOST_MOVERS && random_share(&s->random) < ALONG_SHARE) {
        v = next_on_path(s, v);
        if (v < 0 || s->units->choice[s->units->unit[v]] != choice)
            break;
        if (s->mover_of[v] < 0 && !add_unit(s, v))
            break;
    }
    for (int32_t i = 1; i < s->mover_count; i++) {
        const int32_t w = s->movers[i].vertex;
        int32_t at = i;
        for (; at > 0 && past[s->movers[at - 1].vertex] > past[w]; at--)
            s->movers[at].vertex = s->movers[at - 1].vertex;
        s->movers[at].vertex = w;
    }
    for (int32_t i = 0; i < s->mover_count; i++)
        s->mover_of[s->movers[i].vertex] = i;
}

/* ---------------------------------------------------------------- moves */

static void follow_nearby(struct path_search *s, const double limit[2]) {
    paths_follow(&s->paths, &s->paths.past, limit[0], INFINITY, INFINITY);
    paths_follow(&s->paths, &s->paths.future, limit[1], INFINITY, INFINITY);
}

/* Remove the movers and propagate the changes nearby: up to `limit`, out, in the past and the future. */
static void take_out(struct path_search *s, double limit[2]) {
    struct paths *paths = &s->paths;
    limit[0] = limit[1] = 0;
    for (int32_t i = 0; i < s->mover_count; i++) {
        struct mover *mover = s->movers + i;
        const int32_t v = mover->vertex;
        limit[0] = greater(limit[0], paths->past.path[v]);
        limit[1] = greater(limit[1], paths->future.path[v]);
        mover->device = paths->device[v];
        mover->index =
            path_devices_first_after(paths, paths->sequences + mover->device, paths->past.path[v]) - 1;
        mover->before = paths->past.next[v];
        mover->after = paths->future.next[v];
        paths_mark_around(paths, v);
        paths_remove(paths, v, mover->index);
    }
    limit[0] += WINDOW * s->mean_time;
    limit[1] += WINDOW * s->mean_time;
    follow_nearby(s, limit);
    path_devices_prepare(s, s->movers[0].device);
}

/* The longest path up to a vertex on device d, without the vertex, in one direction. */
static double longest_to(const struct paths *paths, const struct direction *direction, int32_t v, int32_t d) {
    double longest = 0;
    for (int64_t e = direction->start[v]; e < direction->start[v + 1]; e++)
        longest = greater(longest, direction->path[direction->end[e]] + lag_on(paths, direction, e, d));
    return longest;
}

/* Insert the movers on a device, one after another, each at its best place; false if nothing has changed. */
static bool put_in(struct path_search *s, int32_t d, const double limit[2]) {
    struct paths *paths = &s->paths;
    bool moved = false;
    for (int32_t i = 0; i < s->mover_count; i++) {
        struct mover *mover = s->movers + i;
        const int32_t v = mover->vertex;
        int32_t index = 0;
        mover->head = longest_to(paths, &paths->past, v, d);
        mover->tail = longest_to(paths, &paths->future, v, d);
        path_devices_best_place(s, d, mover, INFINITY, paths->past.path[v], &index);
        paths_insert(paths, v, d, index);
        if (i + 1 == s->mover_count)
            break;
        paths_mark_around(paths, v);
        follow_nearby(s, limit);
    }
    for (int32_t i = 0; i < s->mover_count; i++) {
        const struct mover *mover = s->movers + i;
        moved = moved || mover->device != d || mover->before != paths->past.next[mover->vertex] ||
                mover->after != paths->future.next[mover->vertex];
    }
    return moved;
}

/* Propagate all changes of the move from the paths before it; false if the makespan is above `most`. */
static bool settle(struct path_search *s, double most) {
    struct paths *paths = &s->paths;
    double settled = 0;
    paths_restore(paths);
    for (int32_t i = 0; i < s->mover_count; i++) {
        const struct mover *mover = s->movers + i;
        settled = greater(settled, paths->past.path[mover->vertex]);
        paths_mark(&paths->past, mover->after);
        paths_mark(&paths->future, mover->before);
        paths_mark_around(paths, mover->vertex);
    }
    const bool good = paths_follow(paths, &paths->past, INFINITY, settled, most);
    paths_follow(paths, &paths->future, good ? INFINITY : -1, INFINITY, INFINITY);
    const double makespan = good ? paths_longest(paths) : INFINITY;
    if (makespan <= most)
        paths->makespan = makespan;
    return makespan <= most;
}

/* Put the movers back where they were; those that have joined a device leave it first. */
static void put_back(struct path_search *s) {
    struct paths *paths = &s->paths;
    for (int32_t i = 0; i < s->mover_count; i++) {
        const int32_t v = s->movers[i].vertex, d = paths->device[v];
        int32_t index = d < 0 ? 0 : paths->sequences[d].before;
        while (d >= 0 && paths->sequences[d].vertex[index] != v)
            index++;
        if (d >= 0)
            paths_remove(paths, v, index);
    }
    for (int32_t i = s->mover_count - 1; i >= 0; i--)
        paths_insert(paths, s->movers[i].vertex, s->movers[i].device, s->movers[i].index);
    paths_restore(paths);
}

/* Try a move; true if it has changed the schedule. */
static bool try_move(struct path_search *s, double temperature) {
    double limit[2];
    double path = INFINITY;
    choose_movers(s);
    if (!s->mover_count)
        return false;
    path_devices_list(s);
    take_out(s, limit);
    const int32_t d = path_devices_draw(s, temperature, &path);
    double most = s->paths.makespan * (1 + 1e-12); /* paths may be summed in another order */
    if (temperature > 0)
        most = fmin(most + anneal_allowance(&s->random, temperature), s->longest);
    const bool joins = d >= 0 && path <= most && paths_make_room(&s->paths, d, s->mover_count);
    const bool moved = joins && put_in(s, d, limit);
    const bool changed = moved && settle(s, most);
    if (changed)
        paths_keep(&s->paths);
    else if (joins && !moved)
        paths_restore(&s->paths);
    else
        put_back(s);
    for (int32_t i = 0; i < s->mover_count; i++)
        s->mover_of[s->movers[i].vertex] = -1;
    return changed;
}

/* ---------------------------------------------------------------- the search */

static void write_order(const struct path_search *s, int32_t *order) {
    for (int32_t d = 0; d < s->system->devices; d++) {
        const struct sequence *sequence = s->paths.sequences + d;
        memcpy(order, sequence->vertex, (size_t)sequence->count * sizeof *order);
        order += sequence->count;
    }
}

static void keep_best(struct path_search *s) {
    if (!(s->paths.makespan < s->best))
        return;
    s->best = s->paths.makespan;
    memcpy(s->best_device, s->paths.device, (size_t)s->system->nodes * sizeof *s->best_device);
    write_order(s, s->best_order);
}

/* Open a window of `count` vertices of the part at a random place, or one of all if there are no more. */
static void open_window(struct path_search *s, int32_t count) {
    const int32_t n = s->paths.own_count;
    if (count > n)
        count = n;
    int32_t first = n > count ? random_below(&s->random, n) - count / 2 : 0;
    first = first < 0 ? 0 : first > n - count ? n - count : first;
    paths_open(&s->paths, s->paths.own_first + first, count);
}

/* Open the next window: at times one of the whole part, in which units with distant members can move. */
static void open_next(struct path_search *s) {
    open_window(s, random_share(&s->random) < WHOLE_SHARE ? s->paths.own_count : WINDOW_NODES);
}

static void run(struct path_search *s, int64_t moves, double temperature, double last, int32_t window) {
    const int32_t often =
        200 + s->system->nodes / 16; /* moves made in a window, after which ranks are outdated */
    const double fall = temperature > 0 ? pow(last / temperature, 1 / (double)moves) : 1;
    int64_t made = 0, tried = 0;
    keep_best(s);
    if (window)
        open_window(s, window);
    else
        open_next(s);
    for (int64_t i = 0; i < moves && s->paths.makespan > 0 && !s->arena.failed; i++, temperature *= fall) {
        if (try_move(s, temperature)) {
            keep_best(s);
            made++;
        }
        if (window || (++tried < TRIED_EACH * often && made < often))
            continue;
        made = tried = 0;
        open_next(s);
    }
}

static int allocate(struct path_search *s, const int32_t *device, const int32_t *part, int32_t own) {
    struct arena *arena = &s->arena;
    const int64_t n = s->system->nodes;
    ARENA_ZEROS(arena, n + 2, s->member_start);
    ARENA_ARRAYS(arena, n, s->member, s->movers, s->mover_of, s->best_device, s->best_order);
    ARENA_ARRAYS(arena, MOST_DEVICES, s->devices);
    ARENA_ARRAYS(arena, QUANTILES, s->gumbel);
    ARENA_ZEROS(arena, s->system->devices, s->listed_in);
    paths_allocate(&s->paths, arena, s->system, s->units, device, part, own);
    return arena_status(arena);
}

/* Begin with a schedule; false if it has a cycle. */
static bool begin(struct path_search *s, const int32_t *device, const int32_t *order) {
    const int32_t n = s->system->nodes;
    double work = 0;
    for (int32_t v = 0; v < n; v++) {
        work += s->system->complexity[v] / s->system->speed[device[v]];
        s->mover_of[v] = -1;
    }
    s->mean_time = work / n;
    for (int32_t i = 0; i < QUANTILES; i++)
        s->gumbel[i] = -log(-log((i + 0.5) / QUANTILES));
    list_members(n, s->units->unit, s->member_start, s->member);
    if (!paths_begin(&s->paths, device, order))
        return false;
    s->longest = MOST_GROWTH * s->paths.makespan;
    return true;
}

int shard_path_moves(const struct shard_system *system, const struct shard_units *units, int64_t moves,
                     double temperature, double last, int32_t window, const int32_t *part, int32_t own,
                     uint64_t *random, int32_t *device, int32_t *order, int32_t *best_device,
                     int32_t *best_order, double *best_makespan) {
    const size_t n = (size_t)system->nodes;
    struct path_search s = {.system = system, .units = units, .random = {*random}, .best = *best_makespan};
    int status = allocate(&s, device, part, own);
    if (status == SHARD_OK && n > 0 && !begin(&s, device, order))
        status = SHARD_CYCLE;
    if (status == SHARD_OK && n > 0) {
        run(&s, moves, temperature, last, window);
        status = arena_status(&s.arena);
    }
    if (status == SHARD_OK && n > 0) {
        memcpy(device, s.paths.device, n * sizeof *device);
        write_order(&s, order);
        *random = s.random.state;
        if (s.best < *best_makespan) {
            memcpy(best_device, s.best_device, n * sizeof *best_device);
            memcpy(best_order, s.best_order, n * sizeof *best_order);
            *best_makespan = s.best;
        }
    }
    arena_free(&s.arena);
    return status;
}
