/* Vertices release their inputs in the order in which they run, so only what a device takes needs to be sorted. */
#include "scheduling/ordered_times.h"

#include <math.h>

/* The cost of overfull time, in addition to that of the excess, as a share of memory. */
static const double OVERFULL = 0.1;

/* Group the sequence by device, and reserve room for the inputs of each device. */
static void group(struct ordered_times *t, const int32_t *device, const int32_t *sequence) {
    const struct shard_system *system = t->system;
    int64_t *room = t->tried.room;
    memset(t->first, 0, ((size_t)system->devices + 1) * sizeof *t->first);
    memset(room, 0, ((size_t)system->devices + 1) * sizeof *room);
    for (int32_t v = 0; v < system->nodes; v++) {
        t->first[device[v] + 1]++;
        room[device[v] + 1] += t->units->in_start[v + 1] - t->units->in_start[v];
    }
    for (int32_t d = 0; d < system->devices; d++) {
        t->first[d + 1] += t->first[d];
        room[d + 1] += room[d];
    }
    for (int32_t i = 0; i < system->nodes; i++)
        t->order[t->first[device[sequence[i]]]++] = sequence[i];
    for (int32_t d = system->devices; d > 0; d--)
        t->first[d] = t->first[d - 1];
    t->first[0] = 0;
}

/* Note a time of a device, which may differ from that of the accepted schedule. */
static inline void set(struct ordered_times *t, int32_t d, double *tried, const double *accepted,
                       double time) {
    *tried = time;
    t->changed[d] |= *accepted < time || time < *accepted;
}

/* The time at which the tensor of edge e arrives, which departs at a time; infinite without a link. */
static inline double arrive(struct ordered_times *t, int64_t e, int32_t from, int32_t to, double time) {
    const struct shard_system *system = t->system;
    if (from == to || system->size[e] <= 0)
        return time;
    const size_t link = (size_t)from * (size_t)system->devices + (size_t)to;
    if (system->bandwidth[link] <= 0)
        return INFINITY;
    if (system->links != SHARD_QUEUE)
        return time + system->size[e] / system->bandwidth[link];
    if (t->link_free[link] > time)
        time = t->link_free[link];
    return t->link_free[link] = time + system->size[e] / system->bandwidth[link];
}

/* Find all times; false if a tensor has no link. */
static bool pass(struct ordered_times *t, const int32_t *device, const int32_t *sequence) {
    const struct shard_system *system = t->system;
    const struct shard_units *units = t->units;
    const size_t k = (size_t)system->devices;
    memset(t->free_at, 0, k * sizeof *t->free_at);
    if (system->links == SHARD_QUEUE)
        memset(t->link_free, 0, k * k * sizeof *t->link_free);
    for (int32_t at = 0; at < system->nodes; at++) {
        const int32_t v = sequence[at], d = device[v];
        double start = t->free_at[d];
        for (int64_t i = units->in_start[v]; i < units->in_start[v + 1]; i++)
            if (t->tried.arrival[i] > start)
                start = t->tried.arrival[i];
        const double finish = start + system->complexity[v] / system->speed[d];
        set(t, d, t->tried.start + v, t->accepted.start + v, start);
        set(t, d, t->tried.finish + v, t->accepted.finish + v, finish);
        t->free_at[d] = finish;
        for (int64_t e = system->out_start[v]; e < system->out_start[v + 1]; e++) {
            const int32_t to = device[system->out_head[e]];
            const int64_t i = t->input_at[e];
            const double arrival = arrive(t, e, d, to, finish);
            if (isinf(arrival))
                return false;
            set(t, to, t->tried.arrival + i, t->accepted.arrival + i, arrival);
            if (t->reserved) /* it is held from its departure */
                t->changed[to] |= t->accepted.finish[v] < finish || finish < t->accepted.finish[v];
        }
    }
    return true;
}

/* Insert what a device takes, ascending by time. */
static void insert(struct taken *taken, int64_t count, struct taken next) {
    for (; count > 0 && taken[count - 1].time > next.time; count--)
        taken[count] = taken[count - 1];
    taken[count] = next;
}

/* List what device d takes and releases, ascending by time; return the number of tensors. */
static int64_t list_taken(struct ordered_times *t, int32_t d) {
    const struct shard_units *units = t->units;
    int64_t count = 0;
    struct released *released = t->released;
    for (int64_t at = t->first[d]; at < t->first[d + 1]; at++) {
        const int32_t v = t->order[at];
        const double end = (t->reserved ? t->tried.finish : t->tried.start)[v] * (1 - t->system->tolerance);
        struct released inputs = {end, 0, 0};
        for (int64_t i = units->in_start[v]; i < units->in_start[v + 1]; i++) {
            const double time = t->reserved ? t->tried.finish[units->in_tail[i]] : t->tried.arrival[i];
            if (units->in_size[i] <= 0 || time >= end)
                continue;
            insert(t->taken, count++, (struct taken){time, units->in_size[i], i});
            inputs.size += units->in_size[i];
            inputs.tensors++;
        }
        if (inputs.tensors > 0)
            *released++ = inputs;
    }
    return count;
}

/* Find the cost of device d, and the inputs that begin overfull times. */
static void measure(struct ordered_times *t, int32_t d) {
    const struct taken *taken = t->taken, *begun = taken;
    const struct released *released = t->released;
    const double memory = t->units->memory[d];
    double held = 0, cost = 0;
    int64_t *input = t->tried.input + t->tried.room[d], inputs = 0;
    const struct taken *end = taken + (isinf(memory) ? 0 : list_taken(t, d));
    for (int64_t tensors = 0; taken < end || tensors > 0;) {
        const double now =
            taken < end && (!tensors || taken->time < released->time) ? taken->time : released->time;
        for (begun = taken; taken < end && taken->time <= now; taken++, tensors++)
            held += taken->size;
        for (; tensors > 0 && released->time <= now; released++) {
            tensors -= released->tensors;
            held = tensors ? held - released->size : 0;
        }
        if (!tensors || held < memory)
            continue;
        const double next = taken < end && taken->time < released->time ? taken->time : released->time;
        cost +=
            (next - now) / t->mean_time * (OVERFULL + fmin(memory > 0 ? (held - memory) / memory : 1, 1e6));
        for (; begun < taken; begun++)
            input[inputs++] = begun->input;
    }
    t->tried.cost[d] = cost;
    t->tried.inputs[d] = inputs;
}

/* Take over from the accepted schedule what did not change at device d. */
static void keep(struct ordered_times *t, int32_t d) {
    t->tried.cost[d] = t->accepted.cost[d];
    t->tried.inputs[d] = t->accepted.inputs[d];
    memcpy(t->tried.input + t->tried.room[d], t->accepted.input + t->accepted.room[d],
           (size_t)t->accepted.inputs[d] * sizeof *t->tried.input);
}

double ordered_times_try(struct ordered_times *t, const int32_t *device, const int32_t *sequence, int32_t one,
                         int32_t two, double allowed, bool anew) {
    const int32_t k = t->system->devices;
    for (int32_t d = 0; d < k; d++)
        t->changed[d] = anew;
    group(t, device, sequence);
    if (!pass(t, device, sequence)) {
        memset(t->tried.inputs, 0, (size_t)k * sizeof *t->tried.inputs);
        return INFINITY;
    }
    t->changed[one] = t->changed[two] = true;
    double cost = 0;
    for (int32_t d = 0; d < k; d++) {
        if (t->changed[d])
            continue;
        keep(t, d);
        cost += t->tried.cost[d];
    }
    const int32_t first[] = {one, two};
    for (int32_t i = 0; i < k + 2 && cost <= allowed; i++) {
        const int32_t d = i < 2 ? first[i] : i - 2;
        if (!t->changed[d])
            continue;
        t->changed[d] = false;
        measure(t, d);
        cost += t->tried.cost[d];
    }
    return cost;
}

static void allocate_schedule(struct ordered_schedule *s, struct arena *arena,
                              const struct shard_system *system) {
    const int64_t m = system->out_start[system->nodes];
    ARENA_ZEROS(arena, system->nodes, s->start, s->finish);
    ARENA_ZEROS(arena, m, s->arrival, s->input);
    ARENA_ZEROS(arena, system->devices + 1, s->cost, s->room, s->inputs);
}

/* Number the inputs of each edge, and find the mean time of a vertex; `next` is scratch, the next input of each. */
static void describe(struct ordered_times *t, int64_t *next) {
    const struct shard_system *system = t->system;
    double speed = 0, operations = 0;
    for (int32_t v = 0; v < system->nodes; v++) {
        next[v] = t->units->in_start[v];
        operations += system->complexity[v] / system->nodes;
    }
    for (int64_t e = 0; e < system->out_start[system->nodes]; e++)
        t->input_at[e] = next[system->out_head[e]]++;
    for (int32_t d = 0; d < system->devices; d++)
        speed += system->speed[d] / system->devices;
    t->mean_time = operations > 0 ? operations / speed : 1;
}

void ordered_times_allocate(struct ordered_times *t, struct arena *arena, const struct shard_system *system,
                            const struct shard_units *units, bool reserved) {
    const int64_t n = system->nodes, m = system->out_start[n], k = system->devices;
    int64_t *next;
    *t = (struct ordered_times){.system = system, .units = units, .reserved = reserved};
    ARENA_ARRAYS(arena, n, t->order, t->released, next);
    ARENA_ARRAYS(arena, m, t->input_at, t->taken);
    ARENA_ARRAYS(arena, k + 1, t->free_at, t->first, t->changed);
    ARENA_ARRAYS(arena, system->links == SHARD_QUEUE ? k * k : 0, t->link_free);
    allocate_schedule(&t->accepted, arena, system);
    allocate_schedule(&t->tried, arena, system);
    if (!arena->failed)
        describe(t, next);
}
