/* A move is made, simulated, and undone if it is rejected. */
#include "scheduling/memory_moves.h"

#include "common/anneal.h"
#include "scheduling/overfull.h"

/* The share of moves that begin at a tensor that overfills memory. */
static const double RELIEF_SHARE = 0.8;

/* The share of moves that shift a vertex within the sequence; the others change a device. */
static const double SHIFT_SHARE = 0.5;

/* The share of shifts past few vertices of the same device; the others go anywhere. */
static const double NEAR_SHARE = 0.5;

/* Vertices of the same device that a near shift passes at most. */
enum { NEAR = 6 };

/* The cost of overfull time, in addition to that of the excess, as a share of memory. */
static const double OVERFULL = 0.1;

struct search {
    struct arena arena;
    const struct shard_system *system;
    const struct shard_units *units;
    struct simulation *simulation;
    struct random random;
    double mean_time; /* of a vertex on a mean device */
    int32_t *device, *sequence;
    int32_t *place; /* of each vertex in the sequence */
    int32_t *order; /* vertices by device, as they run */
    int64_t *first; /* devices + 1 elements: the vertices of each device in `order` */
    double *start, *finish, *arrival;
    int32_t *began; /* scratch: the vertices as they start */
    int64_t *member_start;
    int32_t *member;
    struct overfull overfull; /* in the last simulation */
    int64_t *input;           /* inputs that overfill memory in the accepted schedule */
    int64_t inputs;
};

/* A record to undo a move. */
struct change {
    int32_t unit, from;  /* the unit that moved and its device before; or -1 */
    int32_t now, before; /* places of the vertex that was shifted */
};

static double measure(struct search *s) {
    overfull_measure(&s->overfull, s->device, s->began, s->start, s->finish, s->arrival);
    double cost = 0;
    for (size_t i = 0; i < s->overfull.times; i++) {
        const struct overfull_time *time = s->overfull.time + i;
        const double memory = s->units->memory[time->device];
        const double share = memory > 0 ? (time->held - memory) / memory : 1;
        cost += time->duration / s->mean_time * (OVERFULL + fmin(share, 1e6));
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
    s->overfull.inputs = 0;
    simulation_run(s->simulation, &policy, s->device, s->start, s->finish, s->arrival, s->began, &ran);
    return ran < s->system->nodes ? INFINITY : measure(s);
}

static void place_unit(struct search *s, int32_t unit, int32_t d) {
    for (int64_t i = s->member_start[unit]; i < s->member_start[unit + 1]; i++)
        s->device[s->member[i]] = d;
}

/* Move a vertex from one place of the sequence to another; false if it passes none of its device. */
static bool shift(struct search *s, int32_t from, int32_t to) {
    const int32_t v = s->sequence[from], step = from < to ? 1 : -1;
    bool passes = false;
    for (int32_t i = from; i != to; i += step) {
        const int32_t w = s->sequence[i + step];
        passes = passes || s->device[w] == s->device[v];
        s->sequence[i] = w;
        s->place[w] = i;
    }
    s->sequence[to] = v;
    s->place[v] = to;
    return passes;
}

/* Draw another device for a vertex, half of the time a neighbour's if it may use all; -1 if none is found. */
static int32_t draw_device(struct search *s, int32_t v) {
    const struct device_set set = devices_of(s->system, s->units, s->units->unit[v]);
    if (!set.list && degree(s->system, s->units, v) > 0 && random_share(&s->random) < 0.5) {
        const int32_t w = draw_neighbour(&s->random, s->system, s->units, v);
        if (s->device[w] != s->device[v])
            return s->device[w];
    }
    return draw_other_device(&s->random, set, s->device[v]);
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

/* The maker or the reader of a tensor that overfills memory, or any vertex. */
static int32_t draw_vertex(struct search *s) {
    if (s->inputs == 0 || random_share(&s->random) >= RELIEF_SHARE)
        return random_below(&s->random, s->system->nodes);
    const int64_t input = s->input[random_below(&s->random, (int32_t)s->inputs)];
    return random_share(&s->random) < 0.5 ? s->units->in_tail[input]
                                          : s->system->out_head[s->overfull.edge_at[input]];
}

/* Make a move; false if it changes nothing that runs. */
static bool try_move(struct search *s, struct change *change) {
    const int32_t v = draw_vertex(s);
    *change = (struct change){-1, -1, s->place[v], s->place[v]};
    if (random_share(&s->random) < SHIFT_SHARE) {
        change->now = draw_place(s, v);
        return shift(s, change->before, change->now);
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

/* Record the inputs that overfill memory in an accepted schedule. */
static void accept(struct search *s) {
    int64_t *accepted = s->overfull.input;
    s->overfull.input = s->input;
    s->input = accepted;
    s->inputs = s->overfull.inputs;
}

static void prepare(struct search *s) {
    const int32_t n = s->system->nodes;
    double speed = 0, operations = 0;
    for (int32_t v = 0; v < n; v++) {
        s->place[s->sequence[v]] = v;
        operations += s->system->complexity[v] / n;
    }
    for (int32_t d = 0; d < s->system->devices; d++)
        speed += s->system->speed[d] / s->system->devices;
    s->mean_time = operations > 0 ? operations / speed : 1;
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

static int allocate(struct search *s, bool reserved) {
    struct arena *arena = &s->arena;
    const int64_t n = s->system->nodes, m = s->system->out_start[n], k = s->system->devices;
    s->simulation = simulation_new(arena, s->system);
    overfull_allocate(&s->overfull, arena, s->system, s->units, reserved);
    ARENA_ARRAYS(arena, n, s->start, s->finish, s->began, s->place, s->order, s->member);
    ARENA_ARRAYS(arena, m, s->arrival, s->input);
    ARENA_ARRAYS(arena, k + 1, s->first);
    ARENA_ZEROS(arena, n + 2, s->member_start);
    return arena_status(arena);
}

int shard_memory_moves(const struct shard_system *system, const struct shard_units *units, int32_t reserved,
                       int64_t moves, double temperature, uint64_t *random, int32_t *device,
                       int32_t *sequence, double *excess) {
    struct search s = {.system = system, .units = units, .random = {*random}};
    s.device = device;
    s.sequence = sequence;
    const int status = allocate(&s, reserved);
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
