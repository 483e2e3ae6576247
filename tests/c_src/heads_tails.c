/* Heads and tails, against random schedules and known values. */
#include "scheduling/bounds/heads_tails.h"
#include "check.h"

#define MOST_NODES 16
#define MOST_EDGES (2 * MOST_NODES * MOST_NODES)
#define MOST_DEVICES 4
#define CELLS (MOST_NODES * MOST_DEVICES)
#define WINDOW 8
#define ROUNDS 400
#define SCHEDULES 40

/* All numbers are whole, speeds and bandwidths powers of 2: sums are exact. Edges go to greater numbers. */
struct problem {
    struct shard_system system;
    struct shard_units units;
    int64_t out_start[MOST_NODES + 1], in_start[MOST_NODES + 1], choice_start[2];
    int32_t out_head[MOST_EDGES], in_tail[MOST_EDGES];
    double size[MOST_EDGES], in_size[MOST_EDGES];
    double complexity[MOST_NODES], speed[MOST_DEVICES], bandwidth[MOST_DEVICES * MOST_DEVICES];
    int32_t unit[MOST_NODES], choice[MOST_NODES], choice_device[MOST_DEVICES];
    int32_t order[MOST_NODES], back[MOST_NODES];
};

/* Bounds per vertex and device. */
struct bounds {
    double start[CELLS], behind[CELLS];
};

static void connect(struct problem *p, int64_t count, const int32_t (*edge)[3]) {
    int64_t outs = 0, ins = 0;
    for (int32_t v = 0; v < p->system.nodes; v++) {
        for (int64_t e = 0; e < count; e++) {
            if (edge[e][0] == v) {
                p->out_head[outs] = edge[e][1];
                p->size[outs++] = edge[e][2];
            }
            if (edge[e][1] == v) {
                p->in_tail[ins] = edge[e][0];
                p->in_size[ins++] = edge[e][2];
            }
        }
        p->out_start[v + 1] = outs;
        p->in_start[v + 1] = ins;
    }
}

static void begin(struct problem *p, int32_t nodes, int32_t devices) {
    memset(p, 0, sizeof *p);
    p->system = (struct shard_system){nodes,         devices,  p->out_start, p->out_head,       p->size,
                                      p->complexity, p->speed, p->bandwidth, SHARD_INDEPENDENT, 1e-9};
    p->units = (struct shard_units){.in_start = p->in_start,
                                    .in_tail = p->in_tail,
                                    .in_size = p->in_size,
                                    .unit = p->unit,
                                    .choice = p->choice,
                                    .choice_start = p->choice_start,
                                    .choice_device = p->choice_device};
    for (int32_t v = 0; v < nodes; v++) {
        p->unit[v] = v;
        p->choice[v] = -1;
        p->order[v] = v;
        p->back[v] = nodes - 1 - v;
    }
    for (int32_t d = 0; d < devices; d++) {
        p->speed[d] = 1;
        for (int32_t to = 0; to < devices; to++)
            p->bandwidth[d * devices + to] = d == to ? (double)INFINITY : 1;
    }
}

static void make(struct problem *p) {
    int32_t edge[MOST_EDGES][3], count = 0;
    begin(p, 2 + draw(MOST_NODES - 1), 1 + draw(MOST_DEVICES));
    const int32_t n = p->system.nodes, k = p->system.devices, dense = 2 + draw(4);
    for (int32_t v = 0; v < n; v++) {
        p->complexity[v] = draw(9);
        p->unit[v] = v > 0 && !draw(6) ? p->unit[draw(v)] : v;
        p->choice[v] = draw(5) ? -1 : 0;
        for (int32_t u = v > 5 ? v - 5 : 0; u < v; u++)
            for (int32_t twice = 0; twice < 2 && !draw(dense + 10 * twice); twice++) {
                const int32_t drawn[3] = {u, v, draw(9)};
                memcpy(edge[count++], drawn, sizeof drawn);
            }
    }
    connect(p, count, (const int32_t (*)[3])edge);
    for (int32_t d = 0; d < k; d++) {
        p->speed[d] = 1 << draw(3);
        for (int32_t to = 0; to < k; to++)
            p->bandwidth[d * k + to] = d == to ? (double)INFINITY : !draw(12) ? 0.0 : 1 << draw(3);
        if (d == 0 || draw(2))
            p->choice_device[p->choice_start[1]++] = d;
    }
}

static struct bounds solve(const struct problem *p, int32_t reach, const struct bounds *known) {
    struct bounds found = {{0}, {0}};
    if (known)
        found = *known;
    CHECK(shard_heads_tails(&p->system, &p->units, p->order, p->back, WINDOW, reach, draw(2) ? 64 : 0,
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

/* The earliest start of a vertex, given those before it. */
static double ready(const struct problem *p, const int32_t *device, const double *end, int32_t v) {
    double time = 0;
    for (int64_t e = p->in_start[v]; e < p->in_start[v + 1]; e++) {
        const int32_t u = p->in_tail[e];
        const double width = p->bandwidth[device[u] * p->system.devices + device[v]];
        time =
            fmax(time, end[u] + (device[u] == device[v] || p->in_size[e] == 0 ? 0 : p->in_size[e] / width));
    }
    return time;
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
        WITH_MEMORY_FOR(allocations, shard_heads_tails(&p.system, &p.units, p.order, p.back, WINDOW, 5, 64,
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
    int32_t ran = 0, grown = 0;
    for (int32_t round = 0; round < ROUNDS; round++) {
        make(&p);
        const struct bounds known = solve(&p, 0, NULL), found = solve(&p, 2 + draw(MOST_NODES), &known);
        grown += check_grown(&p, &known, &found);
        ran += check_schedules(&p, &found);
    }
    CHECK(ran > ROUNDS * SCHEDULES / 3 && grown > ROUNDS / 20);
    check_diamond();
    check_wide();
    check_no_memory();
}
