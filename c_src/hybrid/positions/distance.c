#include "hybrid/positions/distance.h"

#include "common/flow.h"

#define MULTIPLIERS 10 /* most multipliers per rate */
#define NEIGHBOURS 1   /* rates on either side of the best without transfers */

/* A multiplier, and the set of nodes of its minimum cut. */
struct line {
    int64_t multiplier, least; /* least: cost of the set less multiplier times price */
    int64_t price, cost;       /* of the set */
};

struct search {
    const struct shard_cells *cells;
    const struct shard_stage_type *type;
    struct flow flow;
    int64_t *cost;     /* nodes */
    bool *side;        /* nodes */
    int64_t *capacity; /* arcs, in the order of joining */
};

/* Price of the cheapest fractions of nodes within what the limits are worth. */
static int64_t without_transfers(const struct search *search, const struct ranking *ranking) {
    int64_t price = 0, cost = 0;
    for (int32_t i = 0; i < search->cells->nodes; i++) {
        const int32_t v = ranking->sorted[i];
        if (cost + search->cost[v] > WORTH)
            return price + (int64_t)((double)search->cells->price[v] * (double)(WORTH - cost) /
                                     (double)search->cost[v]);
        price += search->cells->price[v];
        cost += search->cost[v];
    }
    return price;
}

/* The minimum cut of a multiplier that follows `before`, 0 at first. */
static struct line cut_at(struct search *search, int64_t before, int64_t multiplier) {
    const int32_t n = search->cells->nodes;
    const int64_t *price = search->cells->price;
    struct line line = {.multiplier = multiplier};
    for (int32_t v = 0; v < n; v++)
        search->flow.excess[v] += (multiplier - before) * price[v];
    flow_run(&search->flow);
    for (int32_t v = 0; v < n; v++)
        line.least -= search->flow.excess[v] > 0 ? search->flow.excess[v] : 0;
    flow_least_side(&search->flow, search->side);
    for (int32_t v = 0; v < n; v++)
        line.price += search->side[v] ? price[v] : 0;
    line.cost = line.least + multiplier * line.price;
    return line;
}

/* Move the multiplier to where its set costs just what the limits are worth. */
static void try_rate(struct search *search, int32_t rate, int64_t *distance) {
    const int32_t n = search->cells->nodes;
    struct line below = {0}, above = {0};
    price_nodes(search->type, rate, n, search->cost);
    for (int32_t v = 0; v < n; v++) {
        above.price += search->cells->price[v];
        above.cost += search->cost[v];
        search->flow.excess[v] = -search->cost[v];
    }
    if (above.cost <= WORTH)
        return;
    for (int32_t i = 0; i < search->flow.arcs; i++)
        search->flow.left[search->flow.place[i]] = search->capacity[i];
    int64_t before = 0;
    for (int32_t i = 0; i < MULTIPLIERS; i++) {
        const int64_t multiplier = (above.cost - below.cost) / (above.price - below.price);
        if (multiplier == before || multiplier == 0 || multiplier > MOST_COST)
            return;
        const struct line line = cut_at(search, before, multiplier);
        before = multiplier;
        const int64_t most = (WORTH - line.least) / multiplier;
        *distance = most < *distance ? most : *distance;
        struct line *moved = line.cost <= WORTH ? &below : &above;
        if (line.price <= below.price || line.price >= above.price)
            return;
        *moved = line;
    }
}

static void join_edges(struct search *search, int32_t rate, int32_t edges, const double *at_tail,
                       const double *at_head) {
    for (int32_t e = 0; e < edges; e++) {
        search->capacity[2 * e] = cost_of_seconds(search->type, rate, at_tail[e]);
        search->capacity[2 * e + 1] = cost_of_seconds(search->type, rate, at_head[e]);
    }
}

int shard_hybrid_distance(const struct shard_cells *cells, const struct shard_stage_type *type, int32_t edges,
                          const int32_t *tail, const int32_t *head, const double *at_tail,
                          const double *at_head, int64_t *distance) {
    struct arena arena = {0};
    struct search search = {.cells = cells, .type = type};
    struct ranking ranking;
    ranking_init(&ranking, &arena, cells->nodes);
    ARENA_ARRAYS(&arena, cells->nodes, search.cost, search.side);
    ARENA_ARRAYS(&arena, 2 * (int64_t)edges, search.capacity);
    flow_allocate(&search.flow, &arena, cells->nodes, 2 * (int64_t)edges);
    if (!arena.failed) {
        for (int32_t e = 0; e < edges; e++)
            flow_join(&search.flow, tail[e], head[e], 0, 0);
        flow_sort(&search.flow);
        int32_t best = 0;
        int64_t least = INT64_MAX;
        for (int32_t rate = 0; rate < type->rates; rate++) {
            price_nodes(type, rate, cells->nodes, search.cost);
            rank_nodes(&ranking, cells, search.cost);
            const int64_t price = without_transfers(&search, &ranking);
            best = price < least ? rate : best;
            least = price < least ? price : least;
        }
        *distance = cells->high[cells->cells - 1];
        for (int32_t rate = best - NEIGHBOURS; rate <= best + NEIGHBOURS; rate++)
            if (rate >= 0 && rate < type->rates) {
                join_edges(&search, rate, edges, at_tail, at_head);
                try_rate(&search, rate, distance);
            }
    }
    const int status = arena_status(&arena);
    arena_free(&arena);
    return status;
}
