/* The kernels for pipelines, against their definitions on sets of nodes as bits. */
#include "check.h"
#include "common/kahn.h"
#include "pipeline/anneal_partition.h"
#include "pipeline/kahn_slice.h"
#include "pipeline/segment.h"
#include "pipeline/sets/anneal_set.h"
#include "pipeline/sets/cheapest_set.h"
#include "pipeline/slice.h"

#define MOST_NODES 12
#define MOST_EDGES (MOST_NODES * MOST_NODES)
#define ROUNDS (2000 / PART)

static bool same(double a, double b) {
    return fabs(a - b) <= 1e-9 * fmax(1.0, fabs(b));
}

struct graph {
    struct shard_pipeline problem;
    int64_t out_start[MOST_NODES + 1], in_start[MOST_NODES + 1];
    int32_t out_head[MOST_EDGES], in_tail[MOST_EDGES];
    double work[MOST_NODES], output_size[MOST_NODES], param_size[MOST_NODES], priority[MOST_NODES];
    uint32_t readers[MOST_NODES]; /* as bits */
};

static void connect(struct graph *graph) {
    const int32_t n = graph->problem.nodes;
    int64_t out = 0, in = 0;
    for (int32_t v = 0; v < n; v++) {
        graph->out_start[v] = out;
        graph->in_start[v] = in;
        for (int32_t u = 0; u < n; u++) {
            if (graph->readers[v] >> u & 1)
                graph->out_head[out++] = u;
            if (graph->readers[u] >> v & 1)
                graph->in_tail[in++] = u;
        }
    }
    graph->out_start[n] = out;
    graph->in_start[n] = in;
}

static void make(struct graph *graph, int32_t nodes, int32_t stages, bool limited) {
    memset(graph, 0, sizeof *graph);
    const int32_t density = draw(101);
    const bool forwards =
        draw(2) == 0; /* so that the order of the indices is not always the topological one */
    for (int32_t v = 0; v < nodes; v++) {
        graph->work[v] = draw(10);
        graph->output_size[v] = draw(6);
        graph->param_size[v] = draw(5);
        graph->priority[v] = draw(4) / 4.0;
        for (int32_t u = 0; u < v; u++)
            if (draw(100) < density)
                graph->readers[forwards ? u : v] |= UINT32_C(1) << (forwards ? v : u);
    }
    graph->problem = (struct shard_pipeline){
        .nodes = nodes,
        .stages = stages,
        .out_start = graph->out_start,
        .out_head = graph->out_head,
        .in_start = graph->in_start,
        .in_tail = graph->in_tail,
        .work = graph->work,
        .output_size = graph->output_size,
        .param_size = graph->param_size,
        .bandwidth = 0.5 * (1 + draw(4)),
        .memory = limited ? (double)draw(5 * nodes + 1) : INFINITY,
    };
    connect(graph);
}

static int sort(const struct graph *graph, int32_t *order) {
    return shard_kahn(graph->problem.nodes, graph->out_start, graph->out_head, graph->priority, order);
}

/* Greatest memory in use while one of the nodes at positions left .. right - 1 runs. */
static double peak(const struct graph *graph, const int32_t *order, int32_t left, int32_t right,
                   uint32_t inside) {
    double greatest = 0.0;
    uint32_t run = 0;
    for (int32_t p = left; p < right; p++) {
        const uint32_t to_run = inside & ~run;
        double in_use = graph->output_size[order[p]];
        for (int32_t u = 0; u < graph->problem.nodes; u++) {
            const uint32_t readers = graph->readers[u];
            const bool made = run >> u & 1, from_outside = !(inside >> u & 1);
            if ((from_outside && readers & to_run) || (made && readers & (to_run | ~inside)))
                in_use += graph->output_size[u];
        }
        greatest = fmax(greatest, in_use);
        run |= UINT32_C(1) << order[p];
    }
    return greatest;
}

static double cost_of(const struct graph *graph, const int32_t *order, int32_t left, int32_t right) {
    double work = 0.0, moved = 0.0, params = 0.0;
    uint32_t inside = 0;
    for (int32_t p = left; p < right; p++)
        inside |= UINT32_C(1) << order[p];
    for (int32_t v = 0; v < graph->problem.nodes; v++) {
        const bool in = inside >> v & 1;
        if (in)
            work += graph->work[v];
        if (in)
            params += graph->param_size[v];
        if (graph->readers[v] & (in ? ~inside : inside))
            moved += graph->output_size[v];
    }
    if (left < right && isfinite(graph->problem.memory))
        moved += fmax(0.0, params + peak(graph, order, left, right, inside) - graph->problem.memory);
    return work + moved / graph->problem.bandwidth;
}

/* Least greatest cost of the positions from `left` on in at most `stages` segments. */
static double best_of(const struct graph *graph, const int32_t *order, int32_t left, int32_t stages) {
    const int32_t n = graph->problem.nodes;
    if (left == n)
        return 0.0;
    if (stages == 1)
        return cost_of(graph, order, left, n);
    double best = INFINITY;
    for (int32_t right = left + 1; right <= n; right++) {
        const double rest = best_of(graph, order, right, stages - 1);
        best = fmin(best, fmax(cost_of(graph, order, left, right), rest));
    }
    return best;
}

static void check_order(const struct graph *graph, const int32_t *order) {
    const int32_t n = graph->problem.nodes;
    uint32_t done = 0;
    for (int32_t p = 0; p < n; p++) {
        int32_t first = -1;
        for (int32_t v = 0; v < n; v++) {
            bool ready = !(done >> v & 1);
            for (int32_t u = 0; u < n; u++)
                ready = ready && (done >> u & 1 || !(graph->readers[u] >> v & 1));
            if (ready && (first < 0 || graph->priority[v] > graph->priority[first]))
                first = v;
        }
        CHECK(order[p] == first);
        done |= UINT32_C(1) << order[p];
    }
}

static void check_segments(const struct graph *graph, const int32_t *order) {
    double cost[MOST_NODES];
    for (int32_t right = 0; right <= graph->problem.nodes; right++) {
        CHECK(shard_segment_costs(&graph->problem, order, right, cost) == SHARD_OK);
        for (int32_t left = 0; left < right; left++)
            CHECK(same(cost[left], cost_of(graph, order, left, right)));
    }
}

static void check_slicing(const struct graph *graph, const int32_t *order) {
    const int32_t stages = graph->problem.stages;
    int32_t cut[MOST_NODES + 1] = {0};
    double cost = -1.0, again = -1.0, worst = 0.0;
    CHECK(shard_slice(&graph->problem, order, INFINITY, &cost, cut) == SHARD_OK);
    CHECK(same(cost, best_of(graph, order, 0, stages)));
    CHECK(cut[0] == 0 && cut[stages] == graph->problem.nodes);
    for (int32_t b = 0; b < stages; b++) {
        CHECK(cut[b] <= cut[b + 1]);
        if (cut[b] < cut[b + 1])
            worst = fmax(worst, cost_of(graph, order, cut[b], cut[b + 1]));
    }
    CHECK(same(cost, worst));
    CHECK(shard_slice(&graph->problem, order, cost, &again, NULL) == SHARD_OK && isinf(again));
    CHECK(shard_slice(&graph->problem, order, nextafter(cost, INFINITY), &again, NULL) == SHARD_OK &&
          same(again, cost));
    CHECK(shard_kahn_slice(&graph->problem, 1, graph->priority, INFINITY, &again) == SHARD_OK &&
          same(again, cost));
}

static void check_lengths(const struct graph *graph, const int32_t *order, double plain, double weighted) {
    double sum = 0.0, weighted_sum = 0.0;
    for (int32_t p = 0; p < graph->problem.nodes; p++) {
        for (int32_t q = p + 1; q < graph->problem.nodes; q++) {
            if (graph->readers[order[p]] >> order[q] & 1) {
                sum += q - p;
                weighted_sum += (q - p) * graph->output_size[order[p]] / graph->problem.bandwidth;
            }
        }
    }
    CHECK(same(plain, sum) && same(weighted, weighted_sum));
}

static void check_batch(struct graph *graph) {
    enum { ROWS = 3 };
    const int32_t n = graph->problem.nodes;
    double rows[ROWS * MOST_NODES] = {0}, costs[ROWS], cost = -1.0;
    for (int32_t i = 0; i < ROWS * n; i++)
        rows[i] = draw(100) / 100.0;
    CHECK(shard_kahn_slice(&graph->problem, ROWS, rows, INFINITY, costs) == SHARD_OK);
    double lengths[2][ROWS];
    for (int32_t weighted = 0; weighted < 2; weighted++)
        CHECK(shard_kahn_arrangement(&graph->problem, ROWS, rows, weighted, lengths[weighted]) == SHARD_OK);
    for (int32_t i = 0; i < ROWS; i++) {
        int32_t order[MOST_NODES];
        memcpy(graph->priority, rows + i * n, sizeof(double) * (size_t)n);
        CHECK(sort(graph, order) == SHARD_OK);
        CHECK(shard_slice(&graph->problem, order, INFINITY, &cost, NULL) == SHARD_OK);
        CHECK(same(costs[i], cost));
        check_lengths(graph, order, lengths[0][i], lengths[1][i]);
    }
}

/* Annealing never makes a slicing worse, whatever its parameters. */
static void check_annealing(const struct graph *graph, const int32_t *begun) {
    const int32_t n = graph->problem.nodes, stages = graph->problem.stages, stop = 0;
    const struct shard_annealing annealing = {
        .moves = draw(400),
        .seed = (uint64_t)draw(1000),
        .hot = 0.01 * (1 + draw(10)),
        .cold = 0.001,
        .margin = 0.1 * draw(10),
        .squared = draw(2),
        .enough = 0.0,
    };
    int32_t order[MOST_NODES], cut[MOST_NODES], again[MOST_NODES], cut_again[MOST_NODES];
    double first = -1.0, cost = -1.0, cost_again = -1.0, worst = 0.0;
    uint32_t done = 0;
    memcpy(order, begun, (size_t)n * sizeof *order);
    CHECK(shard_slice(&graph->problem, order, INFINITY, &first, cut) == SHARD_OK);
    memcpy(again, order, (size_t)n * sizeof *order);
    memcpy(cut_again, cut, ((size_t)stages + 1) * sizeof *cut);
    CHECK(shard_anneal_partition(&graph->problem, &annealing, &stop, order, cut, &cost) == SHARD_OK);
    CHECK(shard_anneal_partition(&graph->problem, &annealing, &stop, again, cut_again, &cost_again) ==
          SHARD_OK);
    CHECK(cost <= first * (1.0 + 1e-9) && memcmp(&cost, &cost_again, sizeof cost) == 0);
    CHECK(memcmp(order, again, (size_t)n * sizeof *order) == 0);
    CHECK(cut[0] == 0 && cut[stages] == n);
    for (int32_t p = 0; p < n; p++) {
        for (int32_t u = 0; u < n; u++)
            CHECK(!(graph->readers[u] >> order[p] & 1) || (done >> u & 1));
        done |= UINT32_C(1) << order[p];
    }
    CHECK(done == (UINT32_C(1) << n) - 1);
    for (int32_t b = 0; b < stages; b++) {
        CHECK(cut[b] <= cut[b + 1]);
        worst = fmax(worst, cost_of(graph, order, cut[b], cut[b + 1]));
    }
    CHECK(same(cost, worst));
}

static void check_random_graphs(void) {
    for (int32_t round = 0; round < ROUNDS; round++) {
        struct graph graph;
        int32_t order[MOST_NODES];
        make(&graph, draw(MOST_NODES - 2), 1 + draw(4), round % 2 == 0);
        CHECK(sort(&graph, order) == SHARD_OK);
        check_order(&graph, order);
        check_segments(&graph, order);
        check_slicing(&graph, order);
        check_annealing(&graph, order);
        check_batch(&graph);
    }
}

/* a (work 3) -> b (2) -> c (4), tensors of 1 and 2: {a, b} | {c} costs max(5 + 2, 2 + 4). */
static void check_by_hand(bool wrong) {
    struct graph graph;
    int32_t order[3], cut[3];
    double cost;
    make(&graph, 3, 2, false);
    memcpy(graph.work, (double[]){3, 2, 4}, sizeof(double[3]));
    memcpy(graph.output_size, (double[]){1, 2, 9}, sizeof(double[3]));
    memcpy(graph.readers, (uint32_t[]){2, 4, 0}, sizeof(uint32_t[3]));
    graph.problem.bandwidth = 1.0;
    connect(&graph);
    CHECK(sort(&graph, order) == SHARD_OK);
    CHECK(shard_slice(&graph.problem, order, INFINITY, &cost, cut) == SHARD_OK);
    CHECK(same(cost, wrong ? 6.0 : 7.0));
    CHECK(cut[0] == 0 && cut[1] == 2 && cut[2] == 3);
}

static void check_refusals(void) {
    struct graph graph;
    int32_t order[MOST_NODES], cut[MOST_NODES];
    double cost;
    make(&graph, 3, 2, false);
    memcpy(graph.readers, (uint32_t[]){2, 4, 0}, sizeof(uint32_t[3]));
    connect(&graph);
    const int32_t bad[][3] = {{1, 0, 2}, {0, 0, 1}, {0, 1, 3}, {-1, 0, 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(shard_slice(&graph.problem, bad[i], INFINITY, &cost, cut) == SHARD_BAD_ORDER);
        CHECK(shard_segment_costs(&graph.problem, bad[i], 3, (double[3]){0}) == SHARD_BAD_ORDER);
    }
    const struct shard_annealing annealing = {.moves = 10, .hot = 0.1, .cold = 0.1};
    const int32_t stop = 0, bad_cuts[][3] = {{1, 2, 3}, {0, 2, 2}, {0, 4, 3}, {0, -1, 3}};
    for (size_t i = 0; i < 4; i++) {
        memcpy(order, bad[i], sizeof bad[i]);
        memcpy(cut, (int32_t[]){0, 1, 3}, sizeof(int32_t[3]));
        CHECK(shard_anneal_partition(&graph.problem, &annealing, &stop, order, cut, &cost) ==
              SHARD_BAD_ORDER);
        memcpy(order, (int32_t[]){0, 1, 2}, sizeof(int32_t[3]));
        memcpy(cut, bad_cuts[i], sizeof bad_cuts[i]);
        CHECK(shard_anneal_partition(&graph.problem, &annealing, &stop, order, cut, &cost) ==
              SHARD_BAD_ORDER);
    }
    CHECK(shard_slice(&graph.problem, (int32_t[]){0, 1, 2}, NAN, &cost, cut) == SHARD_NAN);
    CHECK(shard_kahn_slice(&graph.problem, 1, graph.priority, NAN, &cost) == SHARD_NAN);
    graph.priority[2] = NAN;
    CHECK(sort(&graph, order) == SHARD_NAN);
    CHECK(shard_kahn_slice(&graph.problem, 1, graph.priority, INFINITY, &cost) == SHARD_NAN);
    graph.priority[2] = 0.5;
    graph.readers[2] = 1;
    connect(&graph);
    CHECK(sort(&graph, order) == SHARD_CYCLE);
    CHECK(shard_kahn_slice(&graph.problem, 1, graph.priority, INFINITY, &cost) == SHARD_CYCLE);
}

/* Every allocation fails once, as do all after it; those before must be freed. */
static void check_no_memory(void) {
    struct graph graph;
    int32_t order[MOST_NODES], cut[MOST_NODES + 1];
    double cost[MOST_NODES];
    make(&graph, 8, 3, true);
    CHECK(sort(&graph, order) == SHARD_OK);
    const struct shard_annealing annealing = {.moves = 10, .hot = 0.1, .cold = 0.1};
    const int32_t stop = 0;
    CHECK(shard_slice(&graph.problem, order, INFINITY, cost, cut) == SHARD_OK);
    for (int call = 0; call < 6; call++) {
        int status = SHARD_NO_MEMORY, allocations = 0;
        for (; status == SHARD_NO_MEMORY && allocations < 100; allocations++) {
            WITH_MEMORY_FOR(allocations,
                            call == 0   ? sort(&graph, order)
                            : call == 1 ? shard_segment_costs(&graph.problem, order, 8, cost)
                            : call == 2 ? shard_slice(&graph.problem, order, INFINITY, cost, cut)
                            : call == 3 ? shard_kahn_slice(&graph.problem, 1, graph.priority, INFINITY, cost)
                            : call == 4
                                ? shard_anneal_partition(&graph.problem, &annealing, &stop, order, cut, cost)
                                : shard_kahn_arrangement(&graph.problem, 1, graph.priority, 1, cost));
        }
        CHECK(status == SHARD_OK);
        CHECK(allocations > 2);
    }
}

/* Two chains whose nodes alternate in the order: cutting it in half costs 14, separating the chains 8; with
 * memory for four parameters and five units, the two tensors in use overflow by one. Costs are recomputed. */
static void check_alternating_chains(void) {
    for (int limited = 0; limited < 2; limited++) {
        struct graph graph;
        int32_t order[8] = {0, 1, 2, 3, 4, 5, 6, 7}, cut[3] = {0, 4, 8}, stop = 0;
        struct shard_annealing annealing = {
            .moves = 5000000, .seed = 1, .hot = 0.5, .cold = 0.5, .margin = 0.05, .enough = -1.0};
        double cost;
        make(&graph, 8, 2, limited);
        memset(graph.readers, 0, sizeof graph.readers);
        for (int32_t v = 0; v < 8; v++) {
            graph.work[v] = 2.0;
            graph.output_size[v] = 3.0;
            graph.param_size[v] = 1.0;
            graph.readers[v] = v < 6 ? UINT32_C(4) << v : 0;
        }
        graph.problem.bandwidth = 1.0;
        graph.problem.memory = limited ? 9.0 : INFINITY;
        connect(&graph);
        CHECK(shard_anneal_partition(&graph.problem, &annealing, &stop, order, cut, &cost) == SHARD_OK);
        CHECK(same(cost, limited ? 9.0 : 8.0));
        annealing.moves = INT64_MAX; /* would take centuries */
        stop = 1;
        CHECK(shard_anneal_partition(&graph.problem, &annealing, &stop, order, cut, &cost) == SHARD_OK);
    }
}

/* A chain of n nodes of work 1 whose tensors cost nothing to move: stages of ceil(n / k) nodes. */
static void check_long_chain(void) {
    const int32_t n = 20000, stages = 7;
    int64_t *start = malloc((size_t)(2 * n + 2) * sizeof *start);
    int32_t *end = malloc((size_t)(3 * n) * sizeof *end);
    double *column = calloc((size_t)(2 * n), sizeof *column);
    double cost = -1.0;
    int32_t cut[8];
    for (int32_t v = 0; v < n; v++) {
        start[v] = v < n ? v : n - 1;
        start[n + 1 + v] = v > 0 ? v - 1 : 0;
        end[v] = v + 1;
        end[n + v] = v;
        end[2 * n + v] = v;
        column[v] = 1.0;
    }
    start[n] = n - 1;
    start[2 * n + 1] = n - 1;
    const struct shard_pipeline problem = {
        .nodes = n,
        .stages = stages,
        .out_start = start,
        .out_head = end,
        .in_start = start + n + 1,
        .in_tail = end + n,
        .work = column,
        .output_size = column + n,
        .param_size = column + n,
        .bandwidth = 1.0,
        .memory = INFINITY,
    };
    CHECK(shard_slice(&problem, end + 2 * n, INFINITY, &cost, cut) == SHARD_OK);
    CHECK(same(cost, (n + stages - 1) / stages));
    free(start);
    free(end);
    free(column);
}

/* A chain 0 -> 1 -> 2 -> 3 of work 1 whose tensors have sizes 5, 1 and 5: either end costs 1 + 5, the middle
 * 2 + 5 + 5; 0 and 1 cost 2 + 1; 0 and 2 cannot go without 1. Every allocation fails once. */
static void check_cheapest_set(void) {
    const int64_t start[5] = {0, 1, 2, 3, 3}, work[4] = {1, 1, 1, 1}, size[4] = {5, 1, 5, 9};
    const int32_t head[3] = {1, 2, 3};
    const uint64_t below[4] = {14, 12, 8, 0}, above[4] = {0, 1, 3, 7};
    const int64_t weight[3][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {1, 0, 1, 0}}, need[3] = {1, 1, 2};
    const int64_t expected[3] = {3, 3, 4}; /* the last is all four nodes */
    const int64_t in_start[5] = {0, 0, 1, 2, 3};
    const int32_t tail[3] = {0, 1, 2};
    const int8_t fixed[4] = {0};
    const struct shard_set_costs costs = {4, start, head, in_start, tail, work, size, below, above, NULL, 0};
    for (int i = 0; i < 3; i++) {
        int status = SHARD_NO_MEMORY;
        for (int allocations = 0; status == SHARD_NO_MEMORY && allocations < 100; allocations++) {
            int64_t cuts = 1000, cost = -1, proved = -1;
            int32_t stop = 0;
            int8_t member[4];
            WITH_MEMORY_FOR(allocations,
                            shard_cheapest_set(&costs, weight[i], need[i], fixed, 100, 0, INFINITY, NULL,
                                               &stop, &cuts, &cost, &proved, member));
            if (status == SHARD_OK)
                CHECK(cost == expected[i] && proved == cost && (i < 2 || member[1]));
        }
        CHECK(status == SHARD_OK);
    }
}

/* Two nodes without an edge, of work 1 and 2: the sets that hold the first cost 1 and 3. Every allocation fails once. */
static void check_list_sets(void) {
    const int64_t start[3] = {0}, work[2] = {1, 2}, size[2] = {0}, weight[2] = {1, 0};
    const uint64_t related[2] = {0};
    const int8_t fixed[2] = {0};
    const struct shard_set_costs costs = {2, start, NULL, start, NULL, work, size, related, related, NULL, 0};
    int status = SHARD_NO_MEMORY;
    for (int allocations = 0; status == SHARD_NO_MEMORY && allocations < 100; allocations++) {
        int64_t count = 8, cost[8], proved = -1;
        uint64_t member[8];
        int32_t stop = 0;
        WITH_MEMORY_FOR(allocations, shard_list_sets(&costs, weight, 1, fixed, 100, INFINITY, NULL, &stop,
                                                     &count, cost, member, &proved));
        if (status == SHARD_OK) {
            CHECK(count == 2 && proved == 100 && cost[0] + cost[1] == 4);
            CHECK((member[0] | member[1]) == 3 && (member[0] & member[1]) == 1);
        }
    }
    CHECK(status == SHARD_OK);
}

/* The chain above: a tree proves the same costs, with numbers that move no more than a tensor. Every allocation fails
 * once; 8 nodes are the fewest that the caller may offer. */
static void check_prove_sets(void) {
    const int64_t start[5] = {0, 1, 2, 3, 3}, work[4] = {1, 1, 1, 1}, size[4] = {5, 1, 5, 9};
    const int32_t head[3] = {1, 2, 3}, tail[3] = {0, 1, 2};
    const uint64_t below[4] = {14, 12, 8, 0}, above[4] = {0, 1, 3, 7};
    const int64_t weight[4] = {1, 0, 1, 0}, in_start[5] = {0, 0, 1, 2, 3}, expected[3] = {4, 4, 4};
    const int8_t fixed[4] = {0};
    for (int i = 0; i < 3; i++) {
        const struct shard_set_costs costs = {4,    start, head,  in_start, tail, work,
                                              size, below, above, NULL,     i - 1};
        int status = SHARD_NO_MEMORY;
        for (int allocations = 0; status == SHARD_NO_MEMORY && allocations < 100; allocations++) {
            int64_t count = 8, price[8], moved[8 * 3], closed[8 * 3], proved = -1;
            int32_t branch[8];
            WITH_MEMORY_FOR(allocations, shard_prove_sets(&costs, weight, 2, fixed, 100, INFINITY, &count,
                                                          branch, price, moved, closed, &proved));
            if (status == SHARD_OK) {
                int64_t leaves = 0;
                for (int64_t at = 0; at < count; at++) {
                    leaves += branch[at] < 0;
                    for (int e = 0; price[at] >= 0 && e < 3; e++)
                        CHECK(llabs(moved[3 * at + e]) <= size[tail[e]]);
                }
                CHECK(count <= 8 && 2 * leaves == count + 1 && proved <= expected[i] && proved >= 0);
            }
        }
        CHECK(status == SHARD_OK);
    }
}

/* The graph for the searches for cheap sets, with integer costs. */
struct integer_graph {
    struct shard_set_costs problem;
    int64_t work[MOST_NODES], size[MOST_NODES], weight[MOST_NODES];
    uint64_t below[MOST_NODES], above[MOST_NODES];
};

static void make_integer_graph(const struct graph *graph, struct integer_graph *whole) {
    const int32_t n = graph->problem.nodes;
    memset(whole, 0, sizeof *whole);
    for (int32_t v = 0; v < n; v++) {
        whole->work[v] = draw(10);
        whole->size[v] = draw(6);
        whole->weight[v] = draw(4);
        whole->below[v] = graph->readers[v];
    }
    for (int32_t round = 0; round < n; round++)
        for (int32_t v = 0; v < n; v++)
            for (int32_t u = 0; u < n; u++)
                whole->below[v] |= whole->below[v] >> u & 1 ? whole->below[u] : 0;
    for (int32_t v = 0; v < n; v++)
        for (int32_t u = 0; u < n; u++)
            whole->above[u] |= (whole->below[v] >> u & 1) << v;
    whole->problem = (struct shard_set_costs){n,
                                              graph->out_start,
                                              graph->out_head,
                                              graph->in_start,
                                              graph->in_tail,
                                              whole->work,
                                              whole->size,
                                              whole->below,
                                              whole->above,
                                              NULL,
                                              0};
}

/* True if no path leaves a set and comes back. */
static bool is_convex(const struct integer_graph *whole, uint64_t set) {
    for (int32_t v = 0; v < whole->problem.nodes; v++)
        if (!(set >> v & 1) && whole->below[v] & set && whole->above[v] & set)
            return false;
    return true;
}

static int64_t weight_of(const struct integer_graph *whole, uint64_t set) {
    int64_t sum = 0;
    for (int32_t v = 0; v < whole->problem.nodes; v++)
        sum += set >> v & 1 ? whole->weight[v] : 0;
    return sum;
}

/* The work of its nodes plus the sizes of the tensors that enter or leave it. */
static int64_t cost_of_set(const struct graph *graph, const struct integer_graph *whole, uint64_t set) {
    int64_t sum = 0;
    for (int32_t v = 0; v < whole->problem.nodes; v++) {
        const bool in = set >> v & 1;
        sum += (in ? whole->work[v] : 0) + (graph->readers[v] & (in ? ~set : set) ? whole->size[v] : 0);
    }
    return sum;
}

/* The greatest weight of convex sets below the limit; -1 if there are none. */
static int64_t heaviest_of(const struct graph *graph, const struct integer_graph *whole, int64_t limit) {
    int64_t most = -1;
    for (uint64_t set = 0; set < UINT64_C(1) << whole->problem.nodes; set++)
        if (is_convex(whole, set) && cost_of_set(graph, whole, set) < limit && weight_of(whole, set) > most)
            most = weight_of(whole, set);
    return most;
}

/* Anneal from a single node, or none; true if the set found, whose cost is right, is the heaviest. */
static bool check_anneal_set(void) {
    struct graph graph;
    struct integer_graph whole;
    make(&graph, draw(9), 1, false);
    make_integer_graph(&graph, &whole);
    const int32_t n = graph.problem.nodes, first = n ? draw(n + 1) : 0;
    const int64_t limit = 1 + draw(40), need = 1 + draw(6), most = heaviest_of(&graph, &whole, limit);
    const uint64_t seed = (uint64_t)draw(1000);
    int8_t member[MOST_NODES] = {0}, again[MOST_NODES] = {0};
    int64_t cost = -1, cost_again = -1;
    if (first < n)
        member[first] = again[first] = 1;
    CHECK(shard_anneal_set(&whole.problem, whole.weight, need, limit, 3000, 0.5, seed, member, &cost) ==
          SHARD_OK);
    CHECK(shard_anneal_set(&whole.problem, whole.weight, need, limit, 3000, 0.5, seed, again, &cost_again) ==
          SHARD_OK);
    CHECK(memcmp(member, again, sizeof member) == 0 && cost == cost_again);
    uint64_t set = 0;
    for (int32_t v = 0; v < n; v++)
        set |= (uint64_t)(member[v] == 1) << v;
    const int64_t weight = weight_of(&whole, set);
    CHECK(is_convex(&whole, set) && weight <= (most < 0 ? 0 : most));
    CHECK(set == 0 || cost_of_set(&graph, &whole, set) < limit);
    CHECK(cost == (weight >= need ? cost_of_set(&graph, &whole, set) : limit));
    return weight == most || most < 0;
}

/* Annealing may miss the heaviest set, but not often. */
static void check_anneal_sets(void) {
    int32_t hits = 0;
    for (int32_t round = 0; round < 200 / PART; round++)
        hits += check_anneal_set();
    CHECK(hits > 190 / PART);
}

static void check_all(bool wrong) {
    check_by_hand(wrong);
    if (wrong)
        return;
    check_cheapest_set();
    check_list_sets();
    check_prove_sets();
    check_anneal_sets();
    check_random_graphs();
    check_refusals();
    check_no_memory();
    check_alternating_chains();
    check_long_chain();
}
