/* In a schedule with independent links the makespan is the longest path over tensors and over what each
 * device runs one after another. Of each vertex the longest path up to it and the longest path from it on are
 * kept. With a vertex taken out, the longest path through it at any other place is known from its neighbours
 * there (Mastrolilli and Gambardella, Journal of Scheduling 2000); only a move that is made follows what it
 * changes. */
#include "scheduling/path_moves.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/anneal.h"
#include "common/arena.h"

enum {
    MOST_TOGETHER = 64, /* vertices beyond which a move takes no further group along */
    MOST_DEVICES = 64,  /* devices that a move compares */
    MOST_LOOKS = 16     /* changes of a vertex, in the mean, that a move follows */
};

/* How often a move takes a vertex of a longest path, else one on a path shorter by up to SLACK times what a
 * vertex takes in the mean; and how often it takes the next group along. */
static const double CRITICAL = 0.5;
static const double SLACK = 10;
static const double ALONG = 0.7;

/* For how long from a vertex that is taken out on it is followed what changes by that, in the same unit:
 * paths beyond count as they were, which is too long, not too short. */
static const double WINDOW = 0.5;

/* The least time that a vertex takes here, as a share of the makespan to begin with: far more than roundings,
 * so that what waits for a vertex ends later. */
static const double LEAST = 1e-13;

/* What the makespan grows by at most: then that least time is still more than roundings. */
static const double GROWTH = 100;

/* What is on one side of the vertices in time: the past, or, all turned round, the future. */
struct side {
    double *reach; /* of each vertex: the longest path up to its end, in the future from its start on */
    int32_t *next; /* of each vertex: its neighbour on this side on its device, or -1 */
    const int64_t *start; /* edges of v on this side: start[v] .. start[v + 1] - 1 */
    const int32_t *end;   /* of each edge: the other vertex */
    const double *size;
    double *lag;      /* of each edge: the time it takes */
    int64_t *twin;    /* of each edge: its number on the other side */
    double *pace;     /* device * devices + other: time that a size of 1 takes between them */
    int32_t *place;   /* of each vertex in an order of all that is about right */
    int32_t *at;      /* the vertex at each place */
    uint64_t *marked; /* places whose vertices have to be looked at, as bits */
    int32_t words;
    int32_t first; /* no word before is marked */
    int32_t count;
    /* what has been changed by a move */
    int32_t *changed;
    double *was;
    int32_t changes;
    int64_t *seen; /* of each vertex: the last round in which it has been changed */
};

struct list {
    int32_t *vertex;
    int32_t count;
    int32_t room;
};

/* A vertex by the end of its path. */
struct key {
    double time;
    int32_t vertex;
};

/* A vertex on the move. */
struct mover {
    int32_t vertex;
    int32_t device; /* where it was */
    int32_t index;
    int32_t before;
    int32_t after;
    double ready;  /* on the device that is looked at: the longest path up to its start */
    double rest;   /* and from its end on */
    double ahead;  /* of a path from its end on: operations of other movers */
    double beyond; /* and the time after these */
};

struct search {
    struct arena arena;
    const struct shard_system *system;
    const struct shard_units *units;
    struct random random;
    int32_t *device; /* -1: taken out */
    double *time;
    double least;
    double longest; /* that a makespan may be */
    double unit;    /* what a vertex takes in the mean, to begin with */
    struct side past;
    struct side future;
    struct list *lists; /* what each device runs */
    int64_t round;
    int64_t *member_start;
    int32_t *member;
    struct mover *movers;
    int32_t mover_count;
    int32_t *mover_of; /* of each vertex, or -1 */
    int32_t *devices;  /* that a move compares */
    int32_t device_count;
    int64_t *listed; /* of each device: the last round in which a move has compared it */
    double makespan;
    int32_t *best_device;
    int32_t *best_order;
    double best;
    struct key *keys; /* nodes elements: scratch of renumber */
};

static double duration(const struct search *s, int32_t v, int32_t d) {
    const double time = s->system->complexity[v] / s->system->speed[d];
    return time > s->least ? time : s->least;
}

/* What the other end of an edge adds to the path if its vertex is on d; what is taken out is on no device. */
static double lag_on(const struct search *s, const struct side *side, int64_t e, int32_t d) {
    const int32_t other = s->device[side->end[e]];
    if (other < 0 || other == d || side->size[e] <= 0)
        return 0;
    const size_t k = (size_t)s->system->devices;
    const size_t link = side == &s->past ? (size_t)other * k + (size_t)d : (size_t)d * k + (size_t)other;
    return side->size[e] / s->system->bandwidth[link];
}

static void set_lags(const struct search *s, struct side *side, struct side *other, int32_t v) {
    for (int64_t e = side->start[v]; e < side->start[v + 1]; e++)
        other->lag[side->twin[e]] = side->lag[e] = s->device[v] < 0 ? 0 : lag_on(s, side, e, s->device[v]);
}

static double reach_of(const struct search *s, const struct side *side, int32_t v) {
    double longest = side->next[v] >= 0 ? side->reach[side->next[v]] : 0;
    for (int64_t e = side->start[v]; e < side->start[v + 1]; e++) {
        const double path = side->reach[side->end[e]] + side->lag[e];
        if (path > longest)
            longest = path;
    }
    return longest + s->time[v];
}

static void mark(struct side *side, int32_t v) {
    if (v < 0)
        return;
    const int32_t word = side->place[v] >> 6;
    const uint64_t bit = UINT64_C(1) << (side->place[v] & 63);
    if (side->marked[word] & bit)
        return;
    side->marked[word] |= bit;
    side->count++;
    if (word < side->first)
        side->first = word;
}

static int32_t take_marked(struct side *side) {
    while (!side->marked[side->first])
        side->first++;
    uint64_t *word = side->marked + side->first;
    const int32_t bit = __builtin_ctzll(*word);
    *word &= *word - 1;
    side->count--;
    return side->at[64 * side->first + bit];
}

/* Mark what is reached through a vertex, on the other side of it. */
static void mark_behind(struct side *side, const struct side *other, int32_t v) {
    mark(side, other->next[v]);
    for (int64_t e = other->start[v]; e < other->start[v + 1]; e++)
        mark(side, other->end[e]);
}

static void change(const struct search *s, struct side *side, int32_t v, double reach) {
    if (side->seen[v] != s->round) {
        side->seen[v] = s->round;
        side->changed[side->changes] = v;
        side->was[side->changes++] = side->reach[v];
    }
    side->reach[v] = reach;
}

static void take_back(struct side *side) {
    for (int32_t i = 0; i < side->changes; i++)
        side->reach[side->changed[i]] = side->was[i];
    side->changes = 0;
}

/* Follow what has been marked, but for what lies beyond a limit. As soon as a path is found that is longer
 * than `most`, at a vertex beyond `settled`, behind which nothing has changed for the shorter, give up and
 * return false. So, too, after far more steps than are ever needed: movers that are put in one after another
 * while not all paths are known may wait for each other. */
static bool follow(struct search *s, struct side *side, double limit, double settled, double most) {
    const struct side *other = side == &s->past ? &s->future : &s->past;
    int64_t left = MOST_LOOKS * (int64_t)s->system->nodes;
    bool good = true;
    while (side->count > 0) {
        const int32_t v = take_marked(side);
        const double old = side->reach[v];
        if (!good || old > limit)
            continue;
        const double reach = reach_of(s, side, v);
        if (reach >= old && reach <= old)
            continue;
        good = left-- > 0 && (old < settled || reach + other->reach[v] - s->time[v] <= most);
        change(s, side, v, reach);
        mark_behind(side, other, v);
    }
    side->first = side->words;
    return good;
}

/* The first on a device that ends after a time. */
static int32_t first_after(const struct search *s, const struct list *list, double time) {
    int32_t low = 0;
    int32_t high = list->count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (s->past.reach[list->vertex[middle]] > time)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The first on a device that may start as late as the end of all less `rest`. */
static int32_t first_late(const struct search *s, const struct list *list, double rest) {
    int32_t low = 0;
    int32_t high = list->count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (s->future.reach[list->vertex[middle]] <= rest)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The shortest longest path through a vertex that is put on a device, and its place there; `limit` or more if
 * that is not below `limit`. What ends after `ready` is not before the vertex in the graph, and what has more
 * than `rest` to its end is not behind it: between the first of the former and the last of the latter every
 * place is possible and one of them best. If there is nothing of both kinds, any place between that the graph
 * allows is as good: the one at `end`, the end of the vertex at no place. */
static double best_place(const struct search *s, int32_t d, const struct mover *mover, double limit,
                         double end, int32_t *index) {
    const struct list *list = s->lists + d;
    const double time = duration(s, mover->vertex, d);
    const double least = mover->ready + time + mover->rest;
    if (least >= limit)
        return least;
    const int32_t first = first_after(s, list, mover->ready);
    const int32_t last = first_late(s, list, mover->rest);
    if (last <= first) {
        const int32_t at = first_after(s, list, end);
        *index = at < last ? last : at > first ? first : at;
        return least;
    }
    double best = INFINITY;
    for (int32_t i = first; i <= last; i++) {
        const double start = i > first ? s->past.reach[list->vertex[i - 1]] : mover->ready;
        if (start + time + mover->rest >= best)
            break;
        const double rest = i < last ? s->future.reach[list->vertex[i]] : mover->rest;
        if (start + time + rest >= best)
            continue;
        best = start + time + rest;
        *index = i;
    }
    return best;
}

static void link_in(struct search *s, int32_t v, int32_t d, int32_t index) {
    struct list *list = s->lists + d;
    memmove(list->vertex + index + 1, list->vertex + index,
            (size_t)(list->count - index) * sizeof *list->vertex);
    list->vertex[index] = v;
    list->count++;
    const int32_t before = index > 0 ? list->vertex[index - 1] : -1;
    const int32_t after = index + 1 < list->count ? list->vertex[index + 1] : -1;
    s->past.next[v] = before;
    s->future.next[v] = after;
    if (before >= 0)
        s->future.next[before] = v;
    if (after >= 0)
        s->past.next[after] = v;
    s->device[v] = d;
    s->time[v] = duration(s, v, d);
    set_lags(s, &s->past, &s->future, v);
    set_lags(s, &s->future, &s->past, v);
}

/* Out of its device, a vertex takes next to no time, and its tensors none: it still waits for them. */
static void link_out(struct search *s, int32_t v, int32_t index) {
    struct list *list = s->lists + s->device[v];
    list->count--;
    memmove(list->vertex + index, list->vertex + index + 1,
            (size_t)(list->count - index) * sizeof *list->vertex);
    const int32_t before = s->past.next[v];
    const int32_t after = s->future.next[v];
    if (before >= 0)
        s->future.next[before] = after;
    if (after >= 0)
        s->past.next[after] = before;
    s->past.next[v] = s->future.next[v] = -1;
    s->device[v] = -1;
    s->time[v] = s->least;
    set_lags(s, &s->past, &s->future, v);
    set_lags(s, &s->future, &s->past, v);
}

static double longest_path(const struct search *s) {
    double longest = 0;
    for (int32_t d = 0; d < s->system->devices; d++) {
        const struct list *list = s->lists + d;
        if (list->count > 0)
            longest = fmax(longest, s->past.reach[list->vertex[list->count - 1]]);
    }
    return longest;
}

static void add_group(struct search *s, int32_t v) {
    const int32_t unit = s->units->unit[v];
    for (int64_t i = s->member_start[unit]; i < s->member_start[unit + 1]; i++) {
        s->mover_of[s->member[i]] = s->mover_count;
        s->movers[s->mover_count++].vertex = s->member[i];
    }
}

/* The vertex to which the longest path leads on, or -1. */
static int32_t next_on_path(const struct search *s, int32_t v) {
    double longest = -INFINITY;
    int32_t next = -1;
    for (int64_t e = s->future.start[v]; e < s->future.start[v + 1]; e++) {
        const double path = s->future.reach[s->future.end[e]] + s->future.lag[e];
        if (path <= longest)
            continue;
        longest = path;
        next = s->future.end[e];
    }
    return next;
}

/* A vertex on a path that is nearly longest, as far as some tries find one. */
static int32_t pick(struct search *s) {
    const double slack = random_share(&s->random) < CRITICAL ? 0 : SLACK * s->unit * random_share(&s->random);
    const double path = s->makespan * (1 - 1e-9) - slack; /* 1e-9: of rounding */
    int32_t v = 0;
    for (int tries = 0; tries < 200; tries++) {
        v = random_below(&s->random, s->system->nodes);
        if (s->past.reach[v] + s->future.reach[v] - s->time[v] >= path)
            break;
    }
    return v;
}

/* What moves: groups along a path, as long as they may use the same devices; vertices by their ends. */
static void choose_movers(struct search *s) {
    int32_t v = pick(s);
    const int32_t choice = s->units->choice[s->units->unit[v]];
    s->mover_count = 0;
    add_group(s, v);
    while (s->mover_count < MOST_TOGETHER && random_share(&s->random) < ALONG) {
        v = next_on_path(s, v);
        if (v < 0 || s->units->choice[s->units->unit[v]] != choice)
            break;
        if (s->mover_of[v] < 0)
            add_group(s, v);
    }
    for (int32_t i = 1; i < s->mover_count; i++) {
        const int32_t w = s->movers[i].vertex;
        int32_t at = i;
        for (; at > 0 && s->past.reach[s->movers[at - 1].vertex] > s->past.reach[w]; at--)
            s->movers[at].vertex = s->movers[at - 1].vertex;
        s->movers[at].vertex = w;
    }
    for (int32_t i = 0; i < s->mover_count; i++)
        s->mover_of[s->movers[i].vertex] = i;
}

static void add_device(struct search *s, int32_t d) {
    if (s->listed[d] == s->round || s->device_count == MOST_DEVICES)
        return;
    s->listed[d] = s->round;
    s->devices[s->device_count++] = d;
}

static void add_devices_of(struct search *s, const struct side *side, int32_t v) {
    for (int64_t e = side->start[v]; e < side->start[v + 1]; e++)
        add_device(s, s->device[side->end[e]]);
}

/* Devices to compare: all that the groups may use, or some of them; the most likely ones first, as others
 * need only be looked at until they prove worse. */
static void choose_devices(struct search *s) {
    const struct shard_units *units = s->units;
    const int32_t v = s->movers[0].vertex;
    const int32_t choice = units->choice[units->unit[v]];
    const int32_t *list = choice < 0 ? NULL : units->choice_device + units->choice_start[choice];
    const int32_t count = choice < 0
                              ? s->system->devices
                              : (int32_t)(units->choice_start[choice + 1] - units->choice_start[choice]);
    s->device_count = 0;
    add_device(s, s->device[v]);
    for (int32_t i = 0; choice < 0 && i < s->mover_count && s->device_count < MOST_DEVICES / 2; i++) {
        add_devices_of(s, &s->past, s->movers[i].vertex);
        add_devices_of(s, &s->future, s->movers[i].vertex);
    }
    for (int32_t i = 0; i < count && s->device_count < MOST_DEVICES; i++) {
        const int32_t at = count <= MOST_DEVICES ? i : random_below(&s->random, count);
        add_device(s, list ? list[at] : at);
    }
}

/* A path from each mover on, whatever devices: it is the longest if movers stay on device d. */
static void look_ahead(struct search *s, int32_t d) {
    const double speed = s->system->speed[d];
    for (int32_t i = s->mover_count - 1; i >= 0; i--) {
        struct mover *mover = s->movers + i;
        mover->ahead = mover->beyond = 0;
        for (int64_t e = s->future.start[mover->vertex]; e < s->future.start[mover->vertex + 1]; e++) {
            const int32_t w = s->future.end[e];
            const struct mover *next = s->mover_of[w] < 0 ? NULL : s->movers + s->mover_of[w];
            const double ahead = next ? next->ahead + s->system->complexity[w] : 0;
            const double beyond = next ? next->beyond : s->future.reach[w];
            if (ahead / speed + beyond <= mover->ahead / speed + mover->beyond)
                continue;
            mover->ahead = ahead;
            mover->beyond = beyond;
        }
    }
}

/* Take the movers out and follow what that changes nearby. */
static void take_out(struct search *s, double *limit) {
    double ends[2] = {0, 0};
    for (int32_t i = 0; i < s->mover_count; i++) {
        struct mover *mover = s->movers + i;
        const int32_t v = mover->vertex;
        ends[0] = fmax(ends[0], s->past.reach[v]);
        ends[1] = fmax(ends[1], s->future.reach[v]);
        mover->device = s->device[v];
        mover->index = first_after(s, s->lists + mover->device, s->past.reach[v]) - 1;
        mover->before = s->past.next[v];
        mover->after = s->future.next[v];
        mark(&s->past, v);
        mark(&s->future, v);
        mark_behind(&s->past, &s->future, v);
        mark_behind(&s->future, &s->past, v);
        link_out(s, v, mover->index);
    }
    limit[0] = ends[0] + WINDOW * s->unit;
    limit[1] = ends[1] + WINDOW * s->unit;
    follow(s, &s->past, limit[0], INFINITY, INFINITY);
    follow(s, &s->future, limit[1], INFINITY, INFINITY);
    look_ahead(s, s->movers[0].device);
}

/* The longest path to a mover on d, on one side; movers that are reached through have been looked at. */
static double path_to(const struct search *s, const struct side *side, int32_t v, int32_t d) {
    const double *pace = side->pace + (size_t)d * (size_t)s->system->devices;
    double longest = 0;
    for (int64_t e = side->start[v]; e < side->start[v + 1]; e++) {
        const int32_t w = side->end[e];
        double path = side->reach[w];
        if (s->mover_of[w] >= 0) {
            const struct mover *mover = s->movers + s->mover_of[w];
            path = (side == &s->past ? mover->ready : mover->rest) + duration(s, w, d);
        } else if (side->size[e] > 0) {
            path += side->size[e] * pace[s->device[w]];
        }
        if (path > longest)
            longest = path;
    }
    return longest;
}

/* The longest path through the movers if they join a device: exact for one; `limit` or more if that is not
 * below `limit`. */
static double path_on(struct search *s, int32_t d, double limit) {
    double longest = 0;
    int32_t index = 0;
    for (int32_t i = 0; i < s->mover_count; i++) {
        struct mover *mover = s->movers + i;
        mover->ready = path_to(s, &s->past, mover->vertex, d);
        const double rest = mover->ahead / s->system->speed[d] + mover->beyond;
        longest = fmax(longest, mover->ready + duration(s, mover->vertex, d) + rest);
        if (longest >= limit)
            return longest;
    }
    for (int32_t i = s->mover_count - 1; i >= 0 && longest < limit; i--) {
        s->movers[i].rest = path_to(s, &s->future, s->movers[i].vertex, d);
        longest = fmax(longest, best_place(s, d, s->movers + i, limit, 0, &index));
    }
    return longest;
}

/* The device that the movers join: each with the chance exp(-path / temperature), up to a factor.
 * -1: none can have them. */
static int32_t choose_device(struct search *s, double temperature, double *path) {
    double best = INFINITY;
    int32_t chosen = -1;
    for (int32_t i = 0; i < s->device_count; i++) {
        const double luck =
            temperature > 0 ? -log(-log(random_share(&s->random) + 0x1p-60)) * temperature : 0;
        const double length = path_on(s, s->devices[i], best + luck);
        if (length - luck >= best)
            continue;
        best = length - luck;
        *path = length;
        chosen = s->devices[i];
    }
    return chosen;
}

static bool make_room(struct search *s, struct list *list) {
    if (list->count + s->mover_count <= list->room)
        return true;
    const int32_t room = 2 * (list->count + s->mover_count);
    int32_t *vertex = arena_grow(&s->arena, list->vertex, (size_t)list->count, (size_t)room, sizeof *vertex);
    if (!vertex)
        return false;
    list->vertex = vertex;
    list->room = room;
    return true;
}

/* Put the movers on a device, one after another, each where it fits best; whether anything has changed. */
static bool put_in(struct search *s, int32_t d, const double *limit) {
    bool moved = false;
    for (int32_t i = 0; i < s->mover_count; i++) {
        struct mover *mover = s->movers + i;
        const int32_t v = mover->vertex;
        int32_t index = 0;
        mover->ready = mover->rest = 0;
        for (int64_t e = s->past.start[v]; e < s->past.start[v + 1]; e++)
            mover->ready = fmax(mover->ready, s->past.reach[s->past.end[e]] + lag_on(s, &s->past, e, d));
        for (int64_t e = s->future.start[v]; e < s->future.start[v + 1]; e++)
            mover->rest = fmax(mover->rest, s->future.reach[s->future.end[e]] + lag_on(s, &s->future, e, d));
        best_place(s, d, mover, INFINITY, s->past.reach[v], &index);
        link_in(s, v, d, index);
        if (i + 1 == s->mover_count)
            break;
        mark(&s->past, v);
        mark(&s->future, v);
        mark_behind(&s->past, &s->future, v);
        mark_behind(&s->future, &s->past, v);
        follow(s, &s->past, limit[0], INFINITY, INFINITY);
        follow(s, &s->future, limit[1], INFINITY, INFINITY);
    }
    for (int32_t i = 0; i < s->mover_count; i++) {
        const struct mover *mover = s->movers + i;
        const int32_t v = mover->vertex;
        moved = moved || mover->device != d || mover->before != s->past.next[v] ||
                mover->after != s->future.next[v];
    }
    return moved;
}

static void forget_changes(struct search *s) {
    take_back(&s->past);
    take_back(&s->future);
    s->round++;
}

static void keep_changes(struct search *s) {
    s->past.changes = s->future.changes = 0;
    s->round++;
}

/* From the paths as they were before the move on, follow all that it has changed; whether the makespan is
 * at most `most`. */
static bool settle(struct search *s, double most) {
    double settled = 0;
    forget_changes(s);
    for (int32_t i = 0; i < s->mover_count; i++) {
        const struct mover *mover = s->movers + i;
        settled = fmax(settled, s->past.reach[mover->vertex]);
        mark(&s->past, mover->vertex);
        mark(&s->past, mover->after);
        mark(&s->future, mover->vertex);
        mark(&s->future, mover->before);
    }
    for (int32_t i = 0; i < s->mover_count; i++) {
        mark_behind(&s->past, &s->future, s->movers[i].vertex);
        mark_behind(&s->future, &s->past, s->movers[i].vertex);
    }
    bool good = follow(s, &s->past, INFINITY, settled, most);
    const double makespan = good ? longest_path(s) : INFINITY;
    good = makespan <= most;
    follow(s, &s->future, good ? INFINITY : -1, INFINITY, INFINITY);
    if (good)
        s->makespan = makespan;
    return good;
}

/* Movers back to where they were; those that have joined a device leave it first. */
static void put_back(struct search *s) {
    for (int32_t i = 0; i < s->mover_count; i++) {
        const int32_t v = s->movers[i].vertex;
        const int32_t d = s->device[v];
        int32_t index = 0;
        while (d >= 0 && s->lists[d].vertex[index] != v)
            index++;
        if (d >= 0)
            link_out(s, v, index);
    }
    for (int32_t i = s->mover_count - 1; i >= 0; i--)
        link_in(s, s->movers[i].vertex, s->movers[i].device, s->movers[i].index);
    forget_changes(s);
}

/* Try a move; whether it has changed the schedule. */
static bool move(struct search *s, double temperature) {
    double limit[2];
    double path = INFINITY;
    choose_movers(s);
    choose_devices(s);
    take_out(s, limit);
    const int32_t d = choose_device(s, temperature, &path);
    double most = s->makespan * (1 + 1e-12); /* paths that are summed up in another order */
    if (temperature > 0)
        most = fmin(most + anneal_allowance(&s->random, temperature), s->longest);
    const bool joins = d >= 0 && path <= most && make_room(s, s->lists + d);
    const bool moved = joins && put_in(s, d, limit);
    const bool changed = moved && settle(s, most);
    if (changed)
        keep_changes(s);
    else if (joins && !moved)
        forget_changes(s);
    else
        put_back(s);
    for (int32_t i = 0; i < s->mover_count; i++)
        s->mover_of[s->movers[i].vertex] = -1;
    return changed;
}

static void write_order(const struct search *s, int32_t *order) {
    for (int32_t d = 0; d < s->system->devices; d++) {
        memcpy(order, s->lists[d].vertex, (size_t)s->lists[d].count * sizeof *order);
        order += s->lists[d].count;
    }
}

static void keep(struct search *s) {
    if (!(s->makespan < s->best))
        return;
    s->best = s->makespan;
    memcpy(s->best_device, s->device, (size_t)s->system->nodes * sizeof *s->best_device);
    write_order(s, s->best_order);
}

static int by_time(const void *a, const void *b) {
    const struct key *first = a;
    const struct key *second = b;
    return (first->time > second->time) - (first->time < second->time);
}

/* Places as vertices end. */
static void renumber(struct search *s) {
    const int32_t n = s->system->nodes;
    for (int32_t v = 0; v < n; v++)
        s->keys[v] = (struct key){s->past.reach[v], v};
    qsort(s->keys, (size_t)n, sizeof *s->keys, by_time);
    for (int32_t i = 0; i < n; i++) {
        const int32_t v = s->keys[i].vertex;
        s->past.at[i] = s->future.at[n - 1 - i] = v;
        s->past.place[v] = i;
        s->future.place[v] = n - 1 - i;
    }
}

static void run(struct search *s, int64_t moves, double temperature) {
    const int32_t often = 200 + s->system->nodes / 16; /* of moves after which places are far from right */
    int64_t made = 0;
    keep(s);
    for (int64_t i = 0; i < moves && s->makespan > 0 && !s->arena.failed; i++) {
        if (!move(s, temperature))
            continue;
        keep(s);
        if (++made % often == 0)
            renumber(s);
    }
}

static void pair_edges(struct search *s) {
    const struct shard_system *system = s->system;
    int64_t *next = s->member_start; /* for a while: of each vertex, its next input */
    memcpy(next, s->units->in_start, (size_t)system->nodes * sizeof *next);
    for (int64_t e = 0; e < system->out_start[system->nodes]; e++) {
        const int64_t input = next[system->out_head[e]]++;
        s->future.twin[e] = input;
        s->past.twin[input] = e;
    }
    memset(next, 0, ((size_t)system->nodes + 2) * sizeof *next);
}

static void pair_devices(struct search *s) {
    const size_t k = (size_t)s->system->devices;
    for (size_t from = 0; from < k; from++)
        for (size_t to = 0; to < k; to++)
            s->future.pace[from * k + to] = s->past.pace[to * k + from] =
                1 / s->system->bandwidth[from * k + to];
}

static void line_up(struct search *s, const int32_t *order) {
    for (int32_t i = 0; i < s->system->nodes; i++) {
        const int32_t v = order[i];
        struct list *list = s->lists + s->device[v];
        s->past.next[v] = list->count > 0 ? list->vertex[list->count - 1] : -1;
        s->future.next[v] = -1;
        if (list->count > 0)
            s->future.next[s->past.next[v]] = v;
        list->vertex[list->count++] = v;
    }
    for (int32_t v = 0; v < s->system->nodes; v++) {
        s->time[v] = duration(s, v, s->device[v]);
        s->mover_of[v] = -1;
        set_lags(s, &s->past, &s->future, v);
        set_lags(s, &s->future, &s->past, v);
    }
}

/* All paths, in a topological order; false if there is none. */
static bool measure(struct search *s) {
    const int32_t n = s->system->nodes;
    int32_t *missing = s->past.place; /* for a while */
    int32_t *queue = s->past.at;
    int32_t count = 0;
    for (int32_t v = 0; v < n; v++) {
        missing[v] = (int32_t)(s->past.start[v + 1] - s->past.start[v]) + (s->past.next[v] >= 0);
        if (missing[v] == 0)
            queue[count++] = v;
    }
    for (int32_t i = 0; i < count; i++) {
        const int32_t v = queue[i];
        s->past.reach[v] = reach_of(s, &s->past, v);
        for (int64_t e = s->future.start[v]; e < s->future.start[v + 1]; e++)
            if (--missing[s->future.end[e]] == 0)
                queue[count++] = s->future.end[e];
        if (s->future.next[v] >= 0 && --missing[s->future.next[v]] == 0)
            queue[count++] = s->future.next[v];
    }
    for (int32_t i = count - 1; i >= 0; i--)
        s->future.reach[queue[i]] = reach_of(s, &s->future, queue[i]);
    s->makespan = longest_path(s);
    return count == n;
}

/* All paths, with a least time for each vertex; false if there is no topological order. */
static bool begin(struct search *s) {
    if (!measure(s))
        return false;
    s->least = LEAST * s->makespan;
    s->longest = GROWTH * s->makespan;
    for (int32_t v = 0; v < s->system->nodes; v++)
        s->time[v] = duration(s, v, s->device[v]);
    return measure(s);
}

static void allocate_side(struct arena *arena, struct side *side, int64_t n, int64_t m, int64_t k) {
    side->words = (int32_t)(n / 64 + 1);
    side->first = side->words;
    ARENA_ZEROS(arena, side->reach, n);
    ARENA_ARRAY(arena, side->next, n);
    ARENA_ARRAY(arena, side->lag, m);
    ARENA_ARRAY(arena, side->twin, m);
    ARENA_ARRAY(arena, side->pace, k * k);
    ARENA_ARRAY(arena, side->place, n);
    ARENA_ARRAY(arena, side->at, n);
    ARENA_ZEROS(arena, side->marked, side->words);
    ARENA_ARRAY(arena, side->changed, n);
    ARENA_ARRAY(arena, side->was, n);
    ARENA_ZEROS(arena, side->seen, n);
}

static int allocate(struct search *s, const int32_t *device) {
    struct arena *arena = &s->arena;
    const int64_t n = s->system->nodes, m = s->system->out_start[n], k = s->system->devices;
    ARENA_ARRAY(arena, s->keys, n);
    ARENA_ARRAY(arena, s->device, n);
    ARENA_ARRAY(arena, s->time, n);
    ARENA_ZEROS(arena, s->member_start, n + 2);
    ARENA_ARRAY(arena, s->member, n);
    ARENA_ARRAY(arena, s->movers, n);
    ARENA_ARRAY(arena, s->mover_of, n);
    ARENA_ARRAY(arena, s->devices, MOST_DEVICES);
    ARENA_ZEROS(arena, s->listed, k);
    ARENA_ARRAY(arena, s->best_device, n);
    ARENA_ARRAY(arena, s->best_order, n);
    allocate_side(arena, &s->past, n, m, k);
    allocate_side(arena, &s->future, n, m, k);
    ARENA_ZEROS(arena, s->lists, k);
    for (int32_t v = 0; !arena->failed && v < n; v++)
        s->lists[device[v]].room++;
    for (int32_t d = 0; !arena->failed && d < k; d++)
        ARENA_ARRAY(arena, s->lists[d].vertex, s->lists[d].room);
    return arena_status(arena);
}

static void prepare(struct search *s, const int32_t *device, const int32_t *order) {
    const struct shard_system *system = s->system;
    double work = 0;
    for (int32_t v = 0; v < system->nodes; v++)
        work += system->complexity[v] / system->speed[device[v]];
    s->unit = work / system->nodes;
    memcpy(s->device, device, (size_t)system->nodes * sizeof *device);
    s->past.start = s->units->in_start;
    s->past.end = s->units->in_tail;
    s->past.size = s->units->in_size;
    s->future.start = system->out_start;
    s->future.end = system->out_head;
    s->future.size = system->size;
    pair_edges(s);
    list_members(system->nodes, s->units->unit, s->member_start, s->member);
    pair_devices(s);
    line_up(s, order);
}

int shard_path_moves(const struct shard_system *system, const struct shard_units *units, int64_t moves,
                     double temperature, uint64_t *random, int32_t *device, int32_t *order,
                     int32_t *best_device, int32_t *best_order, double *best_makespan) {
    const size_t n = (size_t)system->nodes;
    struct search s = {.system = system, .units = units, .random = {*random}, .best = *best_makespan};
    int status = allocate(&s, device);
    if (status == SHARD_OK && n > 0) {
        prepare(&s, device, order);
        if (begin(&s)) {
            renumber(&s);
            s.round = 1;
            run(&s, moves, temperature);
            status = arena_status(&s.arena);
        } else {
            status = SHARD_CYCLE;
        }
    }
    if (status == SHARD_OK && n > 0) {
        memcpy(device, s.device, n * sizeof *device);
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
