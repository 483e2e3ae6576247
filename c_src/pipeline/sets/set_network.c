/* The weight that a set needs is priced instead of demanded, and convexity is left out. */
#include "pipeline/sets/set_network.h"

#define MOST_PRICED 0x1p52 /* greatest value of all weights: doubles below lie at most 1 apart */

/* Add the tensor of u to the network: if it has several consumers, it gets two vertices, one on the source's
 * side if all of its nodes are, the other if any is. */
static void join_tensor(struct tree *tree, int32_t u, int32_t *vertex) {
    const struct shard_set_costs *p = tree->problem;
    const int64_t consumers = p->out_start[u + 1] - p->out_start[u];
    const int32_t *head = p->out_head + p->out_start[u];
    if (consumers == 0 || p->size[u] == 0)
        return;
    if (consumers == 1) {
        flow_join(&tree->flow, u, head[0], p->size[u], p->size[u]);
        return;
    }
    flow_join(&tree->flow, u, *vertex, p->size[u], 0);
    flow_join(&tree->flow, *vertex + 1, u, p->size[u], 0);
    for (int64_t i = 0; i < consumers; i++) {
        flow_join(&tree->flow, *vertex, head[i], FLOW_INFINITE, 0);
        flow_join(&tree->flow, head[i], *vertex + 1, FLOW_INFINITE, 0);
    }
    *vertex += 2;
}

/* Add arcs of infinite capacity from each node of a closed set to the nodes that it requires. */
static void join_closure(struct tree *tree) {
    const struct shard_set_costs *p = tree->problem;
    const int64_t *start = p->closure > 0 ? p->in_start : p->out_start;
    const int32_t *required = p->closure > 0 ? p->in_tail : p->out_head;
    for (int32_t v = 0; v < p->nodes && p->closure != 0; v++)
        for (int64_t e = start[v]; e < start[v + 1]; e++)
            flow_join(&tree->flow, v, required[e], FLOW_INFINITE, 0);
}

int build_network(struct tree *tree) {
    const struct shard_set_costs *p = tree->problem;
    struct arena *arena = &tree->arena;
    const int64_t n = p->nodes;
    int32_t vertex = p->nodes;
    tree->words = (p->nodes + 63) / 64;
    flow_allocate(&tree->flow, arena, 3 * p->nodes, 6 * p->out_start[n] + 4 * n);
    ARENA_ZEROS(arena, n, tree->reward, tree->value);
    ARENA_ARRAYS(arena, n, tree->trail, tree->decisions);
    ARENA_ZEROS(arena, BITS * tree->words, tree->rows);
    ARENA_ZEROS(arena, 2 * n, tree->gains);
    ARENA_ARRAYS(arena, 3 * n, tree->light.side, tree->heavy.side, tree->trial.side);
    if (arena->failed)
        return SHARD_NO_MEMORY;
    for (int32_t v = 0; v < p->nodes; v++) {
        tree->total += tree->weight[v];
        tree->flow.excess[v] = -p->work[v];
        join_tensor(tree, v, &vertex);
    }
    join_closure(tree);
    flow_sort(&tree->flow);
    return SHARD_OK;
}

void evaluate_set(const struct tree *tree, struct set *set) {
    const struct shard_set_costs *p = tree->problem;
    set->cost = set->weight = 0;
    for (int32_t v = 0; v < p->nodes; v++) {
        bool cut = false;
        for (int64_t e = p->out_start[v]; e < p->out_start[v + 1]; e++)
            cut |= set->side[p->out_head[e]] != set->side[v];
        set->cost += cut ? p->size[v] : 0;
        set->cost += set->side[v] ? p->work[v] : 0;
        set->weight += set->side[v] ? tree->weight[v] : 0;
    }
}

/* Rewards are rounded up so that no bound is too great: no product exceeds MOST_PRICED, below which doubles lie at
 * most 1 apart, so each is off by at most 1/2, and its integer part plus 2 is no less than the true reward. For the
 * other side see `price_of_need`. Products with the whole prices of a proof are exact. */
void set_weight_price(struct tree *tree, double price) {
    price = fmin(price, MOST_PRICED / (double)tree->total);
    tree->price = price = tree->proof ? floor(price) : price;
    for (int32_t v = 0; v < tree->problem->nodes; v++) {
        const double reward = price * (double)tree->weight[v];
        const int64_t rounded = tree->weight[v] > 0 ? (int64_t)reward + (tree->proof ? 0 : 2) : 0;
        tree->flow.excess[v] += rounded - tree->reward[v];
        tree->reward[v] = rounded;
    }
}

/* The price of the weight that a set needs, rounded down: `need` is at most the total, so the product is off by at
 * most 1/2 as well. */
static int64_t price_of_need(const struct tree *tree) {
    return (int64_t)(tree->price * (double)tree->need) - (tree->proof ? 0 : 2);
}

bool cut_network(struct tree *tree, struct set *set) {
    tree->cuts++;
    if (!flow_run_until(&tree->flow, price_of_need(tree) - tree->limit))
        return false;
    flow_least_side(&tree->flow, set->side);
    evaluate_set(tree, set);
    return true;
}

/* From the set of least cost less reward. */
int64_t bound_of_cut(const struct tree *tree, const struct set *set) {
    int64_t bound = set->cost + price_of_need(tree);
    for (int32_t v = 0; v < tree->problem->nodes; v++)
        bound -= set->side[v] ? tree->reward[v] : 0;
    return bound;
}
