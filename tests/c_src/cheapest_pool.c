/* The cheapest division between two processors, against all divisions. */
#include "placement/cheapest_pool.h"
#include "check.h"

#define MOST_NODES 9
#define MOST_NETS 12
#define ROUNDS 400
#define NEVER INT64_MAX

struct problem {
    struct shard_hypergraph graph;
    int64_t start[MOST_NODES + 1], cost[MOST_NETS], work[MOST_NODES], apart[MOST_NODES];
    int32_t of[MOST_NODES * MOST_NETS], members[MOST_NETS];
    bool pin[MOST_NETS][MOST_NODES];
};

static void make(struct problem *problem) {
    memset(problem, 0, sizeof *problem);
    const int64_t unit = draw(4) ? 1 : (int64_t)1 << 42; /* then the sum is near the allowed maximum */
    problem->graph = (struct shard_hypergraph){
        2 + draw(MOST_NODES - 1), draw(MOST_NETS + 1), problem->start, problem->of,
        problem->members,         problem->cost,       problem->work,
    };
    int64_t pins = 0;
    for (int32_t net = 0; net < problem->graph.nets; net++) {
        problem->cost[net] = unit * draw(8);
        for (int32_t count = 2 + draw(4); count > 0 || problem->members[net] < 2; count--) {
            bool *pin = &problem->pin[net][draw(problem->graph.nodes)];
            problem->members[net] += !*pin;
            *pin = true;
        }
    }
    for (int32_t v = 0; v < problem->graph.nodes; v++) {
        problem->work[v] = draw(8) ? unit * draw(9) * (draw(8) ? 1 : 20) : -1;
        problem->apart[v] = unit * draw(9);
        for (int32_t net = 0; net < problem->graph.nets; net++)
            if (problem->pin[net][v])
                problem->of[pins++] = net;
        problem->start[v + 1] = pins;
    }
}

/* The cost of a set, given as a bit per node; -1 if it is not allowed. */
static int64_t cost_of(const struct problem *problem, uint32_t set) {
    int64_t cost = 0;
    for (int32_t v = 0; v < problem->graph.nodes; v++) {
        if (set >> v & 1 && problem->work[v] < 0)
            return -1;
        cost += set >> v & 1 ? problem->work[v] : 0;
    }
    for (int32_t net = 0; net < problem->graph.nets; net++) {
        int32_t here = 0;
        for (int32_t v = 0; v < problem->graph.nodes; v++)
            here += problem->pin[net][v] && set >> v & 1;
        cost += here > 0 && here < problem->members[net] ? problem->cost[net] : 0;
    }
    return cost;
}

/* The cost of a division, whose set is allowed. */
static int64_t division(const struct problem *problem, uint32_t set) {
    int64_t cost = cost_of(problem, set);
    for (int32_t v = 0; v < problem->graph.nodes; v++)
        cost += set >> v & 1 ? 0 : problem->apart[v];
    return cost;
}

static void check(const struct problem *problem, int64_t wrong) {
    int64_t bound = -1, least = NEVER;
    int8_t inside[MOST_NODES];
    uint32_t found = 0, common = UINT32_MAX;
    CHECK(shard_cheapest_pool(&problem->graph, problem->apart, &bound, inside) == SHARD_OK);
    for (uint32_t set = 0; set < 1u << problem->graph.nodes; set++)
        if (cost_of(problem, set) >= 0 && division(problem, set) <= least) {
            common = (division(problem, set) < least ? UINT32_MAX : common) & set;
            least = division(problem, set);
        }
    for (int32_t v = 0; v < problem->graph.nodes; v++)
        found |= inside[v] ? 1u << v : 0;
    CHECK(bound == least + wrong);
    CHECK(found == common); /* the smallest cheapest set is the one that all have in common */
}

/* Every allocation fails once; then nothing has been written. */
static void check_no_memory(const struct problem *problem) {
    int status = SHARD_NO_MEMORY, allocations = 0;
    for (; status == SHARD_NO_MEMORY && allocations < 20; allocations++) {
        int64_t bound = -1;
        int8_t inside[MOST_NODES] = {-1};
        WITH_MEMORY_FOR(allocations, shard_cheapest_pool(&problem->graph, problem->apart, &bound, inside));
        CHECK(status == SHARD_OK || (status == SHARD_NO_MEMORY && inside[0] == -1 && bound == -1));
    }
    CHECK(status == SHARD_OK && allocations > 8);
}

static void check_all(bool wrong) {
    struct problem problem;
    for (int32_t round = 0; round < (wrong ? 1 : ROUNDS); round++) {
        make(&problem);
        check(&problem, wrong);
    }
    if (!wrong)
        check_no_memory(&problem);
}
