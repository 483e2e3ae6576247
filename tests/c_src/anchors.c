/* The greatest of the cheapest sets against all sets; exits with 1 and a line for each thing that is wrong.
 * With an argument it only expects one wrong result, so that whoever runs it can see that it would be
 * noticed. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "anchor.h"
#include "check.h"

#define MOST_NODES 9
#define MOST_NETS 12
#define ROUNDS 400
#define NEVER ((int64_t)1 << 51)

struct problem {
    struct shard_hypergraph graph;
    int64_t start[MOST_NODES + 1], cost[MOST_NETS], work[MOST_NODES], price[MOST_NODES];
    int32_t of[MOST_NODES * MOST_NETS], members[MOST_NETS];
    bool pin[MOST_NETS][MOST_NODES];
};

static void make(struct problem *problem) {
    memset(problem, 0, sizeof *problem);
    const int64_t unit = draw(4) ? 1 : (int64_t)1 << 42; /* all together are near the most there may be */
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
        problem->price[v] = draw(3) ? unit * draw(30) : NEVER;
        for (int32_t net = 0; net < problem->graph.nets; net++)
            if (problem->pin[net][v])
                problem->of[pins++] = net;
        problem->start[v + 1] = pins;
    }
}

/* The cost of a set, as a bit for each node; -1 if it may not be. */
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

static int64_t expected(const struct problem *problem) {
    int64_t most = 0;
    for (int32_t v = 0; v < problem->graph.nodes; v++) {
        int64_t least = problem->price[v];
        for (uint32_t set = 0; set < 1u << problem->graph.nodes; set++) {
            const int64_t cost = set >> v & 1 ? cost_of(problem, set) : -1;
            least = cost >= 0 && cost < least ? cost : least;
        }
        most = least > most ? least : most;
    }
    return most;
}

static void check_stopped(const struct problem *problem, int64_t optimum) {
    const int32_t stop = 1;
    int64_t most = -1, cuts = -1;
    CHECK(shard_anchor(&problem->graph, problem->price, &stop, &most, &cuts) == SHARD_OK);
    CHECK(most >= 0 && most <= optimum && cuts == 0);
}

/* Every allocation fails once; then nothing has been written. */
static void check_no_memory(const struct problem *problem) {
    const int32_t stop = 0;
    int status = SHARD_NO_MEMORY, allocations = 0;
    for (; status == SHARD_NO_MEMORY && allocations < 20; allocations++) {
        int64_t most = -1, cuts = -1;
        granted = allocations;
        status = shard_anchor(&problem->graph, problem->price, &stop, &most, &cuts);
        granted = -1;
        CHECK(status == SHARD_OK || (status == SHARD_NO_MEMORY && most == -1 && cuts == -1));
    }
    CHECK(status == SHARD_OK && allocations > 10);
}

int main(int arguments, char **argument) {
    (void)argument;
    struct problem problem;
    const int32_t stop = 0;
    for (int32_t round = 0; round < (arguments > 1 ? 1 : ROUNDS); round++) {
        int64_t most = -1, cuts = -1;
        make(&problem);
        CHECK(shard_anchor(&problem.graph, problem.price, &stop, &most, &cuts) == SHARD_OK);
        const int64_t optimum = expected(&problem), wrong = optimum + (arguments > 1);
        CHECK(most == wrong && cuts <= problem.graph.nodes);
        check_stopped(&problem, optimum);
    }
    if (arguments == 1)
        check_no_memory(&problem);
    return failures > 0;
}
