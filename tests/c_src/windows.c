/* Work of ancestors, against paths; windows of work, against all partitions into stages. */
#include "check.h"
#include "pipeline/windows/closure_work.h"
#include "pipeline/windows/window_cuts.h"

#define MOST_NODES 6
#define STAGES 4
#define ROUNDS (300 / PART)
#define LONG_CHAIN 200

static const int32_t go = 0, stopped = 1;

struct problem {
    int32_t nodes, order[MOST_NODES], reverse[MOST_NODES], head[MOST_NODES * MOST_NODES],
        tail[MOST_NODES * MOST_NODES];
    int64_t out_start[MOST_NODES + 1], in_start[MOST_NODES + 1], work[MOST_NODES], size[MOST_NODES],
        before[MOST_NODES], after[MOST_NODES], total, heaviest;
    bool edge[MOST_NODES][MOST_NODES], path[MOST_NODES][MOST_NODES];
};

static void find_paths(struct problem *p) {
    for (int32_t v = p->nodes - 1; v >= 0; v--) {
        memset(p->path[v], 0, sizeof p->path[v]);
        p->path[v][v] = true;
        for (int32_t w = v + 1; w < p->nodes; w++)
            for (int32_t x = w; p->edge[v][w] && x < p->nodes; x++)
                p->path[v][x] |= p->path[w][x];
    }
}

static void make(struct problem *p) {
    const int64_t unit = draw(4) ? 1 : (int64_t)1 << 40;
    const int32_t density = 1 + draw(4);
    p->nodes = 1 + draw(MOST_NODES);
    p->total = p->heaviest = p->in_start[0] = p->out_start[0] = 0;
    for (int32_t v = 0; v < p->nodes; v++) {
        p->order[v] = v;
        p->reverse[v] = p->nodes - 1 - v;
        p->work[v] = unit * draw(9);
        p->size[v] = unit * draw(9);
        p->total += p->work[v];
        p->heaviest = p->work[v] > p->heaviest ? p->work[v] : p->heaviest;
        for (int32_t w = 0; w < p->nodes; w++)
            p->edge[v][w] = v < w && draw(4) < density;
    }
    int64_t outs = 0, ins = 0;
    for (int32_t v = 0; v < p->nodes; v++) {
        for (int32_t w = 0; w < p->nodes; w++) {
            if (p->edge[v][w])
                p->head[outs++] = w;
            if (p->edge[w][v])
                p->tail[ins++] = w;
        }
        p->out_start[v + 1] = outs;
        p->in_start[v + 1] = ins;
    }
    find_paths(p);
}

static void check_closures(struct problem *p, int64_t wrong) {
    CHECK(shard_closure_work(p->nodes, p->order, p->in_start, p->tail, p->work, &go, p->before) == SHARD_OK);
    CHECK(shard_closure_work(p->nodes, p->reverse, p->out_start, p->head, p->work, &go, p->after) ==
          SHARD_OK);
    for (int32_t v = 0; v < p->nodes; v++) {
        int64_t before = 0, after = 0;
        for (int32_t u = 0; u < p->nodes; u++) {
            before += p->path[u][v] ? p->work[u] : 0;
            after += p->path[v][u] ? p->work[u] : 0;
        }
        CHECK(p->before[v] == before + (v == 0 ? wrong : 0));
        CHECK(p->after[v] == after);
    }
}

/* All windows together move no more of a tensor than its size. */
static void check_moved(const struct problem *p, const int64_t *moved, int64_t rows) {
    for (int32_t u = 0; u < p->nodes; u++) {
        int64_t all = 0;
        for (int64_t row = 0; row < rows; row++)
            for (int64_t e = p->out_start[u]; e < p->out_start[u + 1]; e++) {
                const int64_t amount = moved[row * p->out_start[p->nodes] + e];
                all += amount > 0 ? amount : 0;
            }
        CHECK(all <= p->size[u]);
    }
}

/* The size of the tensors between stages; -1 if an edge leads back or a stage does too much work. */
static int64_t crossing(const struct problem *p, const int32_t *stage, int64_t window) {
    int64_t sum = 0, work[STAGES] = {0};
    for (int32_t v = 0; v < p->nodes; v++) {
        bool crosses = false;
        work[stage[v]] += p->work[v];
        for (int32_t w = 0; w < p->nodes; w++) {
            if (p->edge[v][w] && stage[w] < stage[v])
                return -1;
            crosses |= p->edge[v][w] && stage[w] > stage[v];
        }
        sum += crosses ? p->size[v] : 0;
        if (work[stage[v]] > window)
            return -1;
    }
    return sum;
}

static bool next(const struct problem *p, int32_t *stage) {
    int32_t v = 0;
    while (v < p->nodes && ++stage[v] == STAGES)
        stage[v++] = 0;
    return v < p->nodes;
}

static void check_windows(const struct problem *p) {
    const int64_t least = p->heaviest > 0 ? p->heaviest : 1;
    const int64_t window = least + (draw(3) ? 0 : (p->total - least > 0 ? (p->total - least) / 3 : 0));
    const int64_t rows = p->total > 0 ? (p->total - 1) / window : 0, edges = p->out_start[p->nodes];
    int64_t bound = -1, none = -1, *moved = calloc((size_t)(rows * edges + 1), sizeof *moved);
    int32_t stage[MOST_NODES] = {0};
    CHECK(moved && shard_window_cuts(p->nodes, p->out_start, p->head, p->size, p->before, p->after, p->total,
                                     window, &go, &bound, moved) == SHARD_OK);
    check_moved(p, moved, rows);
    free(moved);
    do {
        const int64_t size = crossing(p, stage, window);
        CHECK(size < 0 || size >= bound);
    } while (next(p, stage));
    CHECK(shard_window_cuts(p->nodes, p->out_start, p->head, p->size, p->before, p->after, p->total, window,
                            &stopped, &none, NULL) == SHARD_OK);
    CHECK(none == 0 && bound >= 0);
}

/* A chain of equal work, longer than a block of the closures: each window has one end, whose tensor is least. */
static void check_chain(void) {
    int32_t order[LONG_CHAIN], reverse[LONG_CHAIN], other[LONG_CHAIN];
    int64_t in_start[LONG_CHAIN + 1], out_start[LONG_CHAIN + 1], work[LONG_CHAIN], size[LONG_CHAIN],
        before[LONG_CHAIN], after[LONG_CHAIN], bound = 0;
    for (int32_t v = 0; v <= LONG_CHAIN; v++) {
        in_start[v] = v > 0 ? v - 1 : 0;
        out_start[v] = v < LONG_CHAIN ? v : LONG_CHAIN - 1;
    }
    for (int32_t v = 0; v < LONG_CHAIN; v++) {
        order[v] = v;
        reverse[v] = LONG_CHAIN - 1 - v;
        work[v] = 1;
        size[v] = v % 10 == 4 ? 3 : 7; /* the fifth of ten nodes */
        other[v] = v;
    }
    CHECK(shard_closure_work(LONG_CHAIN, order, in_start, other, work, &go, before) == SHARD_OK);
    for (int32_t v = 0; v < LONG_CHAIN; v++)
        other[v] = v + 1;
    CHECK(shard_closure_work(LONG_CHAIN, reverse, out_start, other, work, &go, after) == SHARD_OK);
    for (int32_t v = 0; v < LONG_CHAIN; v++)
        CHECK(before[v] == v + 1 && after[v] == LONG_CHAIN - v);
    CHECK(shard_window_cuts(LONG_CHAIN, out_start, other, size, before, after, LONG_CHAIN, 10, &go, &bound,
                            NULL) == SHARD_OK);
    CHECK(bound == 3 * (LONG_CHAIN / 10 - 1)); /* the last window has all nodes, which may be the end */
}

/* Every allocation fails once. */
static void check_no_memory(struct problem *p) {
    int status = SHARD_NO_MEMORY, allocations = 0;
    int64_t bound = 0;
    for (; status == SHARD_NO_MEMORY && allocations < 60; allocations++)
        WITH_MEMORY_FOR(allocations,
                        shard_window_cuts(p->nodes, p->out_start, p->head, p->size, p->before, p->after,
                                          p->total, 1 + p->total / 4, &go, &bound, NULL));
    CHECK(status == SHARD_OK && allocations > 3);
    WITH_MEMORY_FOR(0, shard_closure_work(p->nodes, p->order, p->in_start, p->tail, p->work, &go, p->before));
    CHECK(status == SHARD_NO_MEMORY);
}

static void check_all(bool wrong) {
    struct problem problem;
    for (int32_t round = 0; round < (wrong ? 1 : ROUNDS); round++) {
        make(&problem);
        check_closures(&problem, wrong);
        check_windows(&problem);
    }
    if (!wrong) {
        check_chain();
        do
            make(&problem);
        while (problem.nodes < MOST_NODES);
        check_closures(&problem, wrong);
        check_no_memory(&problem);
    }
}
