/* Chains of stages against all chains of small problems, by limits and for the shortest batch. */
#include "../check.h"
#include "hybrid/chains/chain.h"
#include "hybrid/chains/step.h"

#define MOST_NODES 5
#define DEGREES 2
#define MENU 3
#define CONFIGURATIONS (MOST_NODES * DEGREES * MENU)
#define MOST_ENDS (MOST_NODES * MOST_NODES)
#define MOST_IDEALS 64
#define ROUNDS (600 / PART)

struct problem {
    struct shard_hybrid hybrid;
    int64_t out_start[MOST_NODES + 1], in_start[MOST_NODES + 1], end_start[MOST_NODES + 1];
    int32_t out_head[MOST_ENDS], in_tail[MOST_ENDS], neighbour[MOST_ENDS], rank[MOST_NODES];
    int64_t other_end[MOST_ENDS], degree[DEGREES], replicas[3], menu_start[MOST_NODES * DEGREES + 1];
    int64_t moved_start[CONFIGURATIONS];
    double time[CONFIGURATIONS], parameters[CONFIGURATIONS], stashed[CONFIGURATIONS], fixed[CONFIGURATIONS];
    double shared[CONFIGURATIONS], gathered[CONFIGURATIONS], moved[CONFIGURATIONS * MOST_ENDS];
    uint32_t before[MOST_NODES]; /* as bits, of the reversed graph */
    int64_t ideals, link_start[MOST_IDEALS + 1];
    int32_t link_node[MOST_IDEALS * MOST_NODES], link_ideal[MOST_IDEALS * MOST_NODES];
    bool path;                  /* the ideals are those of a path: the first i nodes */
    int8_t border[MOST_IDEALS]; /* of a path */
};

static void connect(struct problem *p, int32_t n) {
    int64_t out = 0, in = 0, ends = 0, at[MOST_NODES][MOST_NODES] = {{0}};
    for (int32_t v = 0; v < n; v++) {
        p->rank[v] = n - v;
        for (int32_t u = 0; u < n; u++) {
            if (p->before[u] >> v & 1)
                p->out_head[out++] = u;
            if (p->before[v] >> u & 1)
                p->in_tail[in++] = u;
            if ((p->before[u] >> v | p->before[v] >> u) & 1) {
                at[v][u] = ends;
                p->neighbour[ends++] = u;
            }
        }
        p->out_start[v + 1] = out;
        p->in_start[v + 1] = in;
        p->end_start[v + 1] = ends;
    }
    for (int32_t v = 0; v < n; v++)
        for (int64_t e = p->end_start[v]; e < p->end_start[v + 1]; e++)
            p->other_end[e] = at[p->neighbour[e]][v];
}

static void make(struct problem *p) {
    memset(p, 0, sizeof *p);
    const int32_t n = 1 + draw(MOST_NODES), density = draw(90);
    p->path = !draw(4);
    for (int32_t v = 0; v < n; v++)
        for (int32_t u = 0; u < v; u++)
            if (draw(100) < density || (p->path && u == v - 1))
                p->before[v] |= UINT32_C(1) << u;
    for (int32_t i = 0; i <= n; i++)
        p->border[i] = i == n || draw(2);
    connect(p, n);
    int64_t count = 0, moved = 0;
    for (int32_t menu = 0; menu < n * DEGREES; menu++) {
        const int32_t size = menu % DEGREES && !draw(3) ? 0 : 1 + draw(MENU);
        const int64_t ends = p->end_start[menu / DEGREES + 1] - p->end_start[menu / DEGREES];
        for (int32_t i = 0; i < size; i++, count++) {
            p->time[count] = draw(8);
            p->parameters[count] = draw(2) ? draw(5) : 2;
            p->stashed[count] = draw(3);
            p->fixed[count] = draw(5);
            p->shared[count] = draw(3) ? 0 : draw(8);
            p->gathered[count] = draw(3) ? 0 : draw(4);
            p->moved_start[count] = moved;
            for (int64_t e = 0; e < ends; e++)
                p->moved[moved++] = draw(2) ? 1 : draw(4);
        }
        p->menu_start[menu + 1] = count;
    }
    p->degree[0] = 1;
    p->degree[1] = 2;
    p->replicas[0] = 1;
    p->replicas[1] = 2;
    p->replicas[2] = 4;
    const struct shard_dag dag = {n, p->out_start, p->out_head, p->in_start, p->in_tail};
    p->hybrid = (struct shard_hybrid){dag,
                                      DEGREES,
                                      p->degree,
                                      3,
                                      p->replicas,
                                      4 + draw(6),
                                      4,
                                      draw(2) ? 2 : 0,
                                      6 + draw(14),
                                      2,
                                      8,
                                      draw(2),
                                      p->rank,
                                      p->menu_start,
                                      p->time,
                                      p->parameters,
                                      p->stashed,
                                      p->fixed,
                                      p->shared,
                                      p->gathered,
                                      p->end_start,
                                      p->neighbour,
                                      p->other_end,
                                      p->moved_start,
                                      p->moved};
    int64_t links = 0, listed = 0;
    CHECK(shard_count_ideals(&dag, MOST_IDEALS, MOST_IDEALS * MOST_NODES, NULL, &p->ideals, &links) ==
          SHARD_OK);
    CHECK(shard_list_ideals(&dag, p->ideals, NULL, &listed, p->link_start, p->link_node, p->link_ideal) ==
          SHARD_OK);
}

/* Let the second configuration of a menu take far longer than any limit, with a degree that few devices allow. */
static void exaggerate(struct problem *p) {
    p->degree[1] = INT64_C(1) << 30;
    p->hybrid.devices = INT32_MAX;
    p->hybrid.machine = 0;
    for (int32_t menu = 0; menu < p->hybrid.dag.nodes * DEGREES; menu++)
        if (menu % DEGREES || p->menu_start[menu + 1] - p->menu_start[menu] > 1)
            p->time[p->menu_start[menu + 1] - 1] = 1e30;
}

/* A stage: its nodes as bits, a configuration of each, and indices of its degrees. */
struct stage {
    uint32_t nodes;
    int64_t configuration[MOST_NODES];
    int32_t t, d;
};

/* Stages, the last one of the pipeline first. */
struct plan {
    int32_t stages;
    struct stage stage[MOST_NODES];
};

struct times {
    double per_sample, step;
};

static double speed(const struct problem *p, const struct stage *stage) {
    const int64_t degree = p->degree[stage->t], machine = p->hybrid.machine;
    if (!machine)
        return p->hybrid.bandwidth;
    if (degree * p->replicas[stage->d] <= machine)
        return p->hybrid.inside;
    return fmin((double)(machine / degree) * p->hybrid.bandwidth, p->hybrid.inside);
}

/* Sets the time of one microbatch and of a synchronisation; the bytes with y microbatches in flight. */
static double measure(const struct problem *p, const struct stage *stage, int64_t y, double *pass,
                      double *sync) {
    const double d = (double)p->replicas[stage->d];
    double bytes = 0;
    *pass = *sync = 0;
    for (int32_t v = 0; v < p->hybrid.dag.nodes; v++) {
        if (!(stage->nodes >> v & 1))
            continue;
        const int64_t c = stage->configuration[v];
        bytes += p->stashed[c] * (double)y + p->fixed[c] + p->shared[c] / d;
        *pass += p->time[c] + (d - 1) / d * p->gathered[c] / speed(p, stage);
        *sync += 4 * (d - 1) / d * p->parameters[c] / speed(p, stage);
        for (int64_t e = p->end_start[v]; e < p->end_start[v + 1]; e++)
            if (!(stage->nodes >> p->neighbour[e] & 1))
                *pass += 2 * p->moved[p->moved_start[c] + e - p->end_start[v]] / p->hybrid.bandwidth;
    }
    return bytes;
}

static int count_bits(uint32_t bits) {
    int count = 0;
    for (; bits; bits &= bits - 1)
        count++;
    return count;
}

/* The times of a plan; infinite if it breaks a rule. */
static struct times times_of(const struct problem *p, const struct plan *plan) {
    const struct times broken = {INFINITY, INFINITY};
    double slowest = 0, once = 0, repeated = 0, longest = 0;
    int64_t sum = 0, devices = 0;
    uint32_t placed = 0;
    for (int32_t i = 0; i < plan->stages; i++) {
        const struct stage *stage = plan->stage + i;
        const int64_t d = p->replicas[stage->d];
        double pass, sync;
        const double bytes = measure(p, stage, (sum + d + d - 1) / d, &pass, &sync);
        if (bytes > p->hybrid.memory + 1e-12 ||
            (p->hybrid.machine && p->degree[stage->t] > p->hybrid.machine))
            return broken;
        for (int32_t v = 0; v < p->hybrid.dag.nodes; v++)
            if (stage->nodes >> v & 1 && p->before[v] & ~(placed | stage->nodes))
                return broken;
        placed |= stage->nodes;
        if (p->path && !p->border[count_bits(placed)])
            return broken;
        sum += d;
        devices += d * p->degree[stage->t];
        slowest = fmax(slowest, pass / (double)d + sync / (double)p->hybrid.batch);
        once += pass;
        repeated = fmax(repeated, ((double)p->hybrid.batch / (double)d - 1) * pass);
        longest = fmax(longest, sync);
    }
    if (sum > p->hybrid.batch || devices > p->hybrid.devices)
        return broken;
    return (struct times){slowest, once + repeated + longest};
}

static void keep_least(struct times *best, struct times times) {
    best->per_sample = fmin(best->per_sample, times.per_sample);
    best->step = fmin(best->step, times.step);
}

static void all_plans(const struct problem *p, struct plan *plan, uint32_t left, struct times *best);

/* Try all configurations of nodes from v on for the last stage of a plan, then all further stages. */
static void all_choices(const struct problem *p, struct plan *plan, uint32_t left, int32_t v,
                        struct times *best) {
    struct stage *stage = plan->stage + plan->stages - 1;
    while (v < p->hybrid.dag.nodes && !(stage->nodes >> v & 1))
        v++;
    if (v == p->hybrid.dag.nodes) {
        if (isfinite(times_of(p, plan).step))
            all_plans(p, plan, left & ~stage->nodes, best);
        return;
    }
    for (int64_t c = p->menu_start[v * DEGREES + stage->t]; c < p->menu_start[v * DEGREES + stage->t + 1];
         c++) {
        stage->configuration[v] = c;
        all_choices(p, plan, left, v + 1, best);
    }
}

static void all_plans(const struct problem *p, struct plan *plan, uint32_t left, struct times *best) {
    if (!left) {
        keep_least(best, times_of(p, plan));
        return;
    }
    struct stage *stage = plan->stage + plan->stages++;
    for (uint32_t nodes = left; nodes; nodes = (nodes - 1) & left) {
        bool closed = true;
        for (int32_t v = 0; v < p->hybrid.dag.nodes; v++)
            closed &= !(nodes >> v & 1) || !(p->before[v] & left & ~nodes);
        for (int32_t kind = 0; closed && kind < DEGREES * 3; kind++) {
            *stage = (struct stage){.nodes = nodes, .t = kind / 3, .d = kind % 3};
            all_choices(p, plan, left, 0, best);
        }
    }
    plan->stages--;
}

/* What a kernel found. */
struct found {
    int32_t stages, stage[MOST_NODES], degree[MOST_NODES], replicas[MOST_NODES];
    int64_t configuration[MOST_NODES];
};

static struct plan plan_of(const struct problem *p, const struct found *found) {
    struct plan plan = {.stages = found->stages};
    for (int32_t v = 0; v < p->hybrid.dag.nodes; v++) {
        struct stage *stage = plan.stage + found->stages - 1 - found->stage[v];
        stage->nodes |= UINT32_C(1) << v;
        stage->configuration[v] = found->configuration[v];
        stage->t = found->degree[found->stage[v]];
        stage->d = found->replicas[found->stage[v]];
    }
    return plan;
}

static int chain(const struct problem *p, double limit, int32_t greedy, const int32_t *stop,
                 struct found *found) {
    return shard_hybrid_chain(&p->hybrid, p->ideals, p->link_start, p->link_node, p->link_ideal,
                              p->path ? p->border : NULL, limit, greedy, stop, &found->stages, found->stage,
                              found->configuration, found->degree, found->replicas);
}

static int step(const struct problem *p, double limit, double most, const int32_t *stop,
                struct found *found) {
    return shard_hybrid_step(&p->hybrid, p->ideals, p->link_start, p->link_node, p->link_ideal,
                             p->path ? p->border : NULL, limit, 0, most, stop, &found->stages, found->stage,
                             found->configuration, found->degree, found->replicas);
}

static void check_limits(const struct problem *p, struct times best) {
    const double most = isfinite(best.per_sample) ? best.per_sample : 1000;
    const double limits[] = {most * 1.5 + 1, most + 1e-9, most - 1e-9, most / 2};
    for (int i = 0; i < 4; i++) {
        struct found found;
        if (!(limits[i] > 0))
            continue;
        CHECK(chain(p, limits[i], 0, NULL, &found) == SHARD_OK);
        CHECK((found.stages > 0) == (best.per_sample <= limits[i]));
        if (found.stages > 0) {
            const struct plan plan = plan_of(p, &found);
            CHECK(times_of(p, &plan).per_sample <= limits[i] + 1e-9);
        }
        CHECK(chain(p, limits[i], 1, NULL, &found) == SHARD_OK);
        if (found.stages > 0) {
            const struct plan plan = plan_of(p, &found);
            CHECK(times_of(p, &plan).per_sample <= limits[i] + 1e-9);
        }
    }
}

static void check_batches(const struct problem *p, struct times best) {
    const double limits[] = {1000, best.step + 1e-9, best.step - 1e-9};
    for (int i = 0; i < 3; i++) {
        struct found found;
        if (!(limits[i] > 0 && isfinite(limits[i])))
            continue;
        CHECK(step(p, limits[i], limits[i], NULL, &found) == SHARD_OK);
        CHECK((found.stages > 0) == (best.step <= limits[i]));
        if (found.stages > 0) {
            const struct plan plan = plan_of(p, &found);
            CHECK(fabs(times_of(p, &plan).step - best.step) <= 1e-9 * best.step);
        }
    }
}

static void test_failures(const struct problem *p) {
    const int32_t stop = 1;
    struct found found;
    for (int count = 0; count < 12; count++) {
        int status;
        WITH_MEMORY_FOR(count, chain(p, 1000, count % 2, NULL, &found));
        CHECK(status == SHARD_NO_MEMORY);
        WITH_MEMORY_FOR(count, step(p, 1000, 1000, NULL, &found));
        CHECK(status == SHARD_NO_MEMORY);
    }
    CHECK(chain(p, 1000, 0, &stop, &found) == SHARD_OK && found.stages == -1);
    CHECK(step(p, 1000, 1000, &stop, &found) == SHARD_OK && found.stages == -1);
}

static void check_all(bool wrong) {
    static struct problem problem;
    int possible = 0;
    if (wrong) {
        make(&problem);
        CHECK(problem.ideals + wrong == problem.ideals);
        return;
    }
    for (int round = 0; round < ROUNDS; round++) {
        make(&problem);
        if (!draw(10))
            exaggerate(&problem);
        struct plan plan = {0};
        struct times best = {INFINITY, INFINITY};
        all_plans(&problem, &plan, (UINT32_C(1) << problem.hybrid.dag.nodes) - 1, &best);
        possible += isfinite(best.step);
        if (best.step > 1e20 && isfinite(best.step))
            continue; /* limits 1e-9 apart are the same then */
        check_limits(&problem, best);
        check_batches(&problem, best);
        if (isfinite(best.step) && problem.ideals > 2)
            test_failures(&problem);
    }
    CHECK(possible > ROUNDS / 3 && possible < ROUNDS);
}
