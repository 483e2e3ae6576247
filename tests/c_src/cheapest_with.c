/* The cheapest set with each node, and the cheapest division between two processors, against all sets. */
#include "placement/cheapest_with.h"
#include "check.h"
#include "placement/cheapest_pool.h"

#define MOST_NODES 9
#define MOST_NETS 12
#define ROUNDS (400 / PART)
#define NEVER ((int64_t)1 << 51)

struct problem {
    struct shard_hypergraph graph;
    int64_t start[MOST_NODES + 1], cost[MOST_NETS], work[MOST_NODES], apart[MOST_NODES], unit;
    int32_t of[MOST_NODES * MOST_NETS], members[MOST_NETS];
    bool pin[MOST_NETS][MOST_NODES];
};

static void make(struct problem *problem) {
    memset(problem, 0, sizeof *problem);
    const int64_t unit = problem->unit =
        draw(4) ? 1 : (int64_t)1 << 42; /* then the sum is near the allowed maximum */
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
        problem->work[v] = draw(8) ? unit * draw(9) : -1;
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

/* The cost of the cheapest set with the node if it is more than the floor, else 0. */
static int64_t expected(const struct problem *problem, int32_t v, int64_t floor) {
    int64_t least = NEVER;
    for (uint32_t set = 0; set < 1u << problem->graph.nodes; set++) {
        const int64_t cost = set >> v & 1 ? cost_of(problem, set) : -1;
        least = cost >= 0 && cost < least ? cost : least;
    }
    return least > floor && least < NEVER ? least : 0;
}

static void check(const struct problem *problem, int64_t wrong) {
    int64_t least[MOST_NODES], cuts = -1, most = 0;
    const int64_t floor = problem->unit * draw(12);
    const int32_t go = 0, stop = 1;
    CHECK(shard_cheapest_with(&problem->graph, floor, &go, least, &cuts) == SHARD_OK);
    for (int32_t v = 0; v < problem->graph.nodes; v++) {
        CHECK(least[v] == expected(problem, v, floor) + (v == 0 ? wrong : 0));
        most = least[v] > most ? least[v] : most;
    }
    CHECK(cuts <= problem->graph.nodes && (cuts > 0 || most == 0));
    CHECK(shard_cheapest_with(&problem->graph, floor, &stop, least, &cuts) == SHARD_OK);
    for (int32_t v = 0; v < problem->graph.nodes; v++)
        CHECK(least[v] == 0);
}

/* Every allocation fails once; then nothing has been written. */
static void check_no_memory(const struct problem *problem) {
    const int32_t go = 0;
    int status = SHARD_NO_MEMORY, allocations = 0;
    for (; status == SHARD_NO_MEMORY && allocations < 20; allocations++) {
        int64_t least[MOST_NODES] = {-1}, cuts = -1;
        WITH_MEMORY_FOR(allocations, shard_cheapest_with(&problem->graph, 0, &go, least, &cuts));
        CHECK(status == SHARD_OK || (status == SHARD_NO_MEMORY && least[0] == -1 && cuts == -1));
    }
    CHECK(status == SHARD_OK && allocations > 10);
}

/* The cost of a division, whose set is allowed. */
static int64_t division(const struct problem *problem, uint32_t set) {
    int64_t cost = cost_of(problem, set);
    for (int32_t v = 0; v < problem->graph.nodes; v++)
        cost += set >> v & 1 ? 0 : problem->apart[v];
    return cost;
}

static void check_pool(const struct problem *problem) {
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
    CHECK(bound == least);
    CHECK(found == common); /* the smallest cheapest set is the one that all have in common */
}

static void check_no_memory_for_pool(const struct problem *problem) {
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
        check_pool(&problem);
    }
    if (!wrong) {
        check_no_memory(&problem);
        check_no_memory_for_pool(&problem);
    }
}
