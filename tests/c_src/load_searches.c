/* The searches for placements, against the definition of loads. */
#include "check.h"
#include "placement/load/anneal_load.h"
#include "placement/load/descend_load.h"

#define MOST_NODES 40
#define MOST_NETS 60
#define MOST_DEVICES 12
#define ROUNDS (100 / PART)

struct problem {
    struct shard_devices devices;
    double accelerator_time[MOST_NODES], cpu_time[MOST_NODES], size[MOST_NODES], transfer[MOST_NETS];
    int64_t net_start[MOST_NODES + 1];
    int32_t net[MOST_NODES * MOST_NETS], members[MOST_NETS];
    bool pin[MOST_NETS][MOST_NODES];
    struct shard_load_model model;
    int32_t maker[MOST_NETS], pass[MOST_NETS];
    double backward_accelerator_time[MOST_NODES], backward_cpu_time[MOST_NODES];
    int64_t out_start[MOST_NODES + 1], in_start[MOST_NODES + 1];
    int32_t out[MOST_NODES * MOST_NODES], in[MOST_NODES * MOST_NODES];
    bool edge[MOST_NODES][MOST_NODES];
    int32_t rank[MOST_DEVICES];
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

/* Edges that suit a random order of the devices. */
static void make_order(struct problem *problem) {
    const int32_t n = problem->devices.nodes, count = problem->devices.accelerators + problem->devices.cpus;
    for (int32_t d = 0; d < count; d++) {
        const int32_t other = draw(d + 1);
        problem->rank[d] = problem->rank[other];
        problem->rank[other] = d;
    }
    for (int32_t u = 0; u < n; u++)
        for (int32_t v = u + 1; v < n; v++)
            problem->edge[u][v] =
                draw(4) == 0 && problem->rank[problem->device[u]] <= problem->rank[problem->device[v]];
    for (int32_t v = 0; v < n; v++) {
        problem->out_start[v + 1] = problem->out_start[v];
        problem->in_start[v + 1] = problem->in_start[v];
        for (int32_t w = 0; w < n; w++) {
            if (problem->edge[v][w])
                problem->out[problem->out_start[v + 1]++] = w;
            if (problem->edge[w][v])
                problem->in[problem->in_start[v + 1]++] = w;
        }
    }
}

/* Each net gets a maker among its nodes if the model needs it. */
static void make_model(struct problem *problem, bool plain) {
    const int32_t overlap = plain ? 0 : draw(3), cluster = plain || draw(2) ? 0 : 1 + draw(3);
    problem->model = (struct shard_load_model){
        overlap,
        plain ? 1 : 1 + draw(2),
        cluster,
        cluster ? 3.0 : 1.0,
        problem->maker,
        problem->pass,
        problem->backward_accelerator_time,
        problem->backward_cpu_time,
        plain ? 0 : draw(2),
        problem->out_start,
        problem->out,
        problem->in_start,
        problem->in,
    };
    for (int32_t net = 0; net < problem->devices.nets; net++) {
        int32_t maker = draw(problem->devices.nodes);
        while (!problem->pin[net][maker])
            maker = (maker + 1) % problem->devices.nodes;
        problem->maker[net] = overlap == 2 || cluster ? maker : -1;
        problem->pass[net] = draw(problem->model.passes);
    }
    for (int32_t v = 0; v < problem->devices.nodes; v++) {
        const double time = problem->accelerator_time[v];
        problem->backward_accelerator_time[v] = isinf(time) ? 0.0 : draw(1 + (int32_t)time);
        problem->backward_cpu_time[v] = draw(1 + (int32_t)problem->cpu_time[v]);
    }
    make_order(problem);
}

/* The memory is the most that a random placement uses on a device, or slightly more. */
static void make(struct problem *problem, bool plain) {
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
    make_model(problem, plain);
}

static int32_t cluster_of(const struct problem *problem, int32_t d) {
    if (d >= problem->devices.accelerators)
        return -1;
    return problem->model.cluster ? d / problem->model.cluster : 0;
}

static bool is_far(const struct problem *problem, int32_t a, int32_t b) {
    const int32_t here = cluster_of(problem, a), there = cluster_of(problem, b);
    return here >= 0 && there >= 0 && here != there;
}

/* The cost of a net to accelerator d: the maker sends it once, at the rate of the farthest other device; each
 * other device receives it at the rate between the two. */
static double paid(const struct problem *problem, const int32_t *device, int32_t d, int32_t net, bool sends) {
    const int32_t home = problem->maker[net] < 0 ? -1 : device[problem->maker[net]];
    bool here = false, elsewhere = false, far = false;
    for (int32_t v = 0; v < problem->devices.nodes; v++) {
        if (!problem->pin[net][v])
            continue;
        here |= device[v] == d;
        elsewhere |= device[v] != d;
        far |= home >= 0 && is_far(problem, d, d == home ? device[v] : home);
    }
    if (!here || !elsewhere || sends != (d == home))
        return 0.0;
    return problem->transfer[net] * (far ? problem->model.slowdown : 1.0);
}

static double load_of(const struct problem *problem, const int32_t *device, int32_t d, int32_t pass) {
    const bool on_cpu = d >= problem->devices.accelerators;
    const double *whole = on_cpu ? problem->cpu_time : problem->accelerator_time;
    const double *backward = on_cpu ? problem->backward_cpu_time : problem->backward_accelerator_time;
    double computing = 0.0, in = 0.0, out = 0.0;
    for (int32_t v = 0; v < problem->devices.nodes; v++)
        if (device[v] == d && problem->model.passes == 1)
            computing += whole[v];
        else if (device[v] == d)
            computing += pass ? backward[v] : whole[v] - backward[v];
    for (int32_t net = 0; net < problem->devices.nets && !on_cpu; net++) {
        if (problem->pass[net] == pass) {
            in += paid(problem, device, d, net, false);
            out += paid(problem, device, d, net, true);
        }
    }
    if (problem->model.overlap == 0)
        return computing + in + out;
    return fmax(computing, problem->model.overlap == 1 ? in + out : fmax(in, out));
}

static double cost_of(const struct problem *problem, const int32_t *device) {
    double cost = 0.0;
    for (int32_t pass = 0; pass < problem->model.passes; pass++) {
        double greatest = 0.0;
        for (int32_t d = 0; d < problem->devices.accelerators + problem->devices.cpus; d++)
            greatest = fmax(greatest, load_of(problem, device, d, pass));
        cost += greatest;
    }
    return cost;
}

/* True if no edge runs against the order of the devices. */
static bool follows(const struct problem *problem, const int32_t *device, const int32_t *rank) {
    bool ahead = true;
    for (int32_t u = 0; u < problem->devices.nodes; u++)
        for (int32_t v = 0; v < problem->devices.nodes; v++)
            ahead &= !problem->edge[u][v] || rank[device[u]] <= rank[device[v]];
    return ahead || !problem->model.ordered;
}

/* True if accelerators support and can hold their nodes; unsupported nodes give infinite loads. */
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
    const struct shard_load_cooling cooling = {1000, 5.0, 0.1, draw(2) ? 0.3 : 0.0, draw(2)};
    int32_t device[MOST_NODES], best[MOST_NODES] = {0}, again[MOST_NODES], same[MOST_NODES] = {0};
    double load[2 * MOST_DEVICES], cost = INFINITY, other = INFINITY;
    int32_t rank[MOST_DEVICES], ranked[MOST_DEVICES];
    uint64_t random = (uint64_t)draw(1000), twin = random;
    memcpy(rank, problem->rank, sizeof rank);
    memcpy(ranked, problem->rank, sizeof ranked);
    memcpy(device, problem->device, sizeof device);
    memcpy(again, problem->device, sizeof again);
    for (int32_t slice = 0; slice < 3; slice++) {
        const double before = cost;
        CHECK(shard_anneal_load(&problem->devices, &problem->model, &cooling, &random, rank, device, best,
                                &cost, load) == SHARD_OK);
        CHECK(shard_anneal_load(&problem->devices, &problem->model, &cooling, &twin, ranked, again, same,
                                &other, load) == SHARD_OK);
        CHECK(cost <= before && cost == cost_of(problem, best));
        CHECK(fits(problem, device) && fits(problem, best));
        CHECK(follows(problem, device, rank));
        for (int32_t d = 0; d < problem->devices.accelerators + problem->devices.cpus; d++)
            for (int32_t p = 0; p < problem->model.passes; p++)
                CHECK(load[d * problem->model.passes + p] == load_of(problem, device, d, p));
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
        CHECK(shard_descend_load(&problem->devices, &problem->model, 1, device, &cost, &made) == SHARD_OK);
        CHECK(cost == cost_of(problem, device) && fits(problem, device));
        CHECK(made == 1 ? cost == least && cost < before : cost == before && !(least < before));
        before = cost;
    }
}

/* Every allocation fails once; then nothing has been written. */
static void check_no_memory(void) {
    const struct shard_load_cooling cooling = {2000, 5.0, 0.1, 0.3, 0};
    struct problem problem;
    for (int call = 0; call < 2; call++) {
        do
            make(&problem, call == 1);
        while (call == 0 && !problem.model.ordered);
        int status = SHARD_NO_MEMORY, allocations = 0;
        for (; status == SHARD_NO_MEMORY && allocations < 20; allocations++) {
            int32_t device[MOST_NODES], best[MOST_NODES] = {-1};
            double cost = INFINITY, load[2 * MOST_DEVICES] = {-1.0};
            int32_t rank[MOST_DEVICES];
            uint64_t random = 1;
            int64_t made = -1;
            memcpy(device, problem.device, sizeof device);
            memcpy(rank, problem.rank, sizeof rank);
            WITH_MEMORY_FOR(allocations, call == 0
                                             ? shard_anneal_load(&problem.devices, &problem.model, &cooling,
                                                                 &random, rank, device, best, &cost, load)
                                             : shard_descend_load(&problem.devices, &problem.model, 1, device,
                                                                  &cost, &made));
            if (status == SHARD_NO_MEMORY)
                CHECK(best[0] == -1 && load[0] == -1.0 && isinf(cost) && random == 1 && made == -1 &&
                      !memcmp(device, problem.device, sizeof device));
        }
        CHECK(status == SHARD_OK && allocations > 4);
    }
}

static void check_all(bool wrong) {
    struct problem problem;
    if (wrong) {
        make(&problem, true);
        CHECK(cost_of(&problem, problem.device) + wrong == cost_of(&problem, problem.device));
        return;
    }
    for (int32_t round = 0; round < ROUNDS; round++) {
        make(&problem, true);
        check_annealing(&problem);
        check_descent(&problem);
        make(&problem, false);
        check_annealing(&problem);
    }
    check_no_memory();
}
