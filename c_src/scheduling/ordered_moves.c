/* A move is made, its times are found, and it is undone if it is rejected. */
#include "scheduling/ordered_moves.h"

#include "common/anneal.h"
#include "scheduling/ordered_times.h"

/* The share of moves that begin at a tensor that overfills memory. */
static const double RELIEF_SHARE = 0.8;

/* The shares of moves that shift a vertex, and that give a unit another device; the rest do both. */
static const double SHIFT_SHARE = 0.45, DEVICE_SHARE = 0.45;

/* The share of shifts past few vertices of the same device; the others go anywhere. */
static const double NEAR_SHARE = 0.5;

/* Vertices of the same device that a near shift passes at most. */
enum { NEAR = 6 };

struct search {
    struct arena arena;
    const struct shard_system *system;
    const struct shard_units *units;
    struct random random;
    int32_t *device, *sequence;
    int32_t *place; /* of each vertex in the sequence */
    int64_t *member_start;
    int32_t *member;
    int32_t *reader; /* of each input */
    struct ordered_times times;
};

/* A move: what it changes, and how it was before. */
struct move {
    int32_t vertex, device, place;
    int32_t old_device, old_place;
};

/* Move a vertex to a place of the sequence. */
static void shift(struct search *s, int32_t v, int32_t to) {
    const int32_t from = s->place[v], step = from < to ? 1 : -1;
    for (int32_t i = from; i != to; i += step) {
        s->sequence[i] = s->sequence[i + step];
        s->place[s->sequence[i]] = i;
    }
    s->sequence[to] = v;
    s->place[v] = to;
}

static void make(struct search *s, int32_t v, int32_t d, int32_t place) {
    const int32_t unit = s->units->unit[v];
    for (int64_t i = s->member_start[unit]; i < s->member_start[unit + 1]; i++)
        s->device[s->member[i]] = d;
    shift(s, v, place);
}

/* The maker or the reader of a tensor that overfills memory, or any vertex. */
static int32_t draw_vertex(struct search *s) {
    const struct ordered_schedule *now = &s->times.accepted;
    int64_t inputs = 0;
    for (int32_t d = 0; d < s->system->devices; d++)
        inputs += now->inputs[d];
    if (inputs == 0 || random_share(&s->random) >= RELIEF_SHARE)
        return random_below(&s->random, s->system->nodes);
    int64_t at = random_below(&s->random, (int32_t)inputs);
    int32_t d = 0;
    for (; at >= now->inputs[d]; d++)
        at -= now->inputs[d];
    const int64_t input = now->input[now->room[d] + at];
    return random_share(&s->random) < 0.5 ? s->units->in_tail[input] : s->reader[input];
}

/* Draw another device for a vertex, half of the time a neighbour's if it may use all; its own if none is found. */
static int32_t draw_device(struct search *s, int32_t v) {
    const struct device_set set = devices_of(s->system, s->units, s->units->unit[v]);
    if (!set.list && degree(s->system, s->units, v) > 0 && random_share(&s->random) < 0.5) {
        const int32_t w = draw_neighbour(&s->random, s->system, s->units, v);
        if (s->device[w] != s->device[v])
            return s->device[w];
    }
    const int32_t d = draw_other_device(&s->random, set, s->device[v]);
    return d < 0 ? s->device[v] : d;
}

/* Draw a place for a vertex on device d, between what it reads and what reads it. */
static int32_t draw_place(struct search *s, int32_t v, int32_t d) {
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
        if (s->device[s->sequence[i]] == d) {
            to = i;
            left--;
        }
    return to;
}

static struct move draw_move(struct search *s) {
    const int32_t v = draw_vertex(s);
    struct move move = {v, s->device[v], s->place[v], s->device[v], s->place[v]};
    const double kind = random_share(&s->random);
    if (kind >= SHIFT_SHARE)
        move.device = draw_device(s, v);
    if (kind < SHIFT_SHARE || kind >= SHIFT_SHARE + DEVICE_SHARE)
        move.place = draw_place(s, v, move.device);
    return move;
}

/* True if a move changes what a device runs: its vertices, or their order. */
static bool matters(const struct search *s, const struct move *move) {
    if (move->device != move->old_device)
        return true;
    const int32_t step = move->place > move->old_place ? 1 : -1;
    for (int32_t i = move->old_place; i != move->place; i += step)
        if (s->device[s->sequence[i + step]] == move->device)
            return true;
    return false;
}

/* Try moves; return the cost of the last accepted schedule. */
static double run(struct search *s, int64_t moves, double temperature) {
    double now = ordered_times_try(&s->times, s->device, s->sequence, 0, 0, INFINITY, true);
    ordered_times_accept(&s->times);
    for (int64_t i = 0; i < moves && now > 0; i++) {
        const struct move move = draw_move(s);
        const bool counts = matters(s, &move);
        make(s, move.vertex, move.device, move.place);
        if (!counts)
            continue;
        const double allowed = now + anneal_allowance(&s->random, temperature);
        const double next = ordered_times_try(&s->times, s->device, s->sequence, move.device, move.old_device,
                                              allowed, isinf(now));
        if (next > allowed) {
            make(s, move.vertex, move.old_device, move.old_place);
            continue;
        }
        now = next;
        ordered_times_accept(&s->times);
    }
    return now;
}

static int allocate(struct search *s, bool reserved) {
    struct arena *arena = &s->arena;
    const int64_t n = s->system->nodes, m = s->system->out_start[n];
    ordered_times_allocate(&s->times, arena, s->system, s->units, reserved);
    ARENA_ARRAYS(arena, n, s->place, s->member);
    ARENA_ARRAYS(arena, m, s->reader);
    ARENA_ZEROS(arena, n + 2, s->member_start);
    return arena_status(arena);
}

static void prepare(struct search *s) {
    list_members(s->system->nodes, s->units->unit, s->member_start, s->member);
    for (int32_t v = 0; v < s->system->nodes; v++) {
        s->place[s->sequence[v]] = v;
        for (int64_t i = s->units->in_start[v]; i < s->units->in_start[v + 1]; i++)
            s->reader[i] = v;
    }
}

int shard_ordered_moves(const struct shard_system *system, const struct shard_units *units, int32_t reserved,
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
