/* Most changes come in order of time, since vertices are visited as they start. */
#include "scheduling/overfull.h"

/* The times of a schedule. */
struct times {
    const double *start, *finish, *arrival;
};

/* Add a change to those of its device, ascending by time. */
static void insert(struct holding *first, size_t *count, struct holding change) {
    size_t at = (*count)++;
    for (; at > 0 && first[at - 1].time > change.time; at--)
        first[at] = first[at - 1];
    first[at] = change;
}

/* Reserve a part of `change` for each device: two per input. */
static void divide(struct overfull *o, const int32_t *device) {
    memset(o->count, 0, (size_t)o->system->devices * sizeof *o->count);
    size_t next = 0;
    for (int32_t v = 0; v < o->system->nodes; v++)
        o->count[device[v]] += 2 * (size_t)(o->units->in_start[v + 1] - o->units->in_start[v]);
    for (int32_t d = 0; d < o->system->devices; d++) {
        o->first[d] = next;
        next += o->count[d];
        o->count[d] = 0;
    }
}

/* List when device d begins and ends to hold the inputs of vertex v. */
static void hold_inputs(struct overfull *o, int32_t v, int32_t d, const struct times *times) {
    const struct shard_units *units = o->units;
    const double released = o->reserved ? times->finish[v] : times->start[v];
    const double end = released * (1 - o->system->tolerance);
    struct holding *first = o->change + o->first[d];
    for (int64_t i = units->in_start[v]; i < units->in_start[v + 1]; i++) {
        const double begin = o->reserved ? times->finish[units->in_tail[i]] : times->arrival[o->edge_at[i]];
        if (units->in_size[i] <= 0 || begin >= end)
            continue;
        insert(first, o->count + d, (struct holding){begin, units->in_size[i], i});
        insert(first, o->count + d, (struct holding){end, -units->in_size[i], i});
    }
}

/* List the overfull times of device d. */
static void sweep(struct overfull *o, int32_t d) {
    const struct holding *change = o->change + o->first[d], *end = change + o->count[d];
    const struct holding *begun = change; /* the first of the same time */
    const double memory = o->units->memory[d];
    double held = 0;
    int64_t tensors = 0;
    for (; change + 1 < end; change++) { /* after the last change it holds nothing */
        tensors += change->change > 0 ? 1 : -1;
        held = tensors ? held + change->change : 0;
        if (change[1].time <= change->time)
            continue;
        const bool over = tensors && held >= memory;
        if (over)
            o->time[o->times++] = (struct overfull_time){change[1].time - change->time, held, d};
        for (; begun <= change; begun++)
            if (over && begun->change > 0)
                o->input[o->inputs++] = begun->input;
    }
}

void overfull_measure(struct overfull *o, const int32_t *device, const int32_t *began, const double *start,
                      const double *finish, const double *arrival) {
    const struct times times = {start, finish, arrival};
    divide(o, device);
    for (int32_t at = 0; at < o->system->nodes; at++) {
        const int32_t v = began[at];
        if (isfinite(o->units->memory[device[v]]))
            hold_inputs(o, v, device[v], &times);
    }
    o->times = 0;
    o->inputs = 0;
    for (int32_t d = 0; d < o->system->devices; d++)
        sweep(o, d);
}

static void index_inputs(struct overfull *o, int64_t *next) {
    const struct shard_system *system = o->system;
    memcpy(next, o->units->in_start, (size_t)system->nodes * sizeof *next);
    for (int64_t e = 0; e < system->out_start[system->nodes]; e++)
        o->edge_at[next[system->out_head[e]]++] = e;
}

void overfull_allocate(struct overfull *o, struct arena *arena, const struct shard_system *system,
                       const struct shard_units *units, bool reserved) {
    const int64_t m = system->out_start[system->nodes];
    int64_t *next; /* input of each vertex */
    *o = (struct overfull){.system = system, .units = units, .reserved = reserved};
    ARENA_ARRAYS(arena, system->devices, o->first, o->count);
    ARENA_ARRAYS(arena, m, o->edge_at, o->input);
    ARENA_ARRAYS(arena, 2 * m, o->change, o->time);
    ARENA_ARRAYS(arena, system->nodes, next);
    if (!arena->failed)
        index_inputs(o, next);
}
