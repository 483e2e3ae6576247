/* A move is made, simulated, and undone if it is rejected. */
#include "scheduling/simulated_moves.h"

#include "common/anneal.h"

/* The share of moves that begin at an overfull device, if there is one. */
static const double RELIEF_SHARE = 0.5;

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
    int32_t *device;
    double *priority;
    bool reserved;
    double penalty, makespan, overfull;
    double *start, *finish, *arrival;
    int32_t *sequence, *rank;
    int32_t *before;         /* nodes elements: the vertex that ran just before on the same device, or -1 */
    int32_t *last;           /* devices elements: scratch of find_critical */
    int32_t *critical;       /* vertices whose delay would delay the makespan */
    int32_t *predecessor_on; /* critical vertices: the one before on the device if waited for, or -1 */
    int32_t critical_count;
    int64_t *edge_at; /* edges elements: by place of an input in `in_tail`, its place by tail */
    int64_t *member_start;
    int32_t *member;
    struct event *events;
    int64_t *overfull_inputs; /* inputs that overfill devices in the accepted schedule */
    int64_t *next_overfull;   /* the same in the last simulation */
    int32_t overfull_count, next_overfull_count;
};

/* A record to undo a move. */
struct change {
    int32_t unit; /* -1: the priorities of a and b are swapped */
    int32_t from, a, b;
};

static int by_device_and_time(const void *a, const void *b) {
    const struct event *first = a, *second = b;
    if (first->device != second->device)
        return (first->device > second->device) - (first->device < second->device);
    return (first->time > second->time) - (first->time < second->time);
}

/* List the times at which devices with a limit begin and end to hold tensors; return the number of events. A
 * tensor is released slightly early, so that rounding does not count it beside one that arrives then. */
static size_t list_events(struct search *s) {
    const struct shard_units *units = s->units;
    size_t count = 0;
    for (int32_t v = 0; v < s->system->nodes; v++) {
        const int32_t d = s->device[v];
        for (int64_t i = units->in_start[v]; i < units->in_start[v + 1] && isfinite(units->memory[d]); i++) {
            const double begin = s->reserved ? s->finish[units->in_tail[i]] : s->arrival[s->edge_at[i]];
            const double released = s->reserved ? s->finish[v] : s->start[v];
            const double end = released * (1 - s->system->tolerance);
            if (units->in_size[i] <= 0 || begin >= end)
                continue;
            s->events[count++] = (struct event){begin, units->in_size[i], d, i};
            s->events[count++] = (struct event){end, -units->in_size[i], d, i};
        }
    }
    qsort(s->events, count, sizeof *s->events, by_device_and_time);
    return count;
}

/* The time for which devices hold too much, counted up to twice if they hold far too much; the tensors that
 * arrived then go to next_overfull. Until a sum exceeds the limit, its error is a small share of the limit,
 * as a tensor that fits no device counts as overfull: only rounding at the limit can mislead. */
static double time_overfull(struct search *s) {
    const size_t count = list_events(s);
    double overfull = 0, held = 0;
    int64_t tensors = 0;
    size_t begun = 0; /* the first event of the same time */
    s->next_overfull_count = 0;
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
        overfull += (event[1].time - event->time) * (held > memory ? 2 - memory / held : 1);
        for (size_t j = begun; j <= i; j++)
            if (s->events[j].change > 0)
                s->next_overfull[s->next_overfull_count++] = s->events[j].input;
    }
    return overfull;
}

/* Simulate the schedule; false if some vertices never run. */
static bool simulate(struct search *s) {
    const struct shard_policy policy = {SHARD_BY_PRIORITY, s->rank, s->priority, s->rank, {0}};
    int32_t ran = 0;
    simulation_run(s->simulation, &policy, s->device, s->start, s->finish, s->arrival, s->sequence, &ran);
    if (ran < s->system->nodes)
        return false;
    s->makespan = 0;
    for (int32_t v = 0; v < ran; v++)
        if (s->finish[v] > s->makespan)
            s->makespan = s->finish[v];
    s->overfull = time_overfull(s);
    return true;
}

/* The input that a vertex waited for until its start, or -1. */
static int32_t awaited(const struct search *s, int32_t v) {
    for (int64_t i = s->units->in_start[v]; i < s->units->in_start[v + 1]; i++)
        if (s->arrival[s->edge_at[i]] >= s->start[v])
            return s->units->in_tail[i];
    return -1;
}

/* Follow what each vertex waited for, from the last vertex back to the first. */
static void find_critical(struct search *s) {
    const int32_t n = s->system->nodes;
    memset(s->last, -1, (size_t)s->system->devices * sizeof *s->last);
    int32_t v = -1;
    for (int32_t i = 0; i < n; i++) {
        const int32_t w = s->sequence[i];
        s->before[w] = s->last[s->device[w]];
        s->last[s->device[w]] = w;
        if (v < 0 || s->finish[w] > s->finish[v])
            v = w;
    }
    s->critical_count = 0;
    while (v >= 0 && s->critical_count < n) {
        const int32_t input = awaited(s, v);
        s->predecessor_on[s->critical_count] = input >= 0 ? -1 : s->before[v];
        s->critical[s->critical_count++] = v;
        v = input >= 0 ? input : s->before[v];
    }
}

/* Draw a device other than `from` that a unit may use; -1 if four draws find none. */
static int32_t other_device(struct search *s, int32_t unit, int32_t from) {
    const struct device_set set = devices_of(s->system, s->units, unit);
    for (int tries = 0; tries < 4; tries++) {
        const int32_t d = device_at(set, random_below(&s->random, set.count));
        if (d != from)
            return d;
    }
    return -1;
}

/* Draw a neighbour's device if the unit of v may use all, else another device; -1 if there is none. */
static int32_t near_device(struct search *s, int32_t v, int32_t unit, int32_t from) {
    const struct shard_units *units = s->units;
    const int64_t inputs = units->in_start[v + 1] - units->in_start[v];
    const int64_t outputs = s->system->out_start[v + 1] - s->system->out_start[v];
    if (units->choice[unit] >= 0 || inputs + outputs == 0)
        return other_device(s, unit, from);
    const int64_t at = random_below(&s->random, (int32_t)(inputs + outputs));
    const int32_t w = at < inputs ? units->in_tail[units->in_start[v] + at]
                                  : s->system->out_head[s->system->out_start[v] + at - inputs];
    return s->device[w] != from ? s->device[w] : other_device(s, unit, from);
}

static void place_unit(struct search *s, int32_t unit, int32_t d) {
    for (int64_t i = s->member_start[unit]; i < s->member_start[unit + 1]; i++)
        s->device[s->member[i]] = d;
}

static void swap_priorities(struct search *s, int32_t a, int32_t b) {
    const double priority = s->priority[a];
    s->priority[a] = s->priority[b];
    s->priority[b] = priority;
}

/* Move the unit of a vertex to another device; false if none is found. */
static bool move_unit(struct search *s, int32_t v, struct change *change) {
    const int32_t unit = s->units->unit[v], from = s->device[v];
    const int32_t d =
        random_share(&s->random) < 0.5 ? near_device(s, v, unit, from) : other_device(s, unit, from);
    if (d < 0)
        return false;
    *change = (struct change){unit, from, -1, -1};
    place_unit(s, unit, d);
    return true;
}

/* Move the maker or reader of a tensor that overfills a device, or swap its priority; false if neither can. */
static bool relieve_memory(struct search *s, struct change *change) {
    const int64_t input = s->overfull_inputs[random_below(&s->random, s->overfull_count)];
    const int32_t v =
        random_share(&s->random) < 0.5 ? s->units->in_tail[input] : s->system->out_head[s->edge_at[input]];
    if (random_share(&s->random) < 0.5)
        return move_unit(s, v, change);
    for (int tries = 0; tries < 8; tries++) {
        const int32_t w = random_below(&s->random, s->system->nodes);
        if (w == v || s->device[w] != s->device[v])
            continue;
        *change = (struct change){-1, -1, v, w};
        swap_priorities(s, v, w);
        return true;
    }
    return false;
}

/* Make a move; false if none is found. */
static bool try_move(struct search *s, struct change *change) {
    if (s->overfull_count > 0 && random_share(&s->random) < RELIEF_SHARE)
        return relieve_memory(s, change);
    if (s->critical_count == 0) /* nothing has run to its end yet */
        return move_unit(s, random_below(&s->random, s->system->nodes), change);
    const int32_t at = random_below(&s->random, s->critical_count), v = s->critical[at];
    const int32_t before = s->predecessor_on[at];
    if (before < 0 || random_share(&s->random) >= 0.5)
        return move_unit(s, v, change);
    *change = (struct change){-1, -1, v, before};
    swap_priorities(s, v, before);
    return true;
}

static void undo(struct search *s, const struct change *change) {
    if (change->unit < 0)
        swap_priorities(s, change->a, change->b);
    else
        place_unit(s, change->unit, change->from);
}

/* Note what is critical and overfull in an accepted schedule, and keep it if it is the best. */
static void keep_critical(struct search *s, int32_t *best_device, double *best_priority,
                          double *best_makespan) {
    find_critical(s);
    s->overfull_count = s->next_overfull_count;
    memcpy(s->overfull_inputs, s->next_overfull, (size_t)s->next_overfull_count * sizeof *s->overfull_inputs);
    if (s->overfull > 0 || !(s->makespan < *best_makespan))
        return;
    *best_makespan = s->makespan;
    memcpy(best_device, s->device, (size_t)s->system->nodes * sizeof *best_device);
    memcpy(best_priority, s->priority, (size_t)s->system->nodes * sizeof *best_priority);
}

static void prepare(struct search *s) {
    const int32_t n = s->system->nodes;
    int64_t *next = s->member_start; /* scratch: the next input of each vertex */
    memcpy(next, s->units->in_start, (size_t)n * sizeof *next);
    for (int32_t v = 0; v < n; v++) {
        s->rank[v] = v;
        for (int64_t e = s->system->out_start[v]; e < s->system->out_start[v + 1]; e++)
            s->edge_at[next[s->system->out_head[e]]++] = e;
    }
    memset(s->member_start, 0, ((size_t)n + 2) * sizeof *s->member_start);
    list_members(n, s->units->unit, s->member_start, s->member);
}

static double cost(struct search *s) {
    return simulate(s) ? s->makespan + s->penalty * s->overfull : INFINITY;
}

/* Try moves; return the overfull time of the last accepted schedule. */
static double run(struct search *s, int64_t moves, double temperature, int32_t *best_device,
                  double *best_priority, double *best_makespan) {
    double now = cost(s), overfull = s->overfull;
    if (isfinite(now))
        keep_critical(s, best_device, best_priority, best_makespan);
    struct change change;
    for (int64_t i = 0; i < moves; i++) {
        if (!try_move(s, &change))
            continue;
        const double next = cost(s);
        if (!anneal_accepts(&s->random, temperature, now, next)) {
            undo(s, &change);
            continue;
        }
        now = next;
        overfull = s->overfull;
        if (isfinite(now))
            keep_critical(s, best_device, best_priority, best_makespan);
    }
    return overfull;
}

static int allocate(struct search *s) {
    struct arena *arena = &s->arena;
    const int64_t n = s->system->nodes, m = s->system->out_start[n];
    s->simulation = simulation_new(arena, s->system);
    ARENA_ARRAYS(arena, n, s->start, s->finish, s->sequence, s->rank, s->before, s->critical,
                 s->predecessor_on, s->member);
    ARENA_ARRAYS(arena, m, s->arrival, s->edge_at, s->overfull_inputs, s->next_overfull);
    ARENA_ARRAYS(arena, s->system->devices, s->last);
    ARENA_ARRAYS(arena, n + 2, s->member_start);
    ARENA_ARRAYS(arena, 2 * m, s->events);
    return arena_status(arena);
}

int shard_simulated_moves(const struct shard_system *system, const struct shard_units *units,
                          int32_t reserved, int64_t moves, double temperature, double penalty,
                          uint64_t *random, int32_t *device, double *priority, double *overfull,
                          int32_t *best_device, double *best_priority, double *best_makespan) {
    struct search s = {.system = system, .units = units, .random = {*random}, .device = device};
    s.priority = priority;
    s.reserved = reserved;
    s.penalty = penalty;
    const int status = allocate(&s);
    if (status == SHARD_OK && system->nodes > 0) {
        prepare(&s);
        *overfull = run(&s, moves, temperature, best_device, best_priority, best_makespan);
        *random = s.random.state;
    }
    arena_free(&s.arena);
    return status;
}
