/* A move is made, simulated, and undone if it is rejected. */
#include "scheduling/memory_moves.h"

#include "common/anneal.h"

/* The share of moves that begin at a tensor that overfills memory. */
static const double RELIEF_SHARE = 0.8;

/* The share of moves that shift a vertex within the sequence; the others change a device. */
static const double SHIFT_SHARE = 0.5;

/* The share of shifts past few vertices of the same device; the others go anywhere. */
static const double NEAR_SHARE = 0.5;

/* Vertices of the same device that a near shift passes at most. */
enum { NEAR = 6 };

/* The cost of overfull time beside what exceeds memory, as a share of memory. */
static const double OVERFULL = 0.1;

/* A change of the memory that a device holds. */
struct event {
    double time, change;
    int32_t device;
    int64_t input; /* its place in the order of `in_tail` */
};

struct search {
    struct arena arena;
    const struct shard_system *system;
    const struct shard_units *units;
    struct simulation *simulation;
    struct random random;
    bool reserved;
    double each; /* mean time of a vertex on a mean device */
    int32_t *device, *sequence;
    int32_t *place; /* of each vertex in the sequence */
    int32_t *order; /* vertices by device, as they run */
    int64_t *first; /* devices + 1 elements: the vertices of each device in `order` */
    double *start, *finish, *arrival;
    int32_t *began;   /* scratch: the vertices as they start */
    int64_t *edge_at; /* edges elements: by place of an input in `in_tail`, its place by tail */
    int64_t *member_start;
    int32_t *member;
    struct event *events;
    size_t *event_first, *event_count; /* devices elements: the part of `events` of each */
    int64_t *overfull, *next_overfull; /* inputs that overfill memory, accepted and in the last simulation */
    int64_t overfull_count, next_overfull_count;
};

/* A record to undo a move. */
struct change {
    int32_t unit, from;  /* the unit that moved and its device before; or -1 */
    int32_t now, before; /* places of the vertex that was shifted */
};

/* Add an event to those of its device, ascending by time. Most come in order. */
static void insert(struct event *first, size_t *count, struct event event) {
    size_t at = (*count)++;
    for (; at > 0 && first[at - 1].time > event.time; at--)
        first[at] = first[at - 1];
    first[at] = event;
}

/* Reserve a part of `events` for each device: two per input. */
static void divide_events(struct search *s) {
    memset(s->event_count, 0, (size_t)s->system->devices * sizeof *s->event_count);
    size_t next = 0;
    for (int32_t v = 0; v < s->system->nodes; v++)
        s->event_count[s->device[v]] += 2 * (size_t)(s->units->in_start[v + 1] - s->units->in_start[v]);
    for (int32_t d = 0; d < s->system->devices; d++) {
        s->event_first[d] = next;
        next += s->event_count[d];
        s->event_count[d] = 0;
    }
}

/* List the times at which devices with a limit begin and end to hold tensors, by device and ascending; return
 * the number of events. A tensor is released slightly early, so that rounding does not count it beside one that
 * arrives then. Vertices are visited as they start, so that most events come in order. */
static size_t list_events(struct search *s) {
    const struct shard_units *units = s->units;
    divide_events(s);
    for (int32_t at = 0; at < s->system->nodes; at++) {
        const int32_t v = s->began[at], d = s->device[v];
        for (int64_t i = units->in_start[v]; i < units->in_start[v + 1] && isfinite(units->memory[d]); i++) {
            const double begin = s->reserved ? s->finish[units->in_tail[i]] : s->arrival[s->edge_at[i]];
            const double released = s->reserved ? s->finish[v] : s->start[v];
            const double end = released * (1 - s->system->tolerance);
            if (units->in_size[i] <= 0 || begin >= end)
                continue;
            struct event *first = s->events + s->event_first[d];
            insert(first, s->event_count + d, (struct event){begin, units->in_size[i], d, i});
            insert(first, s->event_count + d, (struct event){end, -units->in_size[i], d, i});
        }
    }
    size_t count = 0;
    for (int32_t d = 0; d < s->system->devices; d++) {
        memmove(s->events + count, s->events + s->event_first[d], s->event_count[d] * sizeof *s->events);
        count += s->event_count[d];
    }
    return count;
}

/* The cost of the schedule that was simulated; the tensors that begin overfull times go to next_overfull. */
static double measure(struct search *s) {
    const size_t count = list_events(s);
    double cost = 0, held = 0;
    int64_t tensors = 0;
    size_t begun = 0; /* the first event of the same time */
    for (size_t i = 0; i < count; i++) {
        const struct event *event = s->events + i;
        tensors += event->change > 0 ? 1 : -1;
        held = tensors ? held + event->change : 0;
        if (i + 1 == count || event[1].device != event->device || event[1].time <= event->time)
            continue; /* after its last event a device holds nothing */
        const double memory = s->units->memory[event->device];
        while (s->events[begun].device != event->device || s->events[begun].time < event->time)
            begun++;
        if (!tensors || held < memory)
            continue;
        const double share = memory > 0 ? (held - memory) / memory : 1;
        cost += (event[1].time - event->time) / s->each * (OVERFULL + fmin(share, 1e6));
        for (size_t j = begun; j <= i; j++)
            if (s->events[j].change > 0)
                s->next_overfull[s->next_overfull_count++] = s->events[j].input;
    }
    return cost;
}

/* Group the sequence by device. */
static void list_order(struct search *s) {
    memset(s->first, 0, ((size_t)s->system->devices + 1) * sizeof *s->first);
    for (int32_t v = 0; v < s->system->nodes; v++)
        s->first[s->device[v] + 1]++;
    for (int32_t d = 0; d < s->system->devices; d++)
        s->first[d + 1] += s->first[d];
    for (int32_t i = 0; i < s->system->nodes; i++)
        s->order[s->first[s->device[s->sequence[i]]]++] = s->sequence[i];
}

/* Simulate the schedule and measure it; infinite if some vertices never run. */
static double simulate(struct search *s) {
    list_order(s);
    const struct shard_policy policy = {SHARD_IN_ORDER, s->order, NULL, NULL, {0}};
    int32_t ran = 0;
    s->next_overfull_count = 0;
    simulation_run(s->simulation, &policy, s->device, s->start, s->finish, s->arrival, s->began, &ran);
    return ran < s->system->nodes ? INFINITY : measure(s);
}

static void place_unit(struct search *s, int32_t unit, int32_t d) {
    for (int64_t i = s->member_start[unit]; i < s->member_start[unit + 1]; i++)
        s->device[s->member[i]] = d;
}

/* Move a vertex from one place of the sequence to another. */
static void shift(struct search *s, int32_t from, int32_t to) {
    const int32_t v = s->sequence[from], step = from < to ? 1 : -1;
    for (int32_t i = from; i != to; i += step) {
        s->sequence[i] = s->sequence[i + step];
        s->place[s->sequence[i]] = i;
    }
    s->sequence[to] = v;
    s->place[v] = to;
}

/* A device for a vertex: half the time that of a neighbour, else any other; -1 if none is found. */
static int32_t draw_device(struct search *s, int32_t v) {
    const struct shard_units *units = s->units;
    const struct device_set set = devices_of(s->system, units, units->unit[v]);
    const int64_t inputs = units->in_start[v + 1] - units->in_start[v];
    const int64_t outputs = s->system->out_start[v + 1] - s->system->out_start[v];
    if (!set.list && inputs + outputs > 0 && random_share(&s->random) < 0.5) {
        const int64_t at = random_below(&s->random, (int32_t)(inputs + outputs));
        const int32_t w = at < inputs ? units->in_tail[units->in_start[v] + at]
                                      : s->system->out_head[s->system->out_start[v] + at - inputs];
        if (s->device[w] != s->device[v])
            return s->device[w];
    }
    for (int tries = 0; tries < 4; tries++) {
        const int32_t d = device_at(set, random_below(&s->random, set.count));
        if (d != s->device[v])
            return d;
    }
    return -1;
}

/* Draw another place for a vertex, between what it reads and what reads it; its own if there is none. */
static int32_t draw_place(struct search *s, int32_t v) {
    const struct shard_units *units = s->units;
    int32_t low = 0, high = s->system->nodes - 1, to = s->place[v];
    for (int64_t i = units->in_start[v]; i < units->in_start[v + 1]; i++)
        if (s->place[units->in_tail[i]] >= low)
            low = s->place[units->in_tail[i]] + 1;
    for (int64_t e = s->system->out_start[v]; e < s->system->out_start[v + 1]; e++)
        if (s->place[s->system->out_head[e]] <= high)
            high = s->place[s->system->out_head[e]] - 1;
    if (random_share(&s->random) >= NEAR_SHARE)
        return low + random_below(&s->random, high - low + 1);
    const int32_t step = random_share(&s->random) < 0.5 ? 1 : -1;
    int32_t left = 1 + random_below(&s->random, NEAR);
    for (int32_t i = to + step; left > 0 && low <= i && i <= high; i += step)
        if (s->device[s->sequence[i]] == s->device[v]) {
            to = i;
            left--;
        }
    return to;
}

/* Make a move; false if none is found. */
static bool try_move(struct search *s, struct change *change) {
    int32_t v = random_below(&s->random, s->system->nodes);
    if (s->overfull_count > 0 && random_share(&s->random) < RELIEF_SHARE) {
        const int64_t input = s->overfull[random_below(&s->random, (int32_t)s->overfull_count)];
        v = random_share(&s->random) < 0.5 ? s->units->in_tail[input]
                                           : s->system->out_head[s->edge_at[input]];
    }
    *change = (struct change){-1, -1, s->place[v], s->place[v]};
    if (random_share(&s->random) < SHIFT_SHARE) {
        change->now = draw_place(s, v);
        if (change->now != change->before)
            shift(s, change->before, change->now);
        return change->now != change->before;
    }
    const int32_t d = draw_device(s, v);
    if (d < 0)
        return false;
    change->unit = s->units->unit[v];
    change->from = s->device[v];
    place_unit(s, change->unit, d);
    return true;
}

static void undo(struct search *s, const struct change *change) {
    if (change->unit >= 0)
        place_unit(s, change->unit, change->from);
    if (change->now != change->before)
        shift(s, change->now, change->before);
}

/* Note what overfills memory in an accepted schedule. */
static void accept(struct search *s) {
    int64_t *accepted = s->next_overfull;
    s->next_overfull = s->overfull;
    s->overfull = accepted;
    s->overfull_count = s->next_overfull_count;
}

static void prepare(struct search *s) {
    const int32_t n = s->system->nodes;
    int64_t *next = s->member_start; /* scratch: the next input of each vertex */
    memcpy(next, s->units->in_start, (size_t)n * sizeof *next);
    double speed = 0, operations = 0;
    for (int32_t v = 0; v < n; v++) {
        s->place[s->sequence[v]] = v;
        operations += s->system->complexity[v] / n;
        for (int64_t e = s->system->out_start[v]; e < s->system->out_start[v + 1]; e++)
            s->edge_at[next[s->system->out_head[e]]++] = e;
    }
    for (int32_t d = 0; d < s->system->devices; d++)
        speed += s->system->speed[d] / s->system->devices;
    s->each = operations > 0 ? operations / speed : 1;
    memset(s->member_start, 0, ((size_t)n + 2) * sizeof *s->member_start);
    list_members(n, s->units->unit, s->member_start, s->member);
}

/* Try moves; return the cost of the last accepted schedule. */
static double run(struct search *s, int64_t moves, double temperature) {
    double now = simulate(s);
    accept(s);
    struct change change;
    for (int64_t i = 0; i < moves && now > 0; i++) {
        if (!try_move(s, &change))
            continue;
        const double next = simulate(s);
        if (!anneal_accepts(&s->random, temperature, now, next)) {
            undo(s, &change);
            continue;
        }
        now = next;
        accept(s);
    }
    return now;
}

static int allocate(struct search *s) {
    struct arena *arena = &s->arena;
    const int64_t n = s->system->nodes, m = s->system->out_start[n], k = s->system->devices;
    s->simulation = simulation_new(arena, s->system);
    ARENA_ARRAYS(arena, n, s->start, s->finish, s->began, s->place, s->order, s->member);
    ARENA_ARRAYS(arena, m, s->arrival, s->edge_at, s->overfull, s->next_overfull);
    ARENA_ARRAYS(arena, k + 1, s->first, s->event_first, s->event_count);
    ARENA_ARRAYS(arena, n + 2, s->member_start);
    ARENA_ARRAYS(arena, 2 * m, s->events);
    return arena_status(arena);
}

int shard_memory_moves(const struct shard_system *system, const struct shard_units *units, int32_t reserved,
                       int64_t moves, double temperature, uint64_t *random, int32_t *device,
                       int32_t *sequence, double *excess) {
    struct search s = {.system = system, .units = units, .random = {*random}, .reserved = reserved};
    s.device = device;
    s.sequence = sequence;
    const int status = allocate(&s);
    if (status == SHARD_OK && system->nodes == 0)
        *excess = 0;
    if (status == SHARD_OK && system->nodes > 0) {
        prepare(&s);
        *excess = run(&s, moves, temperature);
        *random = s.random.state;
    }
    arena_free(&s.arena);
    return status;
}
