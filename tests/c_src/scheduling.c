/* Simulation, HEFT and the searches for schedules, against their definitions. */
#include "check.h"
#include "scheduling/heft.h"
#include "scheduling/memory_moves.h"
#include "scheduling/ordered_moves.h"
#include "scheduling/paths/path_moves.h"
#include "scheduling/reserving_list.h"
#include "scheduling/simulated_moves.h"
#include "scheduling/simulation/simulate.h"

#define MOST_NODES 24
#define MOST_EDGES (MOST_NODES * MOST_NODES)
#define MOST_DEVICES 5
#define ROUNDS (300 / PART)

/* All numbers are whole, speeds and bandwidths powers of 2: sums are exact unless links are shared. */
struct problem {
    struct shard_system system;
    struct shard_units units;
    int64_t out_start[MOST_NODES + 1], in_start[MOST_NODES + 1], choice_start[3];
    int32_t out_head[MOST_EDGES], out_tail[MOST_EDGES], in_tail[MOST_EDGES];
    double size[MOST_EDGES], in_size[MOST_EDGES];
    double complexity[MOST_NODES], speed[MOST_DEVICES], bandwidth[MOST_DEVICES * MOST_DEVICES];
    int32_t unit[MOST_NODES], choice[MOST_NODES], choice_device[2 * MOST_DEVICES];
    double need[MOST_NODES], memory[MOST_DEVICES];
    int32_t device[MOST_NODES], rank[MOST_NODES];
    double priority[MOST_NODES];
};

/* The outcome of a simulation. */
struct outcome {
    double start[MOST_NODES], finish[MOST_NODES], arrival[MOST_EDGES];
    int32_t sequence[MOST_NODES], ran;
};

static void make_edges(struct problem *p) {
    int64_t count = 0;
    for (int32_t u = 0; u < p->system.nodes; u++) {
        for (int32_t v = u + 1; v < p->system.nodes; v++) {
            if (draw(5))
                continue;
            p->out_tail[count] = u;
            p->out_head[count] = v;
            p->size[count++] = draw(9);
        }
        p->out_start[u + 1] = count;
    }
    int64_t inputs = 0;
    for (int32_t v = 0; v < p->system.nodes; v++) {
        for (int64_t e = 0; e < count; e++) {
            if (p->out_head[e] != v)
                continue;
            p->in_tail[inputs] = p->out_tail[e];
            p->in_size[inputs++] = p->size[e];
            p->need[p->unit[v]] += p->size[e];
        }
        p->in_start[v + 1] = inputs;
    }
}

static void make_devices(struct problem *p, bool linked) {
    const int32_t k = p->system.devices;
    for (int32_t d = 0; d < k; d++) {
        p->speed[d] = 1 << draw(3);
        p->memory[d] = draw(2) ? (double)INFINITY : (double)draw(60);
        for (int32_t to = 0; to < k; to++)
            p->bandwidth[d * k + to] = d == to ? (double)INFINITY : !linked && !draw(12) ? 0.0 : 1 << draw(3);
    }
    for (int32_t set = 0; set < 2; set++) {
        const int32_t first = draw(k);
        p->choice_start[set + 1] = p->choice_start[set];
        for (int32_t d = 0; d < k; d++)
            if (d == first || draw(2))
                p->choice_device[p->choice_start[set + 1]++] = d;
    }
}

static bool allowed(const struct problem *p, int32_t v, int32_t d) {
    const int32_t set = p->choice[p->unit[v]];
    bool found = set < 0;
    for (int64_t i = set < 0 ? 0 : p->choice_start[set]; i < (set < 0 ? 0 : p->choice_start[set + 1]); i++)
        found = found || p->choice_device[i] == d;
    return found;
}

static void make(struct problem *p, bool linked) {
    memset(p, 0, sizeof *p);
    const int32_t n = 1 + draw(MOST_NODES), k = 1 + draw(MOST_DEVICES), links = draw(3);
    p->system = (struct shard_system){
        n, k, p->out_start, p->out_head, p->size, p->complexity, p->speed, p->bandwidth, links, 1e-9};
    p->units = (struct shard_units){p->in_start,     p->in_tail,       p->in_size, p->unit,  p->choice,
                                    p->choice_start, p->choice_device, p->need,    p->memory};
    int32_t units = 0;
    make_devices(p, linked);
    for (int32_t v = 0; v < p->system.nodes; v++) {
        p->complexity[v] = 1 + draw(9);
        p->unit[v] = v > 0 && !draw(4) ? p->unit[draw(v)] : units++;
        p->choice[v] = draw(3) ? -1 : draw(2);
        p->priority[v] = draw(4);
        p->rank[v] = (v * 7 + 3) % 25; /* 7 and 25 have no common divisor: all different */
    }
    make_edges(p);
    for (int32_t v = 0; v < p->system.nodes; v++) {
        const int32_t first = draw(p->system.devices);
        for (int32_t i = 0; i < p->system.devices; i++)
            if (allowed(p, v, (first + i) % p->system.devices))
                p->device[v] = (first + i) % p->system.devices;
        for (int32_t u = 0; u < v; u++)
            if (p->unit[u] == p->unit[v])
                p->device[v] = p->device[u];
    }
}

static double width(const struct problem *p, int32_t from, int32_t to) {
    return p->bandwidth[from * p->system.devices + to];
}

static double ready_time(const struct problem *p, const struct outcome *o, int32_t v) {
    double last = 0;
    for (int64_t e = 0; e < p->out_start[p->system.nodes]; e++)
        if (p->out_head[e] == v)
            last = fmax(last, o->arrival[e]);
    return last;
}

/* The earliest time at which a tensor can depart if tensors queue: all before it on its link are through. */
static double after_queue(const struct problem *p, const struct outcome *o, int64_t e) {
    const int32_t from = p->device[p->out_tail[e]], to = p->device[p->out_head[e]];
    double through = o->finish[p->out_tail[e]];
    for (int64_t f = 0; f < p->out_start[p->system.nodes]; f++) {
        const bool same =
            p->device[p->out_tail[f]] == from && p->device[p->out_head[f]] == to && p->size[f] > 0;
        if (!same || !(o->arrival[f] < o->arrival[e]))
            continue;
        CHECK(o->finish[p->out_tail[f]] <= o->finish[p->out_tail[e]]);
        through = fmax(through, o->arrival[f]);
    }
    return through;
}

static void check_arrivals(const struct problem *p, const struct outcome *o) {
    for (int64_t e = 0; e < p->out_start[p->system.nodes]; e++) {
        const int32_t u = p->out_tail[e], from = p->device[u], to = p->device[p->out_head[e]];
        const double sent = o->finish[u], takes = p->size[e] / width(p, from, to);
        if (isinf(sent) || from == to || p->size[e] == 0)
            CHECK(o->arrival[e] == sent);
        else if (width(p, from, to) == 0)
            CHECK(isinf(o->arrival[e]));
        else if (p->system.links == SHARD_INDEPENDENT)
            CHECK(o->arrival[e] == sent + takes);
        else if (p->system.links == SHARD_QUEUE)
            CHECK(o->arrival[e] == after_queue(p, o, e) + takes);
        else
            CHECK(o->arrival[e] >= (sent + takes) * (1 - 1e-12) && isfinite(o->arrival[e]));
    }
}

/* The time for which the device of a vertex computes from a given time until the vertex starts. */
static double busy_before(const struct problem *p, const struct outcome *o, int32_t v, double from) {
    double busy = 0;
    for (int32_t w = 0; w < p->system.nodes; w++)
        if (p->device[w] == p->device[v] && isfinite(o->start[w]) && o->start[w] < o->start[v])
            busy += fmax(0, fmin(o->finish[w], o->start[v]) - fmax(o->start[w], from));
    return busy;
}

static void check_vertex(const struct problem *p, const struct outcome *o, int32_t v, int32_t rule) {
    const double ready = ready_time(p, o, v);
    if (isinf(o->start[v])) {
        CHECK(isinf(o->finish[v]) && (isinf(ready) || rule == SHARD_IN_ORDER));
        return;
    }
    CHECK(o->start[v] >= ready && o->finish[v] == o->start[v] + p->complexity[v] / p->speed[p->device[v]]);
    if (rule != SHARD_IN_ORDER)
        CHECK(fabs(busy_before(p, o, v, ready) - (o->start[v] - ready)) <= 1e-9 * (1 + o->start[v]));
    for (int32_t w = 0; w < p->system.nodes; w++) {
        if (w == v || p->device[w] != p->device[v] || !(o->start[w] >= o->start[v]))
            continue;
        CHECK(o->start[w] >= o->finish[v]);
        const double other = ready_time(p, o, w);
        if (rule == SHARD_BY_PRIORITY && other <= o->start[v])
            CHECK(p->priority[v] > p->priority[w] ||
                  (p->priority[v] == p->priority[w] &&
                   (ready < other || (ready == other && p->rank[v] < p->rank[w]))));
        if (rule == SHARD_IN_ORDER)
            CHECK(v < w);
    }
}

/* The makespan; infinite if some vertex never runs. */
static double run_by(const struct problem *p, const struct shard_policy *policy, const int32_t *device,
                     struct outcome *o) {
    CHECK(shard_simulate(&p->system, policy, device, o->start, o->finish, o->arrival, o->sequence, &o->ran) ==
          SHARD_OK);
    double makespan = 0;
    for (int32_t v = 0; v < p->system.nodes; v++)
        makespan = fmax(makespan, o->finish[v]);
    return makespan;
}

static double run(const struct problem *p, int32_t rule, const int32_t *device, const double *priority,
                  const int32_t *rank, struct outcome *o) {
    int32_t order[MOST_NODES], count = 0;
    for (int32_t d = 0; d < p->system.devices; d++)
        for (int32_t v = 0; v < p->system.nodes; v++)
            if (device[v] == d)
                order[count++] = v;
    const struct shard_policy policy = {rule, order, priority, rank, {1, 1, 1, 5}};
    return run_by(p, &policy, device, o);
}

static void check_simulation(const struct problem *p) {
    for (int32_t rule = SHARD_IN_ORDER; rule <= SHARD_BY_SUCCESSORS; rule++) {
        struct outcome o;
        bool seen[MOST_NODES] = {false};
        run(p, rule, p->device, p->priority, p->rank, &o);
        for (int32_t i = 0; i < o.ran; i++) {
            CHECK(!seen[o.sequence[i]] && isfinite(o.start[o.sequence[i]]));
            CHECK(i == 0 || o.start[o.sequence[i - 1]] <= o.start[o.sequence[i]]);
            seen[o.sequence[i]] = true;
        }
        check_arrivals(p, &o);
        for (int32_t v = 0; v < p->system.nodes; v++) {
            CHECK(seen[v] == isfinite(o.start[v]));
            check_vertex(p, &o, v, rule);
        }
    }
}

/* The first time from which a device is free for long enough, given the vertices before v. */
static double first_gap(const struct problem *p, const int32_t *device, const double *start, int32_t v,
                        int32_t d) {
    const double takes = p->complexity[v] / p->speed[d];
    double ready = 0, best = INFINITY;
    for (int64_t i = p->in_start[v]; i < p->in_start[v + 1]; i++) {
        const int32_t u = p->in_tail[i];
        const double made = start[u] + p->complexity[u] / p->speed[device[u]];
        ready = fmax(ready, device[u] == d ? made : made + p->in_size[i] / width(p, device[u], d));
    }
    for (int32_t c = -1; c < v; c++) { /* at once, or when a vertex there ends */
        if (c >= 0 && device[c] != d)
            continue;
        const double time = c < 0 ? ready : start[c] + p->complexity[c] / p->speed[d];
        bool fits = time >= ready;
        for (int32_t w = 0; w < v; w++)
            if (device[w] == d)
                fits =
                    fits && (time + takes <= start[w] || time >= start[w] + p->complexity[w] / p->speed[d]);
        best = fits ? fmin(best, time) : best;
    }
    return best;
}

static void usage(const struct problem *p, const int32_t *device, int32_t until, double *used) {
    memset(used, 0, MOST_DEVICES * sizeof *used);
    bool counted[MOST_NODES] = {false};
    for (int32_t v = 0; v < until; v++) {
        used[device[v]] += counted[p->unit[v]] ? 0 : p->need[p->unit[v]];
        counted[p->unit[v]] = true;
    }
}

/* No device that the unit may use and that has room, or else the most room, finishes v sooner. */
static void check_chosen(const struct problem *p, const int32_t *device, const double *start, int32_t v) {
    double used[MOST_DEVICES], most = -INFINITY;
    usage(p, device, v, used);
    for (int32_t d = 0; d < p->system.devices; d++)
        most = allowed(p, v, d) ? fmax(most, p->memory[d] - used[d]) : most;
    const double need = p->need[p->unit[v]], here = p->memory[device[v]] - used[device[v]];
    CHECK(allowed(p, v, device[v]) && (here > need || here == most));
    const double end = start[v] + p->complexity[v] / p->speed[device[v]];
    for (int32_t d = 0; d < p->system.devices; d++) {
        const double spare = p->memory[d] - used[d];
        if (allowed(p, v, d) && (spare > need || (!(most > need) && spare == most)))
            CHECK(end <= first_gap(p, device, start, v, d) + p->complexity[v] / p->speed[d]);
    }
}

static void check_heft(const struct problem *p, int32_t *device) {
    int32_t order[MOST_NODES];
    double start[MOST_NODES];
    for (int32_t v = 0; v < p->system.nodes; v++) {
        order[v] = v;
        device[v] = -1;
    }
    CHECK(shard_heft(&p->system, &p->units, order, device, start) == SHARD_OK);
    for (int32_t v = 0; v < p->system.nodes; v++) {
        bool first = true;
        for (int32_t u = 0; u < v; u++) {
            CHECK(p->unit[u] != p->unit[v] || device[u] == device[v]);
            first = first && p->unit[u] != p->unit[v];
        }
        CHECK(start[v] == first_gap(p, device, start, v, device[v]));
        if (first)
            check_chosen(p, device, start, v);
    }
}

static void check_allowed(const struct problem *p, const int32_t *device) {
    for (int32_t v = 0; v < p->system.nodes; v++) {
        CHECK(allowed(p, v, device[v]));
        for (int32_t u = 0; u < v; u++)
            CHECK(p->unit[u] != p->unit[v] || device[u] == device[v]);
    }
}

/* The memory that a device holds at a time, with what begins then and without what ends then; whole
 * numbers. */
static double held(const struct problem *p, const struct outcome *o, const int32_t *device, bool reserved,
                   int32_t d, double time) {
    double sum = 0;
    for (int64_t e = 0; e < p->out_start[p->system.nodes]; e++) {
        const int32_t u = p->out_tail[e], v = p->out_head[e];
        const double begin = reserved ? o->finish[u] : o->arrival[e];
        const double end = reserved ? o->finish[v] : o->start[v];
        sum += device[v] == d && begin <= time && time < end ? p->size[e] : 0;
    }
    return sum;
}

static bool fits(const struct problem *p, const struct outcome *o, const int32_t *device, bool reserved) {
    for (int64_t e = 0; e < p->out_start[p->system.nodes]; e++) {
        const int32_t d = device[p->out_head[e]];
        const double begin = reserved ? o->finish[p->out_tail[e]] : o->arrival[e];
        const double sum = held(p, o, device, reserved, d, begin);
        if (sum > 0 && sum >= p->memory[d])
            return false;
    }
    return true;
}

static void check_simulated_moves(const struct problem *p, const int32_t *begin, bool reserved) {
    int32_t device[2][MOST_NODES], best_device[2][MOST_NODES] = {{0}}, rank[MOST_NODES];
    double priority[2][MOST_NODES], best_priority[2][MOST_NODES] = {{0}};
    double overfull[2] = {-1, -1}, best[2] = {INFINITY, INFINITY};
    uint64_t random[2] = {5, 5};
    struct outcome o;
    for (int32_t v = 0; v < p->system.nodes; v++)
        rank[v] = v;
    const double begun = run(p, SHARD_BY_PRIORITY, begin, p->priority, rank, &o);
    const bool fitted = fits(p, &o, begin, reserved);
    for (int twin = 0; twin < 2; twin++) {
        memcpy(device[twin], begin, sizeof device[twin]);
        memcpy(priority[twin], p->priority, sizeof priority[twin]);
        CHECK(shard_simulated_moves(&p->system, &p->units, reserved, 60, 1.0, 8.0, random + twin,
                                    device[twin], priority[twin], overfull + twin, best_device[twin],
                                    best_priority[twin], best + twin) == SHARD_OK);
    }
    run(p, SHARD_BY_PRIORITY, device[0], priority[0], rank, &o);
    CHECK((overfull[0] == 0) == fits(p, &o, device[0], reserved));
    check_allowed(p, device[0]);
    CHECK(!fitted || best[0] <= begun);
    if (isfinite(best[0])) {
        CHECK(best[0] == run(p, SHARD_BY_PRIORITY, best_device[0], best_priority[0], rank, &o));
        CHECK(fits(p, &o, best_device[0], reserved));
        check_allowed(p, best_device[0]);
    }
    CHECK(random[0] == random[1] && best[0] == best[1] && overfull[0] == overfull[1]);
    CHECK(!memcmp(best_device[0], best_device[1], (size_t)p->system.nodes * sizeof(int32_t)));
}

/* At temperature 0 no move raises the cost, which includes overfull memory. */
static void check_descent(const struct problem *p, const int32_t *begin, bool reserved) {
    const double penalty = 8;
    int32_t device[MOST_NODES], best_device[MOST_NODES], rank[MOST_NODES];
    double priority[MOST_NODES], best_priority[MOST_NODES], overfull = 0, best = INFINITY, cost[2];
    uint64_t random = 5;
    struct outcome o;
    for (int32_t v = 0; v < p->system.nodes; v++)
        rank[v] = v;
    memcpy(device, begin, sizeof device);
    memcpy(priority, p->priority, sizeof priority);
    for (int when = 0; when < 2; when++) {
        CHECK(shard_simulated_moves(&p->system, &p->units, reserved, when ? 60 : 0, 0, penalty, &random,
                                    device, priority, &overfull, best_device, best_priority,
                                    &best) == SHARD_OK);
        cost[when] = run(p, SHARD_BY_PRIORITY, device, priority, rank, &o) + penalty * overfull;
    }
    CHECK(cost[1] <= cost[0] * (1 + 1e-12));
}

/* The sequence is topological and complete. */
static void check_topological(const struct problem *p, const int32_t *sequence) {
    int32_t place[MOST_NODES];
    memset(place, -1, sizeof place);
    for (int32_t i = 0; i < p->system.nodes; i++) {
        CHECK(place[sequence[i]] < 0);
        place[sequence[i]] = i;
    }
    for (int64_t e = 0; e < p->out_start[p->system.nodes]; e++)
        CHECK(place[p->out_tail[e]] < place[p->out_head[e]]);
}

static double run_listed(const struct problem *p, const int32_t *device, const int32_t *order,
                         struct outcome *o) {
    const struct shard_policy policy = {SHARD_IN_ORDER, order, p->priority, p->rank, {0}};
    return run_by(p, &policy, device, o);
}

/* List the vertices by device, in the order of their starts. */
static void list_by_device(const struct problem *p, const struct outcome *o, const int32_t *device,
                           int32_t *order) {
    for (int32_t d = 0; d < p->system.devices; d++)
        for (int32_t i = 0; i < o->ran; i++)
            if (device[o->sequence[i]] == d)
                *order++ = o->sequence[i];
}

/* True if two costs are equal but for rounding, or both infinite. */
static bool close(double a, double b) {
    return isinf(a) ? isinf(b) : fabs(a - b) <= 1e-9 * fmax(a, b);
}

/* Moves for tight memory, of either kernel. */
typedef int memory_kernel(const struct shard_system *system, const struct shard_units *units,
                          int32_t reserved, int64_t moves, double temperature, uint64_t *random,
                          int32_t *device, int32_t *sequence, double *excess);

/* Moves at temperature 0 do not raise the cost, which is 0 if and only if the schedule fits, and which is that of the
 * other kernel. */
static void check_memory_moves(const struct problem *p, const int32_t *begin, bool reserved,
                               memory_kernel *kernel) {
    int32_t device[MOST_NODES], sequence[MOST_NODES], order[MOST_NODES], count = 0;
    double excess[3], same;
    uint64_t random = 5;
    struct outcome o;
    memcpy(device, begin, sizeof device);
    for (int32_t v = 0; v < p->system.nodes; v++)
        sequence[v] = v;
    for (int part = 0; part < 3; part++)
        CHECK(kernel(&p->system, &p->units, reserved, part == 1 ? 60 : 0, 0, &random, device, sequence,
                     excess + part) == SHARD_OK);
    CHECK(excess[1] <= excess[0] && close(excess[1], excess[2]));
    CHECK(shard_memory_moves(&p->system, &p->units, reserved, 0, 0, &random, device, sequence, &same) ==
          SHARD_OK);
    CHECK(close(same, excess[2]));
    check_topological(p, sequence);
    check_allowed(p, device);
    for (int32_t d = 0; d < p->system.devices; d++)
        for (int32_t i = 0; i < p->system.nodes; i++)
            if (device[sequence[i]] == d)
                order[count++] = sequence[i];
    run_listed(p, device, order, &o);
    if (o.ran == p->system.nodes)
        CHECK((excess[1] == 0) == fits(p, &o, device, reserved));
    else
        CHECK(isinf(excess[1]));
}

/* One part for all vertices. */
static const int32_t undivided[MOST_NODES];

/* Each of two searches changes its part of a schedule: what it leaves as it is, and that the parts fit together. */
static void check_parts(struct problem *p, const int32_t *begin, double temperature) {
    int32_t device[2][MOST_NODES], order[2][MOST_NODES], best_device[MOST_NODES], best_order[MOST_NODES];
    int32_t part[MOST_NODES], rank[MOST_NODES], listed[MOST_NODES], joined[MOST_NODES], all[MOST_NODES],
        count = 0;
    const int32_t n = p->system.nodes, first = 1 + draw(n - 1);
    struct outcome o;
    for (int32_t v = 0; v < n; v++)
        rank[v] = v;
    run(p, SHARD_BY_PRIORITY, begin, p->priority, rank, &o);
    list_by_device(p, &o, begin, listed);
    for (int32_t i = 0; i < n; i++)
        part[o.sequence[i]] = i < first ? -3 : 8;
    for (int own = 0; own < 2; own++) {
        double best = INFINITY;
        uint64_t random = 3;
        memcpy(device[own], begin, sizeof device[own]);
        memcpy(order[own], listed, sizeof order[own]);
        CHECK(shard_path_moves(&p->system, &p->units, 200, temperature, temperature, 0, part, own ? 8 : -3,
                               &random, device[own], order[own], best_device, best_order, &best) == SHARD_OK);
        CHECK(best == run_listed(p, best_device, best_order, &o));
        check_allowed(p, device[own]);
        for (int32_t v = 0; v < n; v++)
            CHECK(part[v] == (own ? 8 : -3) || device[own][v] == begin[v]);
    }
    for (int32_t v = 0; v < n; v++)
        joined[v] = device[part[v] == 8][v];
    for (int32_t d = 0; d < p->system.devices; d++)
        for (int own = 0; own < 2; own++)
            for (int32_t i = 0; i < n; i++)
                if (part[order[own][i]] == (own ? 8 : -3) && joined[order[own][i]] == d)
                    all[count++] = order[own][i];
    CHECK(count == n && isfinite(run_listed(p, joined, all, &o)));
    check_allowed(p, joined);
}

static void check_path_moves(struct problem *p, const int32_t *begin, double temperature) {
    int32_t device[2][MOST_NODES], order[2][MOST_NODES], best_device[2][MOST_NODES] = {{0}};
    int32_t best_order[2][MOST_NODES] = {{0}}, rank[MOST_NODES];
    double best[2] = {INFINITY, INFINITY};
    uint64_t random[2] = {7, 7};
    struct outcome o;
    p->system.links = SHARD_INDEPENDENT;
    for (int32_t v = 0; v < p->system.nodes; v++)
        rank[v] = v;
    const double begun = run(p, SHARD_BY_PRIORITY, begin, p->priority, rank, &o);
    for (int twin = 0; twin < 2; twin++) {
        memcpy(device[twin], begin, sizeof device[twin]);
        list_by_device(p, &o, begin, order[twin]);
        CHECK(shard_path_moves(&p->system, &p->units, 300, temperature, temperature, 0, undivided, 0,
                               random + twin, device[twin], order[twin], best_device[twin], best_order[twin],
                               best + twin) == SHARD_OK);
    }
    CHECK(best[0] <= begun && best[0] == run_listed(p, best_device[0], best_order[0], &o));
    const double now = run_listed(p, device[0], order[0], &o);
    CHECK(now >= best[0] && isfinite(now) && (temperature > 0 || now <= best[0] * (1 + 1e-9)));
    check_allowed(p, device[0]);
    check_allowed(p, best_device[0]);
    CHECK(random[0] == random[1] && best[0] == best[1]);
    CHECK(!memcmp(order[0], order[1], (size_t)p->system.nodes * sizeof(int32_t)));
    /* Without moves, the given schedule is measured. */
    const double again = best[0];
    CHECK(shard_path_moves(&p->system, &p->units, 0, 0, 0, 0, undivided, 0, random, best_device[0],
                           best_order[0], device[0], order[0], best) == SHARD_OK);
    CHECK(best[0] == again);
    /* A window of a few vertices that cools down. */
    const double last = temperature / 10;
    CHECK(shard_path_moves(&p->system, &p->units, 300, temperature, last, 1 + draw(5), undivided, 0, random,
                           device[0], order[0], best_device[0], best_order[0], best) == SHARD_OK);
    CHECK(best[0] <= again && best[0] == run_listed(p, best_device[0], best_order[0], &o));
    CHECK(isfinite(run_listed(p, device[0], order[0], &o)));
    check_allowed(p, device[0]);
    if (p->system.nodes > 1)
        check_parts(p, begin, temperature);
}

/* Two vertices wait for each other because of the orders on their devices. */
static void check_cycle(void) {
    struct problem p;
    do
        make(&p, true);
    while (p.system.nodes < 4 || p.system.devices < 2 || p.out_start[p.system.nodes] == 0);
    const int32_t u = p.out_tail[0], v = p.out_head[0];
    int32_t device[MOST_NODES] = {0}, order[MOST_NODES], out[MOST_NODES], count = 0;
    double best = INFINITY;
    uint64_t random = 1;
    order[count++] = v;
    for (int32_t w = 0; w < p.system.nodes; w++)
        if (w != v)
            order[count++] = w;
    CHECK(u != v);
    CHECK(shard_path_moves(&p.system, &p.units, 5, 0, 0, 0, undivided, 0, &random, device, order, out, out,
                           &best) == SHARD_CYCLE);
    CHECK(isinf(best) && random == 1 && order[0] == v);
}

/* Every allocation fails once. */
static void check_no_memory(void) {
    struct problem p;
    do
        make(&p, true);
    while (p.system.links != SHARD_QUEUE || p.system.nodes < 9);
    for (int call = 0; call < 7; call++) {
        int status = SHARD_NO_MEMORY, allocations = 0;
        for (; status == SHARD_NO_MEMORY && allocations < 60; allocations++) {
            int32_t device[MOST_NODES], best_device[MOST_NODES], order[MOST_NODES];
            int32_t by_device[MOST_NODES], best_order[MOST_NODES];
            double priority[MOST_NODES], best_priority[MOST_NODES], overfull = -1, best = INFINITY;
            uint64_t random = 1;
            struct outcome o = {.ran = -1};
            const struct shard_policy policy = {SHARD_BY_SUCCESSORS, order, p.priority, p.rank, {1, 1, 1, 5}};
            memcpy(device, p.device, sizeof device);
            memcpy(priority, p.priority, sizeof priority);
            for (int32_t v = 0; v < p.system.nodes; v++) {
                order[v] = v;
                device[v] = call == 1 ? -1 : device[v];
            }
            for (int32_t d = 0, count = 0; d < p.system.devices; d++)
                for (int32_t v = 0; v < p.system.nodes; v++)
                    if (p.device[v] == d)
                        by_device[count++] = v;
            granted = allocations;
            if (call == 0)
                status = shard_simulate(&p.system, &policy, device, o.start, o.finish, o.arrival, o.sequence,
                                        &o.ran);
            if (call == 1)
                status = shard_heft(&p.system, &p.units, order, device, o.start);
            if (call == 2)
                status = shard_simulated_moves(&p.system, &p.units, 0, 5, 1.0, 1.0, &random, device, priority,
                                               &overfull, best_device, best_priority, &best);
            if (call == 3)
                status = shard_path_moves(&p.system, &p.units, 5, 1.0, 1.0, 0, undivided, 0, &random, device,
                                          by_device, best_device, best_order, &best);
            if (call == 4)
                status = shard_reserving_list(&p.system, &p.units, 0, priority, 1, 1, device, order);
            if (call == 5)
                status =
                    shard_memory_moves(&p.system, &p.units, 0, 5, 1.0, &random, device, order, &overfull);
            if (call == 6)
                status =
                    shard_ordered_moves(&p.system, &p.units, 0, 5, 1.0, &random, device, order, &overfull);
            granted = -1;
            if (status == SHARD_NO_MEMORY)
                CHECK(o.ran == -1 && isinf(best) && overfull < 0 && random == 1);
        }
        CHECK(status == SHARD_OK && allocations > 4);
    }
}

/* The sequence is topological and complete, and each unit has a device that it may use. */
static void check_reserving_list(struct problem *p, bool reserved) {
    int32_t device[MOST_NODES], sequence[MOST_NODES];
    CHECK(shard_reserving_list(&p->system, &p->units, reserved, p->priority, 1, 1, device, sequence) ==
          SHARD_OK);
    check_topological(p, sequence);
    check_allowed(p, device);
}

static void check_all(bool wrong) {
    struct problem p;
    if (wrong) {
        struct outcome o;
        make(&p, true);
        CHECK(run(&p, SHARD_BY_PRIORITY, p.device, p.priority, p.rank, &o) + wrong ==
              run(&p, SHARD_BY_PRIORITY, p.device, p.priority, p.rank, &o));
        return;
    }
    for (int32_t round = 0; round < ROUNDS; round++) {
        int32_t device[MOST_NODES];
        make(&p, false);
        check_simulation(&p);
        make(&p, true);
        check_heft(&p, device);
        check_simulated_moves(&p, device, round % 2);
        check_descent(&p, device, round % 2);
        check_path_moves(&p, device, round % 3);
        check_reserving_list(&p, round % 2);
        check_memory_moves(&p, device, round % 2, shard_memory_moves);
        if (p.system.links != SHARD_SHARE)
            check_memory_moves(&p, device, round % 2, shard_ordered_moves);
    }
    check_cycle();
    check_no_memory();
}
