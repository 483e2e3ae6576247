/* A move is made, simulated, and undone if it is rejected. */
#include "scheduling/memory_moves.h"

#include "common/anneal.h"
#include "scheduling/overfull.h"

/* The share of moves that begin at a tensor that overfills memory. */
static const double RELIEF_SHARE = 0.8;

/* The share of moves that shift a vertex within the sequence; the others change a device. */
static const double SHIFT_SHARE = 0.5;

/* The share of shifts past vertices that have to move along; the others stay between them. */
static const double FAR_SHARE = 0.3;

/* The share of the other shifts past few vertices of the same device; the rest go anywhere. */
static const double NEAR_SHARE = 0.5;

/* Vertices of the same device that a near shift passes at most. */
enum { NEAR = 6 };

/* The share of changes of a device that a neighbour follows. */
static const double PAIR_SHARE = 0.3;

/* The cost of overfull time beside what exceeds memory, as a share of memory. */
static const double OVERFULL = 0.1;

struct search {
    struct arena arena;
    const struct shard_system *system;
    const struct shard_units *units;
    struct simulation *simulation;
    struct random random;
    double each; /* mean time of a vertex on a mean device */
    int32_t *device, *sequence;
    int32_t *place; /* of each vertex in the sequence */
    int32_t *saved; /* the sequence before the last shift, where it changed */
    int32_t *order; /* vertices by device, as they run */
    int64_t *first; /* devices + 1 elements: the vertices of each device in `order` */
    double *start, *finish, *arrival;
    int32_t *began;  /* scratch: the vertices as they start, or those that a shift moves */
    bool *moves;     /* those that a shift moves */
    bool *concerned; /* devices of these */
    int64_t *member_start;
    int32_t *member;
    struct overfull overfull; /* in the last simulation */
    int64_t *input;           /* inputs that overfill memory in the accepted schedule */
    int64_t inputs;
};

/* A record to undo a move. */
struct change {
    int32_t unit[2], from[2]; /* the units that moved and their devices before; or -1 */
    int32_t low, high;        /* the part of the sequence that changed; none if low > high */
};

static double measure(struct search *s) {
    overfull_measure(&s->overfull, s->device, s->began, s->start, s->finish, s->arrival);
    double cost = 0;
    for (size_t i = 0; i < s->overfull.times; i++) {
        const struct overfull_time *time = s->overfull.time + i;
        const double memory = s->units->memory[time->device];
        const double share = memory > 0 ? (time->held - memory) / memory : 1;
        cost += time->duration / s->each * (OVERFULL + fmin(share, 1e6));
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

/* True if a vertex reads one that moves, if `back`, or else is read by one. */
static bool must_follow(const struct search *s, int32_t v, bool back) {
    const int64_t *start = back ? s->units->in_start : s->system->out_start;
    const int32_t *neighbour = back ? s->units->in_tail : s->system->out_head;
    for (int64_t i = start[v]; i < start[v + 1]; i++)
        if (s->moves[neighbour[i]])
            return true;
    return false;
}

static void take_along(struct search *s, int32_t v, int32_t *count) {
    s->moves[v] = s->concerned[s->device[v]] = true;
    s->began[(*count)++] = v;
}

/* Move a vertex from one place of the sequence to another, with all between that it must not pass. Return true if the
 * order of some device changes. */
static bool shift(struct search *s, int32_t from, int32_t to) {
    const int32_t step = from < to ? 1 : -1, low = from < to ? from : to, high = from < to ? to : from;
    int32_t next = from, count = 0;
    bool changes = false;
    memcpy(s->saved + low, s->sequence + low, (size_t)(high - low + 1) * sizeof *s->saved);
    take_along(s, s->sequence[from], &count);
    for (int32_t i = from + step; i != to + step; i += step) {
        const int32_t v = s->sequence[i];
        if (must_follow(s, v, step > 0)) {
            take_along(s, v, &count);
            continue;
        }
        changes = changes || s->concerned[s->device[v]];
        s->sequence[next] = v;
        next += step;
    }
    for (int32_t i = 0; i < count; i++) {
        s->sequence[next + step * i] = s->began[i];
        s->moves[s->began[i]] = s->concerned[s->device[s->began[i]]] = false;
    }
    for (int32_t i = low; i <= high; i++)
        s->place[s->sequence[i]] = i;
    return changes;
}

/* A vertex that makes or reads a tensor of another; -1 if there is none. */
static int32_t draw_neighbour(struct search *s, int32_t v) {
    const struct shard_units *units = s->units;
    const int64_t inputs = units->in_start[v + 1] - units->in_start[v];
    const int64_t outputs = s->system->out_start[v + 1] - s->system->out_start[v];
    if (inputs + outputs == 0)
        return -1;
    const int64_t at = random_below(&s->random, (int32_t)(inputs + outputs));
    return at < inputs ? units->in_tail[units->in_start[v] + at]
                       : s->system->out_head[s->system->out_start[v] + at - inputs];
}

static bool may_use(const struct search *s, int32_t v, int32_t d) {
    const struct device_set set = devices_of(s->system, s->units, s->units->unit[v]);
    bool found = !set.list;
    for (int32_t i = 0; i < set.count && !found; i++)
        found = set.list[i] == d;
    return found;
}

/* A device for a vertex: half the time that of a neighbour, else any other; -1 if none is found. */
static int32_t draw_device(struct search *s, int32_t v) {
    const struct device_set set = devices_of(s->system, s->units, s->units->unit[v]);
    const int32_t w = !set.list && random_share(&s->random) < 0.5 ? draw_neighbour(s, v) : -1;
    if (w >= 0 && s->device[w] != s->device[v])
        return s->device[w];
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

/* Draw a place for a vertex, whatever it reads and what reads it; far ones are rarer. */
static int32_t draw_far_place(struct search *s, int32_t v) {
    const int32_t n = s->system->nodes, far = (int32_t)pow(n, random_share(&s->random));
    const int32_t to = s->place[v] + (random_share(&s->random) < 0.5 ? far : -far);
    return to < 0 ? 0 : to >= n ? n - 1 : to;
}

/* The maker or the reader of a tensor that overfills memory, or any vertex. */
static int32_t draw_vertex(struct search *s) {
    if (s->inputs == 0 || random_share(&s->random) >= RELIEF_SHARE)
        return random_below(&s->random, s->system->nodes);
    const int64_t input = s->input[random_below(&s->random, (int32_t)s->inputs)];
    return random_share(&s->random) < 0.5 ? s->units->in_tail[input]
                                          : s->system->out_head[s->overfull.edge_at[input]];
}

/* Shift a vertex; false if no device runs anything in another order. */
static bool try_shift(struct search *s, int32_t v, struct change *change) {
    const int32_t from = s->place[v];
    const int32_t to = random_share(&s->random) < FAR_SHARE ? draw_far_place(s, v) : draw_place(s, v);
    if (to == from)
        return false;
    change->low = from < to ? from : to;
    change->high = from < to ? to : from;
    return shift(s, from, to);
}

static void move_unit(struct search *s, int32_t v, int32_t d, struct change *change, int which) {
    change->unit[which] = s->units->unit[v];
    change->from[which] = s->device[v];
    place_unit(s, change->unit[which], d);
}

/* Make a move; false if it changes nothing that runs. */
static bool try_move(struct search *s, struct change *change) {
    const int32_t v = draw_vertex(s);
    *change = (struct change){{-1, -1}, {-1, -1}, 1, 0};
    if (random_share(&s->random) < SHIFT_SHARE)
        return try_shift(s, v, change);
    const int32_t d = draw_device(s, v);
    if (d < 0)
        return false;
    move_unit(s, v, d, change, 0);
    const int32_t w = random_share(&s->random) < PAIR_SHARE ? draw_neighbour(s, v) : -1;
    if (w >= 0 && s->device[w] != d && may_use(s, w, d))
        move_unit(s, w, d, change, 1);
    return true;
}

static void undo(struct search *s, const struct change *change) {
    for (int i = 0; i < 2; i++)
        if (change->unit[i] >= 0)
            place_unit(s, change->unit[i], change->from[i]);
    for (int32_t i = change->low; i <= change->high; i++) {
        s->sequence[i] = s->saved[i];
        s->place[s->sequence[i]] = i;
    }
}

/* Note what overfills memory in an accepted schedule. */
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
    s->each = operations > 0 ? operations / speed : 1;
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
    ARENA_ARRAYS(arena, n, s->start, s->finish, s->began, s->place, s->saved, s->order, s->member);
    ARENA_ARRAYS(arena, m, s->arrival, s->input);
    ARENA_ARRAYS(arena, k + 1, s->first);
    ARENA_ZEROS(arena, n, s->moves);
    ARENA_ZEROS(arena, k, s->concerned);
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
