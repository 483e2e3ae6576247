/* Once a vertex is removed, the longest path through it at any other place follows from its neighbours there:
 * Mastrolilli and Gambardella, Journal of Scheduling 2000. */
#include "scheduling/paths/path_devices.h"

/* The number of leading vertices of a sequence before the window or whose paths, which are monotone, exceed
 * `time` if `longer`, else do not exceed it. */
static inline int32_t count_leading(const struct sequence *sequence, const double *path, double time,
                                    bool longer) {
    int32_t low = sequence->before, high = sequence->count - sequence->behind;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if ((path[sequence->vertex[middle]] > time) == longer)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int32_t path_devices_first_after(const struct paths *paths, const struct sequence *sequence, double time) {
    return count_leading(sequence, paths->past.path, time, false);
}

double path_devices_best_place(const struct path_search *s, int32_t d, const struct mover *mover,
                               double limit, double end, int32_t *index) {
    const struct paths *paths = &s->paths;
    const struct sequence *sequence = paths->sequences + d;
    /* A place in the window is behind all vertices before it, and before all behind it. */
    const int32_t behind = sequence->count - sequence->behind;
    double head = mover->head, tail = mover->tail;
    if (sequence->before)
        head = greater(head, paths->past.path[sequence->vertex[sequence->before - 1]]);
    if (sequence->behind)
        tail = greater(tail, paths->future.path[sequence->vertex[behind]]);
    const double time = time_on(paths, mover->vertex, d), least = head + time + tail;
    if (least >= limit)
        return least;
    const int32_t first = path_devices_first_after(paths, sequence, head);
    const int32_t last = count_leading(sequence, paths->future.path, tail, true);
    if (last <= first) {
        const int32_t at = path_devices_first_after(paths, sequence, end);
        *index = at < last ? last : at > first ? first : at;
        return least;
    }
    double best = INFINITY;
    for (int32_t i = first; i <= last; i++) {
        const double start = i > first ? paths->past.path[sequence->vertex[i - 1]] : head;
        if (start + time + tail >= best)
            break;
        const double rest = i < last ? paths->future.path[sequence->vertex[i]] : tail;
        if (start + time + rest >= best)
            continue;
        best = start + time + rest;
        *index = i;
    }
    return best;
}

static void add_device(struct path_search *s, int32_t d) {
    if (s->listed_in[d] == s->paths.round || s->device_count == MOST_DEVICES)
        return;
    s->listed_in[d] = s->paths.round;
    s->devices[s->device_count++] = d;
}

static void add_neighbour_devices(struct path_search *s, const struct direction *direction, int32_t v) {
    for (int64_t e = direction->start[v]; e < direction->start[v + 1]; e++)
        add_device(s, s->paths.device[direction->end[e]]);
}

void path_devices_list(struct path_search *s) {
    const int32_t v = s->movers[0].vertex;
    const struct device_set set = devices_of(s->system, s->units, s->units->unit[v]);
    s->device_count = 0;
    add_device(s, s->paths.device[v]);
    for (int32_t i = 0; !set.list && i < s->mover_count && s->device_count < MOST_DEVICES / 2; i++) {
        add_neighbour_devices(s, &s->paths.past, s->movers[i].vertex);
        add_neighbour_devices(s, &s->paths.future, s->movers[i].vertex);
    }
    for (int32_t i = 0; i < set.count && s->device_count < MOST_DEVICES; i++)
        add_device(s, device_at(set, set.count <= MOST_DEVICES ? i : random_below(&s->random, set.count)));
}

void path_devices_prepare(struct path_search *s, int32_t d) {
    const struct direction *past = &s->paths.past, *future = &s->paths.future;
    const double inverse = s->paths.inverse_speed[d];
    for (int32_t i = s->mover_count - 1; i >= 0; i--) {
        struct mover *mover = s->movers + i;
        mover->least = mover->ahead = mover->beyond = 0;
        for (int64_t e = past->start[mover->vertex]; e < past->start[mover->vertex + 1]; e++)
            if (s->mover_of[past->end[e]] < 0)
                mover->least = greater(mover->least, past->path[past->end[e]]);
        for (int64_t e = future->start[mover->vertex]; e < future->start[mover->vertex + 1]; e++) {
            const int32_t w = future->end[e];
            const struct mover *next = s->mover_of[w] < 0 ? NULL : s->movers + s->mover_of[w];
            const double ahead = next ? next->ahead + s->system->complexity[w] : 0;
            const double beyond = next ? next->beyond : future->path[w];
            if (ahead * inverse + beyond <= mover->ahead * inverse + mover->beyond)
                continue;
            mover->ahead = ahead;
            mover->beyond = beyond;
        }
    }
}

/* The longest path to a mover on d, in one direction; movers on the path have been evaluated. */
static double path_to(const struct path_search *s, const struct direction *direction, int32_t v, int32_t d) {
    const double *rate = direction->rate + (size_t)d * (size_t)s->system->devices;
    double longest = 0;
    for (int64_t e = direction->start[v]; e < direction->start[v + 1]; e++) {
        const int32_t w = direction->end[e];
        double path = direction->path[w];
        if (s->mover_of[w] >= 0) {
            const struct mover *mover = s->movers + s->mover_of[w];
            path = (direction == &s->paths.past ? mover->head : mover->tail) + time_on(&s->paths, w, d);
        } else if (direction->size[e] > 0) {
            path += direction->size[e] * rate[s->paths.device[w]];
        }
        if (path > longest)
            longest = path;
    }
    return longest;
}

/* The longest path through the movers on a device, exact for one; `limit` or more if not below `limit`. */
static double path_on(struct path_search *s, int32_t d, double limit) {
    double longest = 0;
    int32_t index = 0;
    for (int32_t i = 0; i < s->mover_count; i++) {
        struct mover *mover = s->movers + i;
        const double tail = mover->ahead * s->paths.inverse_speed[d] + mover->beyond;
        const double rest = time_on(&s->paths, mover->vertex, d) + tail;
        if (mover->least + rest >= limit)
            return mover->least + rest;
        mover->head = path_to(s, &s->paths.past, mover->vertex, d);
        longest = greater(longest, mover->head + rest);
        if (longest >= limit)
            return longest;
    }
    for (int32_t i = s->mover_count - 1; i >= 0 && longest < limit; i--) {
        s->movers[i].tail = path_to(s, &s->paths.future, s->movers[i].vertex, d);
        longest = greater(longest, path_devices_best_place(s, d, s->movers + i, limit, 0, &index));
    }
    return longest;
}

int32_t path_devices_draw(struct path_search *s, double temperature, double *path) {
    double best = INFINITY;
    int32_t drawn = -1;
    for (int32_t i = 0; i < s->device_count; i++) {
        const double luck =
            temperature > 0 ? s->gumbel[random_below(&s->random, QUANTILES)] * temperature : 0;
        const double length = path_on(s, s->devices[i], best + luck);
        if (length - luck >= best)
            continue;
        best = length - luck;
        *path = length;
        drawn = s->devices[i];
    }
    return drawn;
}
