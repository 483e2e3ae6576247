/* A move is made, simulated, and undone if it is rejected. */
#include "scheduling/simulated_moves.h"

#include "common/anneal.h"
#include "scheduling/overfull.h"

/* The share of moves that begin at an overfull device, if there is one. */
static const double RELIEF_SHARE = 0.5;

struct search {
    struct arena arena;
    const struct shard_system *system;
    const struct shard_units *units;
    struct simulation *simulation;
    struct random random;
    int32_t *device;
    double *priority;
    double penalty, makespan, time_overfull;
    double *start, *finish, *arrival;
    int32_t *sequence, *rank;
    int32_t *before;         /* nodes elements: the vertex that ran just before on the same device, or -1 */
    int32_t *last;           /* devices elements: scratch of find_critical */
    int32_t *critical;       /* vertices whose delay would delay the makespan */
    int32_t *predecessor_on; /* critical vertices: the one before on the device if waited for, or -1 */
    int32_t critical_count;
    int64_t *member_start;
    int32_t *member;
    struct overfull overfull; /* in the last simulation */
    int64_t *input;           /* inputs that overfill devices in the accepted schedule */
    int64_t inputs;
};

/* A record to undo a move. */
struct change {
    int32_t unit; /* -1: the priorities of a and b are swapped */
    int32_t from, a, b;
};

/* The time for which devices hold too much, counted up to twice if they hold far too much. */
static double measure(struct search *s) {
    overfull_measure(&s->overfull, s->device, s->sequence, s->start, s->finish, s->arrival);
    double sum = 0;
    for (size_t i = 0; i < s->overfull.times; i++) {
        const struct overfull_time *time = s->overfull.time + i;
        const double memory = s->units->memory[time->device];
        sum += time->duration * (time->held > memory ? 2 - memory / time->held : 1);
    }
    return sum;
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
    s->time_overfull = measure(s);
    return true;
}

/* The input that a vertex waited for until its start, or -1. */
static int32_t awaited_input(const struct search *s, int32_t v) {
    for (int64_t i = s->units->in_start[v]; i < s->units->in_start[v + 1]; i++)
        if (s->arrival[s->overfull.edge_at[i]] >= s->start[v])
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
        const int32_t input = awaited_input(s, v);
        s->predecessor_on[s->critical_count] = input >= 0 ? -1 : s->before[v];
        s->critical[s->critical_count++] = v;
        v = input >= 0 ? input : s->before[v];
    }
}

/* Draw another device for a vertex, half of the time a neighbour's if it may use all; -1 if none is found. */
static int32_t draw_device(struct search *s, int32_t v) {
    const struct device_set set = devices_of(s->system, s->units, s->units->unit[v]);
    if (random_share(&s->random) < 0.5 && !set.list && degree(s->system, s->units, v) > 0) {
        const int32_t w = draw_neighbour(&s->random, s->system, s->units, v);
        if (s->device[w] != s->device[v])
            return s->device[w];
    }
    return draw_other_device(&s->random, set, s->device[v]);
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
    const int32_t unit = s->units->unit[v], d = draw_device(s, v);
    if (d < 0)
        return false;
    *change = (struct change){unit, s->device[v], -1, -1};
    place_unit(s, unit, d);
    return true;
}

/* Move the maker or reader of a tensor that overfills a device, or swap its priority; false if neither can. */
static bool relieve_memory(struct search *s, struct change *change) {
    const int64_t input = s->input[random_below(&s->random, (int32_t)s->inputs)];
    const int32_t v = random_share(&s->random) < 0.5 ? s->units->in_tail[input]
                                                     : s->system->out_head[s->overfull.edge_at[input]];
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
    if (s->inputs > 0 && random_share(&s->random) < RELIEF_SHARE)
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

/* Record the critical vertices and overfull inputs of an accepted schedule, and keep it if it is the best. */
static void keep_critical(struct search *s, int32_t *best_device, double *best_priority,
                          double *best_makespan) {
    find_critical(s);
    s->inputs = s->overfull.inputs;
    memcpy(s->input, s->overfull.input, (size_t)s->inputs * sizeof *s->input);
    if (s->time_overfull > 0 || !(s->makespan < *best_makespan))
        return;
    *best_makespan = s->makespan;
    memcpy(best_device, s->device, (size_t)s->system->nodes * sizeof *best_device);
    memcpy(best_priority, s->priority, (size_t)s->system->nodes * sizeof *best_priority);
}

static void prepare(struct search *s) {
    const int32_t n = s->system->nodes;
    for (int32_t v = 0; v < n; v++)
        s->rank[v] = v;
    list_members(n, s->units->unit, s->member_start, s->member);
}

static double cost(struct search *s) {
    return simulate(s) ? s->makespan + s->penalty * s->time_overfull : INFINITY;
}

/* Try moves; return the overfull time of the last accepted schedule. */
static double run(struct search *s, int64_t moves, double temperature, int32_t *best_device,
                  double *best_priority, double *best_makespan) {
    double now = cost(s), overfull = s->time_overfull;
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
        overfull = s->time_overfull;
        if (isfinite(now))
            keep_critical(s, best_device, best_priority, best_makespan);
    }
    return overfull;
}

static int allocate(struct search *s, bool reserved) {
    struct arena *arena = &s->arena;
    const int64_t n = s->system->nodes, m = s->system->out_start[n];
    s->simulation = simulation_new(arena, s->system);
    ARENA_ARRAYS(arena, n, s->start, s->finish, s->sequence, s->rank, s->before, s->critical,
                 s->predecessor_on, s->member);
    overfull_allocate(&s->overfull, arena, s->system, s->units, reserved);
    ARENA_ARRAYS(arena, m, s->arrival, s->input);
    ARENA_ARRAYS(arena, s->system->devices, s->last);
    ARENA_ZEROS(arena, n + 2, s->member_start);
    return arena_status(arena);
}

int shard_simulated_moves(const struct shard_system *system, const struct shard_units *units,
                          int32_t reserved, int64_t moves, double temperature, double penalty,
                          uint64_t *random, int32_t *device, double *priority, double *overfull,
                          int32_t *best_device, double *best_priority, double *best_makespan) {
    struct search s = {.system = system, .units = units, .random = {*random}, .device = device};
    s.priority = priority;
    s.penalty = penalty;
    const int status = allocate(&s, reserved);
    if (status == SHARD_OK && system->nodes > 0) {
        prepare(&s);
        *overfull = run(&s, moves, temperature, best_device, best_priority, best_makespan);
        *random = s.random.state;
    }
    arena_free(&s.arena);
    return status;
}
