/* The kernel for schedules, against all schedules of small graphs. */
#include "placement/ideals/schedule_dp.h"
#include "check.h"
#include "common/ideals.h"

#define MOST_NODES 5
#define MOST_SETS (1 << MOST_NODES)
#define MOST_LINKS (MOST_SETS * MOST_NODES)
#define ROUNDS (1500 / PART)
#define ROOM 1000000

struct graph {
    struct shard_dag order;
    struct shard_tasks tasks;
    uint32_t before[MOST_NODES]; /* as bits */
    uint32_t reads[MOST_NODES];  /* the nodes before whose tensors it reads */
    int64_t out_start[MOST_NODES + 1], in_start[MOST_NODES + 1];
    int32_t out_head[MOST_LINKS], in_tail[MOST_LINKS];
    double accelerator_time[MOST_NODES], cpu_time[MOST_NODES], tail[MOST_NODES], size[MOST_NODES];
    double transfer[MOST_NODES];
    int32_t unit[MOST_NODES], members[MOST_NODES];
    int64_t made_start[MOST_NODES + 1], read_start[MOST_NODES + 1], reader_start[MOST_NODES + 1];
    int32_t read[MOST_LINKS], reader[MOST_LINKS];
    int64_t ideals, link_start[MOST_SETS + 1];
    int32_t link_node[MOST_LINKS], link_ideal[MOST_LINKS];
};

static bool has(uint32_t set, int32_t v) {
    return set >> v & 1;
}

static void connect(struct graph *graph) {
    int64_t out = 0, in = 0, read = 0, reader = 0;
    for (int32_t v = 0; v < graph->order.nodes; v++) {
        for (int32_t u = 0; u < graph->order.nodes; u++) {
            if (has(graph->before[u], v))
                graph->out_head[out++] = u;
            if (has(graph->before[v], u))
                graph->in_tail[in++] = u;
            if (has(graph->reads[u], v)) /* node v makes tensor v */
                graph->reader[reader++] = u;
            if (has(graph->reads[v], u))
                graph->read[read++] = u;
        }
        graph->out_start[v + 1] = out;
        graph->in_start[v + 1] = in;
        graph->read_start[v + 1] = read;
        graph->reader_start[v + 1] = reader;
        graph->made_start[v + 1] = v + 1;
    }
}

static void make(struct graph *graph) {
    memset(graph, 0, sizeof *graph);
    const int32_t n = draw(MOST_NODES + 1), density = draw(90), cpus = draw(5);
    for (int32_t v = 0; v < n; v++) {
        graph->accelerator_time[v] = draw(8) ? (double)draw(9) : (double)INFINITY;
        graph->cpu_time[v] = cpus ? (double)draw(20) : (double)INFINITY;
        graph->transfer[v] = draw(5);
        graph->size[v] = draw(4);
        graph->unit[v] = draw(n);
        graph->members[graph->unit[v]]++;
        for (int32_t u = 0; u < v; u++)
            if (draw(100) < density) {
                graph->before[v] |= UINT32_C(1) << u;
                graph->reads[v] |= (uint32_t)(draw(4) > 0) << u;
            }
    }
    for (int32_t v = n - 1; v >= 0; v--) {
        for (int32_t w = v + 1; w < n; w++)
            if (has(graph->before[w], v))
                graph->tail[v] = fmax(graph->tail[v], graph->tail[w]);
        graph->tail[v] += fmin(graph->accelerator_time[v], graph->cpu_time[v]);
    }
    graph->order = (struct shard_dag){n, graph->out_start, graph->out_head, graph->in_start, graph->in_tail};
    connect(graph);
    graph->tasks = (struct shard_tasks){
        n,
        n,
        draw(4) - 1,
        draw(9),
        graph->accelerator_time,
        graph->cpu_time,
        graph->tail,
        graph->unit,
        graph->members,
        graph->size,
        graph->transfer,
        graph->made_start,
        graph->read_start,
        graph->read,
        graph->reader_start,
        graph->reader,
    };
    int64_t links = 0, listed = 0;
    CHECK(shard_count_ideals(&graph->order, MOST_SETS, MOST_LINKS, NULL, &graph->ideals, &links) == SHARD_OK);
    CHECK(shard_list_ideals(&graph->order, graph->ideals, NULL, &listed, graph->link_start, graph->link_node,
                            graph->link_ideal) == SHARD_OK);
}

/* The time of a set on an accelerator, infinite if it must not be on one. */
static double busy(const struct graph *graph, uint32_t set) {
    double time = 0.0, size = 0.0;
    uint32_t units = 0;
    for (int32_t v = 0; v < graph->order.nodes; v++) {
        bool in = false, out = false;
        for (int32_t w = 0; w < graph->order.nodes; w++) {
            in = in || (has(set, w) && !has(set, v) && has(graph->reads[w], v));
            out = out || (!has(set, w) && has(set, v) && has(graph->reads[w], v));
            if (has(set, v) && !has(set, w) && graph->unit[v] == graph->unit[w] &&
                graph->tasks.accelerators >= 0)
                return INFINITY;
        }
        time += in || out ? graph->transfer[v] : 0.0;
        time += has(set, v) ? graph->accelerator_time[v] : 0.0;
        units |= (uint32_t)has(set, v) << graph->unit[v];
    }
    for (int32_t u = 0; u < graph->order.nodes; u++)
        size += has(units, u) ? graph->size[u] : 0.0;
    return size > graph->tasks.memory ? INFINITY : time;
}

/* The time at which a task can begin, given the ends of the nodes done; infinite if some are not done. */
static double ready(const struct graph *graph, uint32_t set, uint32_t done, const double *end) {
    double latest = 0.0;
    for (int32_t v = 0; v < graph->order.nodes; v++) {
        if (has(set, v) && graph->before[v] & ~(set | done))
            return INFINITY;
        for (int32_t u = 0; u < v && has(set, v); u++)
            latest = has(graph->before[v] & ~set, u) ? fmax(latest, end[u]) : latest;
    }
    return latest;
}

/* The least latency with so many accelerators left, by all continuations. */
static double least(const struct graph *graph, uint32_t done, int32_t left, const double *end) {
    const int32_t n = graph->order.nodes;
    double best = INFINITY, latest = 0.0, next[MOST_NODES];
    for (int32_t v = 0; v < n; v++)
        latest = has(done, v) ? fmax(latest, end[v]) : latest;
    if (done == (UINT32_C(1) << n) - 1)
        return latest;
    for (uint32_t set = 1; set < UINT32_C(1) << n; set++)
        for (int on_cpu = 0; on_cpu < 2; on_cpu++) {
            const bool single = !(set & (set - 1));
            if (set & done || (on_cpu ? !single : !left))
                continue;
            const double spent = on_cpu ? graph->cpu_time[__builtin_ctz(set)] : busy(graph, set);
            const double finish = ready(graph, set, done, end) + spent;
            if (isinf(finish))
                continue;
            for (int32_t v = 0; v < n; v++)
                next[v] = has(set, v) ? finish : end[v];
            best = fmin(best, least(graph, done | set, on_cpu ? left : left - 1, next));
        }
    return best;
}

/* The latency of a reported schedule: each set begins once the others that it waits for are done. */
static double latency_of(const struct graph *graph, const int32_t *set) {
    const int32_t n = graph->order.nodes;
    double end[MOST_NODES] = {0.0}, latest = 0.0;
    uint32_t done = 0;
    for (int32_t round = 0; round < n; round++)
        for (int32_t v = 0; v < n; v++) {
            uint32_t mine = 0;
            for (int32_t w = 0; w < n; w++)
                mine |= (uint32_t)(w == v || (set[v] >= 0 && set[w] == set[v])) << w;
            const double begin = ready(graph, mine, done, end);
            if (has(done, v) || isinf(begin))
                continue;
            const double finish = begin + (set[v] < 0 ? graph->cpu_time[v] : busy(graph, mine));
            for (int32_t w = 0; w < n; w++)
                end[w] = has(mine, w) ? finish : end[w];
            done |= mine;
            latest = fmax(latest, finish);
        }
    return done == (UINT32_C(1) << n) - 1 ? latest : INFINITY;
}

static int schedule(const struct graph *graph, double limit, int64_t most, const int32_t *stop, double *end,
                    int32_t *set) {
    return shard_schedule_dp(&graph->order, &graph->tasks, graph->ideals, graph->link_start, graph->link_node,
                             graph->link_ideal, limit, most, stop, end, set);
}

static void check_schedule(const struct graph *graph) {
    const int32_t n = graph->order.nodes, limited = graph->tasks.accelerators, stop = 1;
    const double none[MOST_NODES] = {0.0};
    int32_t set[MOST_NODES];
    double end = -1.0;
    const double best = least(graph, 0, limited < 0 ? n : limited, none);
    CHECK(schedule(graph, INFINITY, ROOM, NULL, &end, set) == SHARD_OK && end == best);
    CHECK(isinf(best) || latency_of(graph, set) == best);
    int32_t sets = 0;
    for (int32_t v = 0; v < n && isfinite(best); v++)
        sets = set[v] >= sets ? set[v] + 1 : sets;
    CHECK(limited < 0 || sets <= limited);
    if (isfinite(best)) {
        CHECK(schedule(graph, best + 0.5, ROOM, NULL, &end, set) == SHARD_OK && end == best);
        CHECK(!n || (schedule(graph, best, ROOM, NULL, &end, set) == SHARD_OK && isinf(end)));
    }
    CHECK(schedule(graph, INFINITY, ROOM, &stop, &end, set) == SHARD_OK && isnan(end));
    CHECK(schedule(graph, INFINITY, 0, NULL, &end, set) == SHARD_NO_MEMORY);
}

static void check_no_memory(void) {
    struct graph graph;
    int32_t set[MOST_NODES];
    double end;
    make(&graph);
    for (granted = 0; granted < 10; granted++) {
        const int before = granted;
        CHECK(schedule(&graph, INFINITY, ROOM, NULL, &end, set) == SHARD_NO_MEMORY);
        granted = before;
    }
    granted = -1;
}

static void check_all(bool wrong) {
    struct graph graph;
    if (wrong) {
        make(&graph);
        CHECK(graph.ideals + wrong == graph.ideals);
        return;
    }
    for (int32_t round = 0; round < ROUNDS; round++) {
        make(&graph);
        check_schedule(&graph);
    }
    check_no_memory();
}
