/* The kernels over ideals, against their definitions on sets of nodes as bits. */
#include "check.h"
#include "common/ideals.h"
#include "placement/ideals/clusters_dp.h"
#include "placement/ideals/split_dp.h"
#include "placement/ideals/stages_dp.h"

#define MOST_NODES 8
#define MOST_SETS (1 << MOST_NODES)
#define MOST_LINKS (MOST_SETS * MOST_NODES)
#define MOST_NETS 10
#define MOST_ROW 16
#define ROUNDS (3000 / PART)

struct graph {
    struct shard_dag order;
    int64_t out_start[MOST_NODES + 1], in_start[MOST_NODES + 1];
    int32_t out_head[MOST_NODES * MOST_NODES], in_tail[MOST_NODES * MOST_NODES];
    uint32_t before[MOST_NODES]; /* as bits */
    struct shard_devices devices;
    double accelerator_time[MOST_NODES], cpu_time[MOST_NODES], size[MOST_NODES], transfer[MOST_NETS];
    int64_t net_start[MOST_NODES + 1];
    int32_t net[MOST_NODES * MOST_NETS], members[MOST_NETS];
    uint32_t pins[MOST_NETS]; /* as bits */
    /* the ideals listed */
    int64_t ideals, links, link_start[MOST_SETS + 1];
    int32_t link_node[MOST_LINKS], link_ideal[MOST_LINKS];
    uint32_t set[MOST_SETS]; /* as bits */
};

static void connect(struct graph *graph) {
    const int32_t n = graph->order.nodes;
    int64_t out = 0, in = 0, pins = 0;
    for (int32_t v = 0; v < n; v++) {
        for (int32_t u = 0; u < n; u++) {
            if (graph->before[u] >> v & 1)
                graph->out_head[out++] = u;
            if (graph->before[v] >> u & 1)
                graph->in_tail[in++] = u;
        }
        for (int32_t net = 0; net < graph->devices.nets; net++)
            if (graph->pins[net] >> v & 1)
                graph->net[pins++] = net;
        graph->out_start[v + 1] = out;
        graph->in_start[v + 1] = in;
        graph->net_start[v + 1] = pins;
    }
}

static void make(struct graph *graph) {
    memset(graph, 0, sizeof *graph);
    const int32_t n = draw(MOST_NODES + 1), density = draw(80), nets = n ? draw(MOST_NETS + 1) : 0;
    graph->order = (struct shard_dag){n, graph->out_start, graph->out_head, graph->in_start, graph->in_tail};
    for (int32_t v = 0; v < n; v++) {
        graph->accelerator_time[v] = draw(8) ? (double)draw(9) : (double)INFINITY;
        graph->cpu_time[v] = draw(20);
        graph->size[v] = draw(4);
        for (int32_t u = 0; u < v; u++)
            if (draw(100) < density)
                graph->before[v] |= UINT32_C(1) << u;
    }
    for (int32_t net = 0; net < nets; net++) {
        graph->transfer[net] = draw(5);
        graph->pins[net] = (uint32_t)draw(1 << n);
        graph->members[net] = __builtin_popcount(graph->pins[net]);
    }
    struct graph *g = graph;
    const int32_t accelerators = draw(4), cpus = draw(3), memory = draw(12);
    g->devices =
        (struct shard_devices){n,           nets,    accelerators, cpus,   memory,      g->accelerator_time,
                               g->cpu_time, g->size, g->net_start, g->net, g->transfer, g->members};
    connect(graph);
}

static bool is_ideal(const struct graph *graph, uint32_t set) {
    for (int32_t v = 0; v < graph->order.nodes; v++)
        if (set >> v & 1 && graph->before[v] & ~set)
            return false;
    return true;
}

/* Every ideal is listed once, after all its subsets, with its maximal nodes. */
static void check_listing(struct graph *graph) {
    const int32_t n = graph->order.nodes;
    int64_t ideals = 0, links = 0, listed = 0;
    CHECK(shard_count_ideals(&graph->order, MOST_SETS, MOST_LINKS, NULL, &graph->ideals, &graph->links) ==
          SHARD_OK);
    CHECK(shard_list_ideals(&graph->order, graph->ideals, NULL, &listed, graph->link_start, graph->link_node,
                            graph->link_ideal) == SHARD_OK);
    CHECK(listed == graph->ideals);
    for (uint32_t set = 0; set < UINT32_C(1) << n; set++) {
        ideals += is_ideal(graph, set);
        for (int32_t v = 0; v < n; v++)
            links += is_ideal(graph, set) && set >> v & 1 && is_ideal(graph, set & ~(UINT32_C(1) << v));
    }
    CHECK(graph->ideals == ideals && graph->links == links && graph->link_start[ideals] == links);
    for (int32_t i = 1; i < graph->ideals; i++) {
        const int64_t last = graph->link_start[i + 1] - 1;
        graph->set[i] = graph->set[graph->link_ideal[last]] | UINT32_C(1) << graph->link_node[last];
        CHECK(is_ideal(graph, graph->set[i]));
        for (int32_t j = 0; j < i; j++)
            CHECK(graph->set[i] & ~graph->set[j]); /* no subset comes later, and no set again */
        for (int64_t link = graph->link_start[i]; link <= last; link++) {
            CHECK(graph->set[graph->link_ideal[link]] ==
                  (graph->set[i] & ~(UINT32_C(1) << graph->link_node[link])));
            CHECK(link == last || graph->link_node[link] < graph->link_node[link + 1]);
        }
    }
    CHECK(graph->set[graph->ideals - 1] == (UINT32_C(1) << n) - 1);
}

static void check_early_ends(const struct graph *graph) {
    const int32_t stop = 1;
    int64_t ideals = 0, links = 0, listed = 0, link_start[MOST_SETS + 1];
    int32_t link_node[MOST_LINKS], link_ideal[MOST_LINKS];
    if (graph->ideals < 4)
        return;
    CHECK(shard_count_ideals(&graph->order, 2, MOST_LINKS, NULL, &ideals, &links) == SHARD_OK && ideals == 3);
    CHECK(shard_count_ideals(&graph->order, MOST_SETS, 1, NULL, &ideals, &links) == SHARD_OK && links >= 2);
    CHECK(ideals < graph->ideals);
    CHECK(shard_count_ideals(&graph->order, MOST_SETS, MOST_LINKS, &stop, &ideals, &links) == SHARD_OK &&
          ideals == 1);
    CHECK(shard_list_ideals(&graph->order, graph->ideals, &stop, &listed, link_start, link_node,
                            link_ideal) == SHARD_OK &&
          listed == 1 && link_start[1] == 0);
}

static double sum(const struct graph *graph, const double *column, uint32_t set) {
    double total = 0.0;
    for (int32_t v = 0; v < graph->order.nodes; v++)
        total += set >> v & 1 ? column[v] : 0.0;
    return total;
}

static double load(const struct graph *graph, uint32_t set, bool on_cpu) {
    if (on_cpu)
        return sum(graph, graph->cpu_time, set);
    double total = sum(graph, graph->accelerator_time, set);
    for (int32_t net = 0; net < graph->devices.nets; net++)
        total += graph->pins[net] & set && graph->pins[net] & ~set ? graph->transfer[net] : 0.0;
    return sum(graph, graph->size, set) > graph->devices.memory ? INFINITY : total;
}

/* The least greatest load of a set on at most so many devices, by all choices of the last one's nodes. */
static double least_load(const struct graph *graph, uint32_t set, int32_t accelerators, int32_t cpus) {
    if (!set)
        return 0.0;
    double best = INFINITY;
    for (uint32_t last = set; last; last = (last - 1) & set) {
        if (!is_ideal(graph, set & ~last))
            continue;
        for (int on_cpu = 0; on_cpu < 2; on_cpu++) {
            const double mine = (on_cpu ? cpus : accelerators) ? load(graph, last, on_cpu) : INFINITY;
            if (mine < best)
                best = fmin(
                    best, fmax(mine, least_load(graph, set & ~last, accelerators - !on_cpu, cpus - on_cpu)));
        }
    }
    return best;
}

/* The cost of a reported split; infinite if the devices have no order. */
static double cost_of(const struct graph *graph, const int32_t *device) {
    const int32_t n = graph->order.nodes, accelerators = graph->devices.accelerators;
    const int32_t count = accelerators + graph->devices.cpus;
    uint32_t done = 0;
    double cost = 0.0;
    for (int32_t round = 0; round < count;
         round++) /* begin each time with a device all of whose nodes can be next */
        for (int32_t d = 0; d < count; d++) {
            uint32_t mine = 0;
            for (int32_t v = 0; v < n; v++)
                mine |= (uint32_t)(device[v] == d) << v;
            if (mine & ~done && is_ideal(graph, done | mine)) {
                cost = fmax(cost, load(graph, mine, d >= accelerators));
                done |= mine;
            }
        }
    return done == (UINT32_C(1) << n) - 1 ? cost : INFINITY;
}

static double split(struct graph *graph, double limit, const int32_t *stop, int32_t *device, int64_t *pairs) {
    double best[MOST_SETS * MOST_ROW], cost = -1.0, offload[4], all = 0.0;
    for (int32_t v = 0; v < graph->order.nodes; v++)
        all += isfinite(graph->accelerator_time[v]) ? graph->accelerator_time[v] : 0.0;
    for (int32_t a = 0; a <= graph->devices.cpus; a++)
        offload[a] = a ? all : 0.0;
    CHECK(shard_split_dp(&graph->devices, graph->ideals, graph->link_start, graph->link_node,
                         graph->link_ideal, limit, offload, stop, best, &cost, device, pairs) == SHARD_OK);
    return cost;
}

/* The lowest node of each net makes its tensor. */
static void find_makers(const struct graph *graph, int32_t *maker) {
    for (int32_t net = 0; net < graph->devices.nets; net++)
        maker[net] = graph->pins[net] ? __builtin_ctz(graph->pins[net]) : 0;
}

static double split_stages(const struct graph *graph, int32_t overlap, double bandwidth, int32_t *device,
                           int32_t *replicas) {
    const double offload[4] = {0.0, 9999.0, 9999.0, 9999.0};
    double best[MOST_SETS * MOST_ROW], cost = -1.0;
    int32_t share[MOST_SETS * MOST_ROW], maker[MOST_NETS];
    int64_t pairs;
    find_makers(graph, maker);
    const struct shard_stage_model model = {maker, overlap, bandwidth};
    CHECK(shard_stages_dp(&graph->devices, &model, graph->ideals, graph->link_start, graph->link_node,
                          graph->link_ideal, INFINITY, offload, NULL, best, share, &cost, device, replicas,
                          &pairs) == SHARD_OK);
    return cost;
}

/* Split with clusters of `size` accelerators, and one of the rest. */
static double split_clusters(const struct graph *graph, int32_t size, double slowdown, int32_t *device) {
    const double offload[4] = {0.0, 9999.0, 9999.0, 9999.0};
    double best[MOST_SETS * MOST_ROW], outer[MOST_SETS * MOST_ROW * 4], cost = -1.0;
    int32_t maker[MOST_NETS];
    int64_t pairs;
    find_makers(graph, maker);
    const struct shard_stage_model model = {maker, SHARD_OVERLAP_NONE, 0.0};
    struct shard_devices cluster = graph->devices;
    cluster.accelerators = size;
    const struct shard_clusters clusters = {graph->devices.accelerators / size,
                                            graph->devices.accelerators % size, slowdown};
    CHECK(shard_clusters_dp(&cluster, &model, &clusters, graph->ideals, graph->link_start, graph->link_node,
                            graph->link_ideal, INFINITY, offload, NULL, best, outer, &cost, device,
                            &pairs) == SHARD_OK);
    return cost;
}

/* Cases that equal the split with summed loads, or are bounded by it. */
static void check_stages(const struct graph *graph) {
    const uint32_t whole = (UINT32_C(1) << graph->order.nodes) - 1;
    const int32_t accelerators = graph->devices.accelerators;
    int32_t device[MOST_NODES], replicas[MOST_NODES];
    const double least = least_load(graph, whole, accelerators, graph->devices.cpus);
    CHECK(split_stages(graph, SHARD_OVERLAP_NONE, 0.0, device, replicas) == least);
    if (isinf(least) || !whole)
        return;
    CHECK(cost_of(graph, device) == least);
    const double half = split_stages(graph, SHARD_OVERLAP_HALF, 0.0, device, replicas);
    const double full = split_stages(graph, SHARD_OVERLAP_FULL, 0.0, device, replicas);
    CHECK(full <= half && half <= least);
    CHECK(split_stages(graph, SHARD_OVERLAP_NONE, 2.0, device, replicas) <= least);
    for (int32_t v = 0; v < graph->order.nodes; v++)
        CHECK(device[v] + replicas[v] <=
              (device[v] < accelerators ? accelerators : accelerators + graph->devices.cpus));
    for (int32_t size = 1; size <= accelerators; size++) {
        CHECK(split_clusters(graph, size, 1.0, device) == least);
        CHECK(cost_of(graph, device) == least);
        CHECK(split_clusters(graph, size, 3.0, device) >= least);
    }
    if (accelerators)
        CHECK(split_clusters(graph, accelerators, 3.0, device) == least);
}

/* The number of pairs of an ideal and a smaller one within it. */
static int64_t pairs_of(const struct graph *graph) {
    int64_t pairs = 0;
    for (int32_t i = 0; i < graph->ideals; i++)
        for (int32_t j = 0; j < i; j++)
            pairs += !(graph->set[j] & ~graph->set[i]);
    return pairs;
}

static void check_split(struct graph *graph) {
    const uint32_t whole = (UINT32_C(1) << graph->order.nodes) - 1;
    int32_t device[MOST_NODES];
    int64_t all_pairs = 0, pairs = 0;
    const double least = least_load(graph, whole, graph->devices.accelerators, graph->devices.cpus);
    const double cost = split(graph, INFINITY, NULL, device, &all_pairs);
    CHECK(cost == least);
    if (graph->devices.accelerators > 1 && !graph->devices.cpus &&
        isfinite(sum(graph, graph->accelerator_time, whole)) &&
        sum(graph, graph->size, whole) <= graph->devices.memory)
        CHECK(all_pairs == pairs_of(graph));
    if (isinf(least) || !whole)
        return;
    CHECK(cost_of(graph, device) == least);
    CHECK(split(graph, least + 0.5, NULL, device, &pairs) == least);
    CHECK(cost_of(graph, device) == least);
    CHECK(pairs <= all_pairs);
    CHECK(isinf(split(graph, least, NULL, device, &pairs)));
    const int32_t stop = 1;
    CHECK(isinf(split(graph, INFINITY, &stop, device, &pairs)));
}

static void check_bad_order(void) {
    const int64_t out_start[] = {0, 0, 1}, in_start[] = {0, 1, 1};
    const int32_t out_head[] = {0}, in_tail[] = {1};
    const struct shard_dag order = {2, out_start, out_head, in_start, in_tail};
    int64_t ideals = -1, links = -1;
    CHECK(shard_count_ideals(&order, 9, 9, NULL, &ideals, &links) == SHARD_BAD_ORDER && ideals == -1);
    CHECK(shard_list_ideals(&order, 4, NULL, &links, NULL, NULL, NULL) == SHARD_BAD_ORDER && links == -1);
}

/* More than 64 nodes: two independent paths, and all nodes after one another. */
static void check_long(void) {
    static int64_t out_start[201], in_start[201];
    static int32_t out_head[200], in_tail[200];
    int64_t ideals = 0, links = 0;
    for (int32_t step = 1; step <= 2; step++) {
        int64_t out = 0, in = 0;
        for (int32_t v = 0; v < 200; v++) {
            if (v + step < 200)
                out_head[out++] = v + step;
            if (v - step >= 0)
                in_tail[in++] = v - step;
            out_start[v + 1] = out;
            in_start[v + 1] = in;
        }
        const struct shard_dag order = {200, out_start, out_head, in_start, in_tail};
        CHECK(shard_count_ideals(&order, 99999, 99999, NULL, &ideals, &links) == SHARD_OK);
        CHECK(ideals == (step == 1 ? 201 : 101 * 101) && links == (step == 1 ? 200 : 2 * 100 * 101));
    }
}

/* Every allocation fails once; then nothing has been written. */
static void check_no_memory(void) {
    struct graph graph;
    do
        make(&graph);
    while (graph.order.nodes < 4 || graph.devices.nets < 2);
    check_listing(&graph);
    const double offload[4] = {0.0, 99.0, 99.0, 99.0};
    int32_t maker[MOST_NETS], share[MOST_SETS * MOST_ROW], replicas[MOST_NODES];
    double outer[MOST_SETS * MOST_ROW * 4];
    find_makers(&graph, maker);
    const struct shard_stage_model model = {maker, SHARD_OVERLAP_FULL, 1.0};
    const struct shard_clusters clusters = {1, 1, 2.0};
    for (int call = 0; call < 5; call++) {
        int status = SHARD_NO_MEMORY, allocations = 0;
        for (; status == SHARD_NO_MEMORY && allocations < 24; allocations++) {
            int64_t ideals = -1, links = -1, start[MOST_SETS + 1] = {-1};
            int32_t node[MOST_LINKS] = {-1}, ideal[MOST_LINKS] = {-1}, device[MOST_NODES] = {-1};
            double best[MOST_SETS * MOST_ROW] = {-1.0}, cost = -1.0;
            granted = allocations;
            if (call == 0)
                status = shard_count_ideals(&graph.order, MOST_SETS, MOST_LINKS, NULL, &ideals, &links);
            if (call == 1)
                status = shard_list_ideals(&graph.order, graph.ideals, NULL, &links, start, node, ideal);
            if (call == 2)
                status =
                    shard_split_dp(&graph.devices, graph.ideals, graph.link_start, graph.link_node,
                                   graph.link_ideal, INFINITY, offload, NULL, best, &cost, device, &links);
            if (call == 3)
                status = shard_stages_dp(&graph.devices, &model, graph.ideals, graph.link_start,
                                         graph.link_node, graph.link_ideal, INFINITY, offload, NULL, best,
                                         share, &cost, device, replicas, &links);
            if (call == 4)
                status = shard_clusters_dp(&graph.devices, &model, &clusters, graph.ideals, graph.link_start,
                                           graph.link_node, graph.link_ideal, INFINITY, offload, NULL, best,
                                           outer, &cost, device, &links);
            granted = -1;
            if (status == SHARD_NO_MEMORY)
                CHECK(ideals == -1 && links == -1 && start[0] == -1 && node[0] == -1 && ideal[0] == -1 &&
                      device[0] == -1 && best[0] == -1.0 && cost == -1.0);
        }
        CHECK(status == SHARD_OK && allocations > 4);
    }
}

static void check_all(bool wrong) {
    struct graph graph;
    if (wrong) {
        make(&graph);
        check_listing(&graph);
        CHECK(graph.ideals + wrong == graph.ideals);
        return;
    }
    check_bad_order();
    check_long();
    for (int32_t round = 0; round < ROUNDS; round++) {
        make(&graph);
        check_listing(&graph);
        check_early_ends(&graph);
        check_split(&graph);
        if (graph.ideals <= 24)
            check_stages(&graph);
    }
    check_no_memory();
}
