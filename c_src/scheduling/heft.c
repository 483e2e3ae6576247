/* Each device keeps its busy times in order; the search for a gap begins when the last input arrives. */
#include "scheduling/heft.h"

struct interval {
    double start, end;
};

struct timeline {
    struct interval *busy; /* ascending, disjoint */
    int32_t count, room;
};

struct heft {
    struct arena arena;
    const struct shard_system *system;
    const struct shard_units *units;
    int32_t *device;
    double *start;
    struct timeline *timelines;
    double *held; /* per device: summed sizes of all inputs read there */
};

/* The first busy time of a device that ends after `time`. */
static int32_t first_after(const struct timeline *timeline, double time) {
    int32_t low = 0, high = timeline->count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (timeline->busy[middle].end > time)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The earliest start from `time` on in a gap of `duration`; `limit` or more if it is not before `limit`. */
static double first_gap(const struct timeline *timeline, double time, double duration, double limit) {
    for (int32_t i = first_after(timeline, time); i < timeline->count && time < limit; i++) {
        if (time + duration <= timeline->busy[i].start)
            return time;
        time = timeline->busy[i].end;
    }
    return time;
}

static bool insert(struct arena *arena, struct timeline *timeline, double start, double end) {
    if (timeline->count == timeline->room) {
        const int32_t room = 2 * timeline->room + 8;
        const size_t size = sizeof *timeline->busy;
        struct interval *busy =
            arena_grow(arena, timeline->busy, (size_t)timeline->count, (size_t)room, size);
        if (!busy)
            return false;
        timeline->busy = busy;
        timeline->room = room;
    }
    const int32_t at = first_after(timeline, start);
    memmove(timeline->busy + at + 1, timeline->busy + at,
            (size_t)(timeline->count - at) * sizeof *timeline->busy);
    timeline->busy[at] = (struct interval){start, end};
    timeline->count++;
    return true;
}

/* The time at which all inputs of a vertex are on device d. */
static double arrival_on(const struct heft *heft, int32_t v, int32_t d) {
    const struct shard_system *system = heft->system;
    const struct shard_units *units = heft->units;
    double last = 0;
    for (int64_t e = units->in_start[v]; e < units->in_start[v + 1]; e++) {
        const int32_t u = units->in_tail[e], from = heft->device[u];
        double time = heft->start[u] + system->complexity[u] / system->speed[from];
        if (from != d && units->in_size[e] > 0)
            time += units->in_size[e] / system->bandwidth[(size_t)from * (size_t)system->devices + (size_t)d];
        if (time > last)
            last = time;
    }
    return last;
}

/* The device that finishes a vertex first among those that can hold its unit, have at least `room` left, or
 * whose memory is NaN; -1 if there is none. */
static int32_t earliest_device(const struct heft *heft, int32_t v, struct device_set set, double room) {
    const struct shard_system *system = heft->system;
    const double need = heft->units->need[heft->units->unit[v]];
    double best_end = INFINITY;
    int32_t best = -1;
    for (int32_t i = 0; i < set.count; i++) {
        const int32_t d = device_at(set, i);
        const double spare = heft->units->memory[d] - heft->held[d];
        if (spare <= need && spare < room)
            continue;
        const double duration = system->complexity[v] / system->speed[d];
        const double ready = arrival_on(heft, v, d);
        if (best >= 0 && ready + duration >= best_end)
            continue;
        const double end = first_gap(heft->timelines + d, ready, duration, best_end - duration) + duration;
        if (best < 0 || end < best_end) {
            best = d;
            best_end = end;
        }
    }
    return best;
}

static int32_t choose_device(const struct heft *heft, int32_t v) {
    const struct device_set set = devices_of(heft->system, heft->units, heft->units->unit[v]);
    const int32_t device = earliest_device(heft, v, set, INFINITY);
    if (device >= 0)
        return device;
    double most = -INFINITY;
    for (int32_t i = 0; i < set.count; i++)
        most = fmax(most, heft->units->memory[device_at(set, i)] - heft->held[device_at(set, i)]);
    return earliest_device(heft, v, set, most);
}

/* Put the unit of a vertex on the vertex's device, unless it has one. */
static void assign_unit(struct heft *heft, int32_t v, const int64_t *member_start, const int32_t *member) {
    if (heft->device[v] >= 0)
        return;
    const int32_t d = choose_device(heft, v), unit = heft->units->unit[v];
    for (int64_t i = member_start[unit]; i < member_start[unit + 1]; i++)
        heft->device[member[i]] = d;
    heft->held[d] += heft->units->need[unit];
}

static void assign_vertices(struct heft *heft, const int32_t *order, const int64_t *member_start,
                            const int32_t *member) {
    for (int32_t i = 0; i < heft->system->nodes; i++) {
        const int32_t v = order[i];
        assign_unit(heft, v, member_start, member);
        const int32_t d = heft->device[v];
        const double duration = heft->system->complexity[v] / heft->system->speed[d];
        heft->start[v] = first_gap(heft->timelines + d, arrival_on(heft, v, d), duration, INFINITY);
        if (!insert(&heft->arena, heft->timelines + d, heft->start[v], heft->start[v] + duration))
            return;
    }
}

int shard_heft(const struct shard_system *system, const struct shard_units *units, const int32_t *order,
               int32_t *device, double *start) {
    struct heft heft = {{0}, system, units, device, start, NULL, NULL};
    int64_t *member_start;
    int32_t *member;
    ARENA_ZEROS(&heft.arena, system->nodes + 2, member_start);
    ARENA_ARRAYS(&heft.arena, system->nodes, member);
    ARENA_ZEROS(&heft.arena, system->devices, heft.timelines, heft.held);
    if (!heft.arena.failed) {
        list_members(system->nodes, units->unit, member_start, member);
        assign_vertices(&heft, order, member_start, member);
    }
    const int status = arena_status(&heft.arena);
    arena_free(&heft.arena);
    return status;
}
