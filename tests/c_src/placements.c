/* The searches for placements against the definition of loads; exits with 1 and a line for each thing that is
 * wrong. With an argument it only expects one wrong result, so that whoever runs it can see that it would be
 * noticed. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "check.h"
#include "placing.h"

#define MOST_NODES 40
#define MOST_NETS 60
#define MOST_DEVICES 12
#define ROUNDS 100

struct problem {
    struct shard_devices devices;
    double accelerator_time[MOST_NODES], cpu_time[MOST_NODES], size[MOST_NODES], transfer[MOST_NETS];
    int64_t net_start[MOST_NODES + 1];
    int32_t net[MOST_NODES * MOST_NETS], members[MOST_NETS];
    bool pin[MOST_NETS][MOST_NODES];
    int32_t device[MOST_NODES]; /* an allowed placement */
};

static void make_nets(struct problem *problem) {
    int64_t pins = 0;
    for (int32_t net = 0; net < problem->devices.nets; net++) {
        problem->transfer[net] = draw(5);
        for (int32_t count = 2 + draw(draw(8) ? 3 : MOST_NODES); count > 0; count--)
            problem->pin[net][draw(problem->devices.nodes)] = true;
        for (int32_t v = 0; v < problem->devices.nodes; v++)
            problem->members[net] += problem->pin[net][v];
    }
    for (int32_t v = 0; v < problem->devices.nodes; v++) {
        for (int32_t net = 0; net < problem->devices.nets; net++)
            if (problem->pin[net][v])
                problem->net[pins++] = net;
        problem->net_start[v + 1] = pins;
    }
}

/* The memory is what a random placement takes at most, and a little more. */
static void make(struct problem *problem) {
    memset(problem, 0, sizeof *problem);
    const int32_t accelerators = draw(MOST_DEVICES - 1), cpus = 1 + draw(2);
    double used[MOST_DEVICES] = {0.0}, memory = 0.0;
    problem->devices = (struct shard_devices){
        1 + draw(MOST_NODES),
        draw(MOST_NETS + 1),
        accelerators,
        cpus,
        0.0, /* set below */
        problem->accelerator_time,
        problem->cpu_time,
        problem->size,
        problem->net_start,
        problem->net,
        problem->transfer,
        problem->members,
    };
    for (int32_t v = 0; v < problem->devices.nodes; v++) {
        problem->accelerator_time[v] = draw(8) ? (double)draw(9) : (double)INFINITY;
        problem->cpu_time[v] = draw(20);
        problem->size[v] = draw(4);
        problem->device[v] = draw(accelerators + cpus);
        if (problem->device[v] < accelerators && isinf(problem->accelerator_time[v]))
            problem->device[v] = accelerators;
        used[problem->device[v]] += problem->size[v];
    }
    for (int32_t d = 0; d < accelerators; d++)
        memory = fmax(memory, used[d]);
    problem->devices.memory = memory + draw(4);
    make_nets(problem);
}

static double load_of(const struct problem *problem, const int32_t *device, int32_t d) {
    const bool on_cpu = d >= problem->devices.accelerators;
    double load = 0.0;
    for (int32_t v = 0; v < problem->devices.nodes; v++)
        if (device[v] == d)
            load += on_cpu ? problem->cpu_time[v] : problem->accelerator_time[v];
    for (int32_t net = 0; net < problem->devices.nets && !on_cpu; net++) {
        int32_t here = 0;
        for (int32_t v = 0; v < problem->devices.nodes; v++)
            here += problem->pin[net][v] && device[v] == d;
        load += here > 0 && here < problem->members[net] ? problem->transfer[net] : 0.0;
    }
    return load;
}

static double cost_of(const struct problem *problem, const int32_t *device) {
    double cost = 0.0;
    for (int32_t d = 0; d < problem->devices.accelerators + problem->devices.cpus; d++)
        cost = fmax(cost, load_of(problem, device, d));
    return cost;
}

/* Whether what is on accelerators is supported and fits; loads of what is not are infinite. */
static bool fits(const struct problem *problem, const int32_t *device) {
    for (int32_t d = 0; d < problem->devices.accelerators; d++) {
        double used = 0.0;
        for (int32_t v = 0; v < problem->devices.nodes; v++)
            used += device[v] == d ? problem->size[v] : 0.0;
        if (used > problem->devices.memory)
            return false;
    }
    return isfinite(cost_of(problem, device));
}

/* Times are whole numbers, so that all sums are exact. */
static void check_annealing(const struct problem *problem) {
    const struct shard_cooling cooling = {2000, 5.0, 0.1, draw(2) ? 0.3 : 0.0, draw(2)};
    int32_t device[MOST_NODES], best[MOST_NODES] = {0}, again[MOST_NODES], same[MOST_NODES] = {0};
    double load[MOST_DEVICES], cost = INFINITY, other = INFINITY;
    uint64_t random = (uint64_t)draw(1000), twin = random;
    memcpy(device, problem->device, sizeof device);
    memcpy(again, problem->device, sizeof again);
    for (int32_t slice = 0; slice < 3; slice++) {
        const double before = cost;
        CHECK(shard_place(&problem->devices, &cooling, &random, device, best, &cost, load) == SHARD_OK);
        CHECK(shard_place(&problem->devices, &cooling, &twin, again, same, &other, load) == SHARD_OK);
        CHECK(cost <= before && cost == cost_of(problem, best));
        CHECK(fits(problem, device) && fits(problem, best));
        for (int32_t d = 0; d < problem->devices.accelerators + problem->devices.cpus; d++)
            CHECK(load[d] == load_of(problem, device, d));
        CHECK(cost == other && random == twin && !memcmp(device, again, sizeof device) &&
              !memcmp(best, same, sizeof best));
    }
}

static double least_after_a_move(const struct problem *problem, const int32_t *device) {
    int32_t moved[MOST_NODES];
    double least = INFINITY;
    memcpy(moved, device, sizeof moved);
    for (int32_t v = 0; v < problem->devices.nodes; v++) {
        for (int32_t d = 0; d < problem->devices.accelerators; d++) {
            moved[v] = device[v] < problem->devices.accelerators ? d : device[v];
            if (fits(problem, moved))
                least = fmin(least, cost_of(problem, moved));
        }
        moved[v] = device[v];
    }
    return least;
}

static void check_descent(const struct problem *problem) {
    int32_t device[MOST_NODES];
    memcpy(device, problem->device, sizeof device);
    double cost = INFINITY, before = cost_of(problem, device);
    for (int64_t made = 1; made == 1;) {
        const double least = least_after_a_move(problem, device);
        CHECK(shard_descend(&problem->devices, 1, device, &cost, &made) == SHARD_OK);
        CHECK(cost == cost_of(problem, device) && fits(problem, device));
        CHECK(made == 1 ? cost == least && cost < before : cost == before && !(least < before));
        before = cost;
    }
}

/* Every allocation fails once; then nothing has been written. */
static void check_no_memory(void) {
    const struct shard_cooling cooling = {2000, 5.0, 0.1, 0.3, 0};
    struct problem problem;
    make(&problem);
    for (int call = 0; call < 2; call++) {
        int status = SHARD_NO_MEMORY, allocations = 0;
        for (; status == SHARD_NO_MEMORY && allocations < 12; allocations++) {
            int32_t device[MOST_NODES], best[MOST_NODES] = {-1};
            double cost = INFINITY, load[MOST_DEVICES] = {-1.0};
            uint64_t random = 1;
            int64_t made = -1;
            memcpy(device, problem.device, sizeof device);
            granted = allocations;
            if (call == 0)
                status = shard_place(&problem.devices, &cooling, &random, device, best, &cost, load);
            if (call == 1)
                status = shard_descend(&problem.devices, 1, device, &cost, &made);
            granted = -1;
            if (status == SHARD_NO_MEMORY)
                CHECK(best[0] == -1 && load[0] == -1.0 && isinf(cost) && random == 1 && made == -1 &&
                      !memcmp(device, problem.device, sizeof device));
        }
        CHECK(status == SHARD_OK && allocations > 4);
    }
}

int main(int arguments, char **argument) {
    (void)argument;
    struct problem problem;
    if (arguments > 1) {
        make(&problem);
        const double wrong = cost_of(&problem, problem.device) + 1.0;
        CHECK(wrong == cost_of(&problem, problem.device));
        return failures > 0;
    }
    for (int32_t round = 0; round < ROUNDS; round++) {
        make(&problem);
        check_annealing(&problem);
        check_descent(&problem);
    }
    check_no_memory();
    return failures > 0;
}
