/* Heads and tails, against random schedules and known values. */
#include "scheduling/bounds/heads_tails.h"
#include "dataflow.h"

#define CELLS (MOST_NODES * MOST_DEVICES)
#define ANCESTORS 8
#define ROUNDS (400 / PART)
#define SCHEDULES 40

/* Bounds per vertex and device. */
struct bounds {
    double start[CELLS], behind[CELLS];
};

static struct bounds solve(const struct problem *p, int32_t reach, const struct bounds *known) {
    struct bounds found = {{0}, {0}};
    if (known)
        found = *known;
    CHECK(shard_heads_tails(&p->system, &p->units, p->order, p->back, ANCESTORS, reach, draw(2) ? 64 : 0,
                            found.start, found.behind) == SHARD_OK);
    return found;
}

/* The lower bound on the makespan: the greatest over vertices, each on its best device. */
static double longest(const struct problem *p, const struct bounds *bounds) {
    double most = 0;
    for (int32_t v = 0; v < p->system.nodes; v++) {
        double least = INFINITY;
        for (int32_t d = 0; d < p->system.devices; d++) {
            const int32_t at = v * p->system.devices + d;
            least = fmin(least, bounds->start[at] + p->complexity[v] / p->speed[d] + bounds->behind[at]);
        }
        most = fmax(most, least);
    }
    return most;
}

static void draw_devices(const struct problem *p, int32_t *device) {
    for (int32_t v = 0; v < p->system.nodes; v++) {
        const bool restricted = p->choice[p->unit[v]] == 0;
        device[v] =
            restricted ? p->choice_device[draw((int32_t)p->choice_start[1])] : draw(p->system.devices);
        device[v] = device[p->unit[v]];
    }
}

/* Run vertices in a random topological order; infinite without a link. */
static double run(const struct problem *p, const int32_t *device, double *start, double *end) {
    double free_from[MOST_DEVICES] = {0}, makespan = 0;
    bool done[MOST_NODES] = {false};
    for (int32_t left = p->system.nodes; left; left--) {
        int32_t v = -1;
        for (int32_t u = 0, seen = 0; u < p->system.nodes; u++) {
            bool may = !done[u];
            for (int64_t e = p->in_start[u]; e < p->in_start[u + 1]; e++)
                may = may && done[p->in_tail[e]];
            if (may && !draw(++seen))
                v = u;
        }
        start[v] = fmax(free_from[device[v]], ready(p, device, end, v));
        end[v] = start[v] + p->complexity[v] / p->speed[device[v]];
        free_from[device[v]] = end[v];
        makespan = fmax(makespan, end[v]);
        done[v] = true;
    }
    return makespan;
}

/* The bounds hold in random schedules; return how many of these could run. */
static int32_t check_schedules(const struct problem *p, const struct bounds *bounds) {
    int32_t ran = 0;
    for (int32_t i = 0; i < SCHEDULES; i++) {
        int32_t device[MOST_NODES];
        double start[MOST_NODES], end[MOST_NODES];
        draw_devices(p, device);
        const double makespan = run(p, device, start, end);
        if (isinf(makespan))
            continue;
        ran++;
        CHECK(longest(p, bounds) <= makespan);
        for (int32_t v = 0; v < p->system.nodes; v++) {
            CHECK(bounds->start[v * p->system.devices + device[v]] <= start[v]);
            CHECK(bounds->behind[v * p->system.devices + device[v]] <= makespan - end[v]);
        }
    }
    return ran;
}

/* Known bounds stay or grow, and are infinite for devices that a vertex may not use; true if some grow. */
static bool check_grown(const struct problem *p, const struct bounds *known, const struct bounds *found) {
    bool grown = false;
    for (int32_t at = 0; at < p->system.nodes * p->system.devices; at++) {
        const int32_t v = at / p->system.devices, d = at % p->system.devices;
        bool allowed = p->choice[p->unit[v]] < 0;
        for (int64_t i = 0; i < p->choice_start[1]; i++)
            allowed = allowed || p->choice_device[i] == d;
        CHECK(allowed || (isinf(known->start[at]) && isinf(found->behind[at])));
        CHECK(known->start[at] <= found->start[at] && known->behind[at] <= found->behind[at]);
        grown = grown || known->start[at] < found->start[at];
    }
    return grown;
}

/* Raise all that is known, as if each head and tail had changed. */
static void raise_all(const struct problem *p, struct heads_tails *ends) {
    bool changed[2][MOST_NODES];
    for (int32_t v = 0; v < p->system.nodes; v++)
        changed[0][v] = changed[1][v] = true;
    heads_tails_raise(ends, changed[0], changed[1]);
}

/* Raise some heads or tails of a vertex, or rule a device out. */
static void change(const struct problem *p, struct bounds *bounds, bool changed[2][MOST_NODES]) {
    const int32_t v = draw(p->system.nodes), d = draw(p->system.devices), at = v * p->system.devices + d;
    const double by = draw(3) ? 1 + draw(9) : (double)INFINITY;
    const int32_t which = draw(3);
    if (which != 1)
        bounds->start[at] += by;
    if (which != 0)
        bounds->behind[at] += by;
    changed[0][v] |= which != 1;
    changed[1][v] |= which != 0;
}

/* What is raised near changes is what is raised if all is, also after a step back to earlier bounds; true if more was
 * raised than has changed. */
static bool check_raised_near(const struct problem *p) {
    const size_t cells = (size_t)(p->system.nodes * p->system.devices) * sizeof(double);
    const int32_t ancestors = draw(2) ? MOST_NODES : 0;
    struct bounds near = {{0}, {0}};
    struct arena arena = {0};
    bool changed[2][MOST_NODES] = {{false}}, followed = false;
    struct heads_tails *ends =
        heads_tails_new(&arena, &p->system, &p->units, p->order, p->back, ancestors, near.start, near.behind);
    raise_all(p, ends);
    const struct bounds earlier = near;
    for (int32_t round = 0; round < 4; round++) {
        if (!draw(3))
            near = earlier;
        for (int32_t i = draw(3); i >= 0; i--)
            change(p, &near, changed);
        struct bounds all = near;
        const struct bounds before = near;
        heads_tails_raise(ends, changed[0], changed[1]);
        raise_all(p, heads_tails_new(&arena, &p->system, &p->units, p->order, p->back, ancestors, all.start,
                                     all.behind));
        CHECK(!memcmp(near.start, all.start, cells) && !memcmp(near.behind, all.behind, cells));
        for (int32_t v = 0; v < p->system.nodes; v++)
            CHECK(!changed[0][v] && !changed[1][v]);
        followed = followed || memcmp(before.start, near.start, cells);
    }
    arena_free(&arena);
    return followed;
}

/* Two paths part at the first vertex, which is on one of the two devices, and meet at the fourth. */
static void make_diamond(struct problem *p) {
    const int32_t edge[][3] = {{0, 1, 4}, {0, 2, 2}, {1, 3, 4}, {2, 3, 5}, {3, 4, 2}};
    const double complexity[] = {8, 9, 4, 6, 4};
    begin(p, 5, 2);
    connect(p, 5, edge);
    memcpy(p->complexity, complexity, sizeof complexity);
}

static void check_diamond(void) {
    struct problem p;
    make_diamond(&p);
    const struct bounds alone = solve(&p, 0, NULL), together = solve(&p, 5, NULL);
    CHECK(longest(&p, &alone) == 8 + 4 + 5 + 6 + 4);
    CHECK(longest(&p, &together) == 8 + 2 + 4 + 5 + 6 + 4);
    const struct bounds near = solve(&p, 3, NULL); /* does not reach where the paths meet */
    CHECK(longest(&p, &near) == longest(&p, &alone));
}

/* More inputs and readers than the bounds look at. */
static void check_wide(void) {
    enum { WIDE = 70 };
    static int64_t out_start[WIDE + 3], in_start[WIDE + 3];
    static int32_t out_head[2 * WIDE], in_tail[2 * WIDE], unit[WIDE + 2], choice[WIDE + 2],
        order[2][WIDE + 2];
    static double size[2 * WIDE], complexity[WIDE + 2], ends[2][WIDE + 2];
    const double speed = 1, bandwidth = INFINITY;
    for (int32_t v = 0; v < WIDE + 2; v++) {
        const bool first = v == 0, last = v == WIDE + 1;
        out_start[v + 1] = out_start[v] + (first ? WIDE : !last);
        in_start[v + 1] = in_start[v] + (last ? WIDE : !first);
        complexity[v] = 1;
        unit[v] = order[0][v] = v;
        order[1][v] = WIDE + 1 - v;
        choice[v] = -1;
    }
    for (int32_t i = 0; i < WIDE; i++) {
        out_head[i] = i + 1;
        out_head[WIDE + i] = WIDE + 1;
        in_tail[WIDE + i] = i + 1;
    }
    const struct shard_system system = {WIDE + 2,   1,      out_start,  out_head,          size,
                                        complexity, &speed, &bandwidth, SHARD_INDEPENDENT, 1e-9};
    const struct shard_units units = {
        .in_start = in_start, .in_tail = in_tail, .in_size = size, .unit = unit, .choice = choice};
    CHECK(shard_heads_tails(&system, &units, order[0], order[1], 4, WIDE, 64, ends[0], ends[1]) == SHARD_OK);
    CHECK(ends[0][WIDE] == 1 && ends[1][WIDE] == 1);
    CHECK(ends[0][WIDE + 1] >= 2 && ends[0][WIDE + 1] <= WIDE + 1 && ends[1][0] >= 2 &&
          ends[1][0] <= WIDE + 1);
}

/* Every allocation fails once. */
static void check_no_memory(void) {
    struct problem p;
    make_diamond(&p);
    int status = SHARD_NO_MEMORY, allocations = 0;
    for (; status == SHARD_NO_MEMORY && allocations < 200; allocations++) {
        struct bounds found = {{0}, {0}};
        WITH_MEMORY_FOR(allocations, shard_heads_tails(&p.system, &p.units, p.order, p.back, ANCESTORS, 5, 64,
                                                       found.start, found.behind));
    }
    CHECK(status == SHARD_OK && allocations > 20);
}

static void check_all(bool wrong) {
    struct problem p;
    if (wrong) {
        make_diamond(&p);
        const struct bounds found = solve(&p, 5, NULL);
        CHECK(longest(&p, &found) + wrong == longest(&p, &found));
        return;
    }
    int32_t ran = 0, grown = 0, followed = 0;
    for (int32_t round = 0; round < ROUNDS; round++) {
        make(&p, MOST_NODES, MOST_DEVICES);
        const struct bounds known = solve(&p, 0, NULL), found = solve(&p, 2 + draw(MOST_NODES), &known);
        grown += check_grown(&p, &known, &found);
        ran += check_schedules(&p, &found);
        followed += check_raised_near(&p);
    }
    CHECK(ran > ROUNDS * SCHEDULES / 3 && grown > ROUNDS / 20 && followed > ROUNDS / 4);
    check_diamond();
    check_wide();
    check_no_memory();
}
