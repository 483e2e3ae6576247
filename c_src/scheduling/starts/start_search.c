/* A stack holds the schedules that are left to try, packed, the next one on top. */
#include "scheduling/starts/start_search.h"

#include "common/stop.h"
#include "scheduling/starts/overfills.h"

/* Schedules between two looks at the time. */
enum { PATIENCE = 64 };

/* A vertex or a device to try. */
struct option {
    double score;
    int32_t number;
};

/* A packed schedule. */
struct layer {
    size_t first;    /* byte where it begins */
    int32_t started; /* vertices that have started in it */
    int32_t vertex;  /* the last of these, or -1: the same as below */
};

struct search {
    struct arena arena;
    struct setting setting;
    struct partial partial;
    struct outlook outlook;
    char *before; /* scratch: a packed schedule */
    char *bytes;
    size_t used, room, most;
    struct layer *layer;
    size_t layers, layer_room;
    struct option *option;
    int32_t *sequence;
    bool full; /* there was no room for a schedule */
};

static int better_last(const void *a, const void *b) {
    const struct option *first = a, *second = b;
    if (first->score > second->score || first->score < second->score)
        return first->score < second->score ? -1 : 1;
    return (first->number < second->number) - (first->number > second->number);
}

static bool make_room(struct search *s, size_t size) {
    if (s->used + size > s->room) {
        const size_t room = 2 * (s->used + size);
        if (room > s->most)
            return false;
        char *grown = realloc(s->bytes, room);
        if (!grown)
            return false;
        s->bytes = grown;
        s->room = room;
    }
    if (s->layers == s->layer_room) {
        const size_t room = 2 * s->layer_room + 64;
        s->layer = arena_grow(&s->arena, s->layer, s->layers, room, sizeof *s->layer);
        s->layer_room = room;
    }
    return !s->arena.failed;
}

/* Put the schedule at hand on the stack; `vertex` has just started, or -1. */
static void push(struct search *s, int32_t vertex) {
    const size_t size = partial_size(&s->partial);
    if (s->full || !make_room(s, size)) {
        s->full = true;
        return;
    }
    s->layer[s->layers++] = (struct layer){s->used, s->partial.head->started, vertex};
    partial_pack(&s->partial, s->bytes + s->used);
    s->used += size;
}

static void pop(struct search *s) {
    const struct layer top = s->layer[--s->layers];
    s->used = top.first;
    partial_unpack(&s->partial, s->bytes + s->used);
    if (top.vertex >= 0)
        s->sequence[top.started - 1] = top.vertex;
}

/* Share of the memory of a device that is free; 1 if it has no limit. */
static double free_share(const struct search *s, int32_t d) {
    return isinf(s->setting.limit[d]) ? 1 : 1 - s->partial.held[d] / s->setting.limit[d];
}

/* Try each device for the unit that needs one, last that with most memory. */
static void branch_home(struct search *s) {
    const struct setting *setting = &s->setting;
    const int32_t unit = setting->units->unit[setting->system->out_head[s->partial.head->next]];
    const struct device_set set = devices_of(setting->system, setting->units, unit);
    for (int32_t i = 0; i < set.count; i++) {
        const int32_t d = device_at(set, i);
        s->option[i] = (struct option){free_share(s, d), d};
    }
    qsort(s->option, (size_t)set.count, sizeof *s->option, better_last);
    for (int32_t i = 0; i < set.count; i++) {
        s->partial.home[unit] = s->option[i].number;
        push(s, -1);
    }
}

/* True if nothing happens until some time after this moment, once no tensor is left to depart in it. */
static bool is_calm(const struct search *s) {
    const double now = s->partial.head->now;
    const double next = fmin(partial_next(&s->partial, &s->setting), now + s->setting.step);
    return next - now > SLACK * next;
}

/* True if the device cannot go on with what it holds; its turn is over and the moment is calm. */
static bool has_failed(const struct search *s, int32_t d) {
    return is_full(&s->partial, &s->setting, d) ||
           (s->setting.reserved && is_stuck(&s->partial, &s->setting, d));
}

static bool allows(const struct search *s, int32_t v, int32_t d) {
    const struct device_set set = devices_of(s->setting.system, s->setting.units, s->setting.units->unit[v]);
    for (int32_t i = 0; i < set.count; i++)
        if (device_at(set, i) == d)
            return true;
    return false;
}

/* List the vertices that device d may start now, the best last. */
static int32_t list_startable(struct search *s, int32_t d) {
    const struct partial *p = &s->partial;
    const struct setting *setting = &s->setting;
    int32_t count = 0;
    for (int64_t i = 0; i < p->head->executables; i++) {
        const struct executable it = p->executable[i];
        const int32_t home = p->home[setting->units->unit[it.vertex]];
        const bool source = setting->units->in_start[it.vertex] == setting->units->in_start[it.vertex + 1];
        if (p->free_at[d] < p->head->now && (source || it.time < p->head->now))
            continue;
        if (home < 0 ? !allows(s, it.vertex, d) : home != d)
            continue;
        const double gain = setting->read[it.vertex] - setting->made[it.vertex];
        s->option[count++] = (struct option){gain, it.vertex};
    }
    qsort(s->option, (size_t)count, sizeof *s->option, better_last);
    return count;
}

/* Try each start of device d, and none. */
static void branch_start(struct search *s, int32_t d) {
    const bool calm = is_calm(s);
    const int32_t count = list_startable(s, d);
    s->partial.head->turn = d + 1;
    partial_pack(&s->partial, s->before);
    if (!calm || !has_failed(s, d))
        push(s, -1);
    for (int32_t i = 0; i < count; i++) {
        partial_unpack(&s->partial, s->before);
        partial_start(&s->partial, &s->setting, s->option[i].number, d);
        if (!calm || !has_failed(s, d))
            push(s, s->option[i].number);
    }
}

static bool any_full(const struct search *s) {
    for (int32_t d = 0; d < s->setting.system->devices; d++)
        if (is_full(&s->partial, &s->setting, d))
            return true;
    return false;
}

/* The first idle device, from one on; -1 if there is none. */
static int32_t idle_device(const struct search *s, int32_t d) {
    for (; d < s->setting.system->devices; d++)
        if (s->partial.running[d] < 0)
            return d;
    return -1;
}

/* Go to the next moment of the schedule at hand; false if none comes, or memory overfills. */
static bool next_moment(struct search *s) {
    const double next = partial_next(&s->partial, &s->setting);
    if (isinf(next) || (is_calm(s) && any_full(s)) || overfills(&s->outlook, &s->partial, &s->setting))
        return false;
    s->partial.head->now = next;
    s->partial.head->turn = 0;
    return true;
}

/* Go on with the schedule at hand until it branches or ends; true if all vertices have finished. */
static bool go_on(struct search *s) {
    for (;;) {
        const enum progress progress = partial_process(&s->partial, &s->setting);
        if (progress == WITHOUT_LINK)
            return false;
        if (progress == NEEDS_HOME) {
            if (!s->setting.reserved || !is_calm(s) || !any_full(s))
                branch_home(s);
            return false;
        }
        if (s->partial.head->started == s->setting.system->nodes &&
            isinf(partial_next(&s->partial, &s->setting)))
            return true;
        const int32_t d = idle_device(s, s->partial.head->turn);
        if (d >= 0) {
            branch_start(s, d);
            return false;
        }
        if (!next_moment(s))
            return false;
    }
}

static int allocate(struct search *s, const struct shard_system *system, const struct shard_units *units,
                    bool reserved, const double *weight, const double *limit) {
    struct arena *arena = &s->arena;
    const int64_t n = system->nodes, k = system->devices;
    setting_allocate(&s->setting, arena, system, units, reserved, weight, limit);
    partial_allocate(&s->partial, arena, &s->setting);
    outlook_allocate(&s->outlook, arena, &s->setting);
    ARENA_ARRAYS(arena, n + k, s->option);
    ARENA_ARRAYS(arena, partial_most(&s->partial, &s->setting), s->before);
    return arena_status(arena);
}

static enum shard_starts search(struct search *s, double end) {
    partial_reset(&s->partial, &s->setting);
    push(s, -1);
    for (int64_t tried = 1; s->layers > 0; tried++) {
        if (tried % PATIENCE == 0 && monotonic_seconds() > end)
            return SHARD_STARTS_OPEN;
        pop(s);
        if (go_on(s))
            return SHARD_STARTS_FOUND;
        if (s->full)
            return SHARD_STARTS_OPEN;
    }
    return s->full ? SHARD_STARTS_OPEN : SHARD_STARTS_NONE;
}

int shard_start_search(const struct shard_system *system, const struct shard_units *units, int32_t reserved,
                       const double *weight, const double *limit, double seconds, int64_t bytes,
                       int32_t *device, int32_t *sequence, int32_t *found) {
    const double end = monotonic_seconds() + seconds;
    struct search s = {.most = (size_t)bytes, .sequence = sequence};
    int status = allocate(&s, system, units, reserved, weight, limit);
    if (status == SHARD_OK) {
        *found = search(&s, end);
        for (int32_t v = 0; v < system->nodes && *found == SHARD_STARTS_FOUND; v++)
            device[v] = s.partial.home[units->unit[v]];
        status = arena_status(&s.arena);
    }
    free(s.bytes);
    arena_free(&s.arena);
    return status;
}
