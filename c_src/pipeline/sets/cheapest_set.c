/* Depth-first branch and bound over minimum cuts. */
#include "pipeline/sets/cheapest_set.h"

#include "common/flow.h"
#include "common/stop.h"

#define FIXED_EXCESS FLOW_INFINITE
#define CANDIDATES 16 /* nodes of the graph whose children are probed before one is branched on */

#define MOST_PRICED 0x1p52 /* greatest value of all weights: doubles below lie at most 1 apart */

#define RELIABLE 2 /* children of a node that are probed before their mean gain is trusted */

enum verdict { CLOSED, FOUND, OPEN };

/* A node of the tree whose second child is still to be visited. */
struct decision {
    int32_t trail; /* assignments before it */
    int32_t level; /* its level in the trunk */
    int32_t node;  /* in the set in the first child, out of it in the second */
    int64_t bound;
    double price;
};

/* Gains in the bound of the children of one kind of a node of the graph. */
struct gain {
    double sum;
    int32_t count;
};

/* A set of nodes, its cost and its weight. */
struct set {
    bool *side;
    int64_t cost, weight;
};

/* Sets found so far by a search that lists all of them. */
struct listing {
    uint64_t *member; /* most * words elements: bit v of row i says that node v is in set i */
    int64_t *cost;    /* most elements */
    int64_t most, count;
};

struct tree {
    struct arena arena;
    const struct shard_set_costs *problem;
    const int64_t *weight;
    int64_t need;
    int64_t total; /* of all weights; at least `need` when prices are set */
    int64_t limit;
    int32_t words;
    struct flow flow;
    double price;
    int64_t *reward;    /* nodes elements: price of the weight in the network */
    int8_t *value;      /* nodes elements: 1 in, -1 out, 0 open */
    int32_t *trail;     /* nodes elements: assigned nodes in order */
    int32_t assigned;   /* length of the trail */
    uint64_t *rows;     /* bit sets, see `bits` */
    struct gain *gains; /* 2 * nodes elements: of leaving a node out, and of putting it in */
    struct decision *decisions;
    int32_t depth; /* decisions whose second child is still to be visited */
    int32_t level; /* nodes left out so far if none was put in, else SHARD_TRUNK */
    int32_t *shared, *stop;
    double deadline;
    int64_t cuts, budget; /* minimum cuts computed, and allowed */
    struct set light;     /* costs little and weighs too little */
    struct set heavy;     /* weighs enough */
    struct set trial;
    int64_t bound;           /* of the current node of the tree */
    int32_t missing_node;    /* a node that the last cheap heavy set lacks to be convex, or -1 */
    struct listing *listing; /* NULL to search for one set */
};

enum bits { IN, OUT, BELOW, ABOVE, FORCED, BARRED, BITS };

static uint64_t *row(const struct tree *tree, enum bits which) {
    return tree->rows + (size_t)which * (size_t)tree->words;
}

static bool has(const uint64_t *set, int32_t v) {
    return (set[v >> 6] >> (v & 63)) & 1;
}

static void unite(uint64_t *into, const uint64_t *from, int32_t words) {
    for (int32_t i = 0; i < words; i++)
        into[i] |= from[i];
}

/* True if no further minimum cut may be computed, or no further set listed. */
static bool is_exhausted(const struct tree *tree) {
    if (tree->listing && tree->listing->count == tree->listing->most)
        return true;
    return tree->cuts >= tree->budget || is_stopped(tree->stop) || monotonic_seconds() >= tree->deadline;
}

static const uint64_t *relatives(const struct tree *tree, const uint64_t *of, int32_t v) {
    return of + (size_t)v * (size_t)tree->words;
}

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

static int allocate(struct tree *tree) {
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
    return SHARD_OK;
}

/* Clear the sets of descendants and of ancestors of a set's nodes; what a closed set must hold counts as between two. */
static void clear_relatives(const struct tree *tree, uint64_t *below, uint64_t *above) {
    memset(below, tree->problem->closure > 0 ? 0xff : 0, (size_t)tree->words * sizeof *below);
    memset(above, tree->problem->closure < 0 ? 0xff : 0, (size_t)tree->words * sizeof *above);
}

/* Put a node into the set or leave it out; false if the opposite is decided. */
static bool assign(struct tree *tree, int32_t v, int8_t value) {
    if (tree->value[v] != 0)
        return tree->value[v] == value;
    tree->value[v] = value;
    tree->flow.excess[v] += value * FIXED_EXCESS;
    tree->trail[tree->assigned++] = v;
    return true;
}

static void undo(struct tree *tree, int32_t length) {
    while (tree->assigned > length) {
        const int32_t v = tree->trail[--tree->assigned];
        tree->flow.excess[v] -= tree->value[v] * FIXED_EXCESS;
        tree->value[v] = 0;
    }
}

/* Assign `value` to every node of a bit set. */
static bool assign_all(struct tree *tree, const uint64_t *set, int8_t value) {
    for (int32_t i = 0; i < tree->words; i++)
        for (uint64_t rest = set[i]; rest; rest &= rest - 1)
            if (!assign(tree, 64 * i + __builtin_ctzll(rest), value))
                return false;
    return true;
}

/* Add the assignments from `from` on to the sets IN, OUT, BELOW and ABOVE; false if they contradict. */
static bool note(struct tree *tree, int32_t from) {
    const struct shard_set_costs *p = tree->problem;
    for (int32_t at = from; at < tree->assigned; at++) {
        const int32_t v = tree->trail[at];
        row(tree, tree->value[v] > 0 ? IN : OUT)[v >> 6] |= (uint64_t)1 << (v & 63);
        if (tree->value[v] < 0)
            continue;
        unite(row(tree, BELOW), relatives(tree, p->below, v), tree->words);
        unite(row(tree, ABOVE), relatives(tree, p->above, v), tree->words);
        for (int32_t u = 0; p->pair && u < p->nodes; u++)
            if (p->pair[(size_t)v * (size_t)p->nodes + (size_t)u] >= tree->limit && u != v)
                if (!assign(tree, u, -1))
                    return false;
    }
    return true;
}

/* Bar what must stay out if v is out: the nodes beyond v, as seen from a node of the set. */
static void bar(struct tree *tree, int32_t v) {
    const struct shard_set_costs *p = tree->problem;
    if (has(row(tree, BELOW), v))
        unite(row(tree, BARRED), relatives(tree, p->below, v), tree->words);
    if (has(row(tree, ABOVE), v))
        unite(row(tree, BARRED), relatives(tree, p->above, v), tree->words);
}

/* Propagate all assignments of the trail; false if there is no such set. */
static bool propagate(struct tree *tree) {
    memset(tree->rows, 0, BITS * (size_t)tree->words * sizeof *tree->rows);
    clear_relatives(tree, row(tree, BELOW), row(tree, ABOVE));
    for (int32_t noted = 0; noted < tree->assigned;) {
        const int32_t from = noted;
        noted = tree->assigned;
        if (!note(tree, from))
            return false;
        for (int32_t i = 0; i < tree->words; i++)
            row(tree, FORCED)[i] = row(tree, BELOW)[i] & row(tree, ABOVE)[i];
        for (int32_t at = 0; at < tree->assigned; at++)
            if (tree->value[tree->trail[at]] < 0)
                bar(tree, tree->trail[at]);
        if (!assign_all(tree, row(tree, FORCED), 1) || !assign_all(tree, row(tree, BARRED), -1))
            return false;
    }
    return true;
}

/* Compute the cost and the weight of a set. */
static void evaluate(const struct tree *tree, struct set *set) {
    const struct shard_set_costs *p = tree->problem;
    set->cost = set->weight = 0;
    for (int32_t v = 0; v < p->nodes; v++) {
        bool cut = false;
        for (int64_t e = p->out_start[v]; e < p->out_start[v + 1]; e++)
            cut = cut || set->side[p->out_head[e]] != set->side[v];
        set->cost += cut ? p->size[v] : 0;
        set->cost += set->side[v] ? p->work[v] : 0;
        set->weight += set->side[v] ? tree->weight[v] : 0;
    }
}

/* The set of all nodes whose value is at least `least`. */
static void take(const struct tree *tree, int8_t least, struct set *set) {
    for (int32_t v = 0; v < tree->problem->nodes; v++)
        set->side[v] = tree->value[v] >= least;
    evaluate(tree, set);
}

/* A node outside the set on a path between two of its nodes; -1 if the set is convex. */
static int32_t find_missing(const struct tree *tree, const struct set *set) {
    const struct shard_set_costs *p = tree->problem;
    uint64_t *below = row(tree, FORCED), *above = row(tree, BARRED);
    clear_relatives(tree, below, above);
    for (int32_t v = 0; v < p->nodes; v++) {
        if (set->side[v]) {
            unite(below, relatives(tree, p->below, v), tree->words);
            unite(above, relatives(tree, p->above, v), tree->words);
        }
    }
    for (int32_t v = 0; v < p->nodes; v++)
        if (!set->side[v] && has(below, v) && has(above, v))
            return v;
    return -1;
}

/* Set the price of a unit of weight. Rewards are rounded up so that no bound is too great: no product exceeds
 * MOST_PRICED, below which doubles lie at most 1 apart, so each is off by at most 1/2, and its integer part
 * plus 2 is no less than the true reward; see `bound_of` for the other side. */
static void set_price(struct tree *tree, double price) {
    tree->price = price = fmin(price, MOST_PRICED / (double)tree->total);
    for (int32_t v = 0; v < tree->problem->nodes; v++) {
        const double reward = price * (double)tree->weight[v];
        const int64_t rounded = tree->weight[v] > 0 ? (int64_t)reward + 2 : 0;
        tree->flow.excess[v] += rounded - tree->reward[v];
        tree->reward[v] = rounded;
    }
}

/* The price of the weight that a set needs, rounded down: `need` is at most the total, so the product is off by at
 * most 1/2 as well. */
static int64_t price_of_need(const struct tree *tree) {
    return (int64_t)(tree->price * (double)tree->need) - 2;
}

/* Compute a minimum cut, and the set on its source side; false if no set can cost less than the limit. */
static bool cut(struct tree *tree, struct set *set) {
    tree->cuts++;
    if (!flow_run_until(&tree->flow, price_of_need(tree) - tree->limit))
        return false;
    flow_least_side(&tree->flow, set->side);
    evaluate(tree, set);
    return true;
}

/* A bound on the cost of sets that weigh enough, from the set of least cost less reward. */
static int64_t bound_of(const struct tree *tree, const struct set *set) {
    int64_t bound = set->cost + price_of_need(tree);
    for (int32_t v = 0; v < tree->problem->nodes; v++)
        bound -= set->side[v] ? tree->reward[v] : 0;
    return bound;
}

static void swap_sides(struct set *a, struct set *b) {
    const struct set other = *a;
    *a = *b;
    *b = other;
}

/* Return true if the trial set is a solution, and the only one searched for; else make it the new light or heavy set. */
static bool consider(struct tree *tree) {
    const bool enough = tree->trial.weight >= tree->need;
    if (enough && tree->trial.cost < tree->limit) {
        tree->missing_node = find_missing(tree, &tree->trial);
        if (tree->missing_node < 0 && !tree->listing)
            return true;
    }
    swap_sides(&tree->trial, enough ? &tree->heavy : &tree->light);
    return false;
}

/* Fix each open node for which the opposite choice would close this subtree, and what follows; false if there is no set.
 * A node whose side changes adds at least its residual capacity, from the source or to the sink, to the minimum cut. */
static bool fix_by_residuals(struct tree *tree, int64_t bound) {
    const int64_t gap = tree->limit - bound;
    const int32_t before = tree->assigned;
    for (int32_t v = 0; v < tree->problem->nodes; v++) {
        const int64_t residual = tree->flow.excess[v];
        if (tree->value[v] == 0 && (residual >= gap || -residual >= gap))
            assign(tree, v, residual > 0 ? 1 : -1);
    }
    return tree->assigned == before || propagate(tree);
}

/* Set the price at which the light and the heavy set tie, for the children of the current node of the tree. */
static void set_tie_price(struct tree *tree) {
    const int64_t difference = tree->heavy.weight - tree->light.weight;
    const double price = (double)(tree->heavy.cost - tree->light.cost) / (double)difference;
    if (difference > 0 && price >= 0.0)
        set_price(tree, price);
}

/* Bound the current node of the tree by a minimum cut, at a price at which sets found before tie. */
static enum verdict bound_node(struct tree *tree) {
    tree->missing_node = -1;
    take(tree, 1, &tree->light);
    take(tree, 0, &tree->heavy);
    if (tree->heavy.weight < tree->need)
        return CLOSED;
    if (tree->light.weight >= tree->need) {
        const bool whole = tree->assigned == tree->problem->nodes;
        take(tree, 1, &tree->trial);
        if ((whole || !tree->listing) && tree->trial.cost < tree->limit &&
            find_missing(tree, &tree->trial) < 0)
            return FOUND;
        if (whole)
            return CLOSED;
        set_price(tree, 0.0);
    }
    if (is_exhausted(tree))
        return OPEN;
    if (!cut(tree, &tree->trial))
        return CLOSED;
    const int64_t bound = bound_of(tree, &tree->trial);
    tree->bound = bound > tree->bound ? bound : tree->bound;
    if (tree->bound >= tree->limit)
        return CLOSED;
    const bool light = tree->trial.weight < tree->need;
    if (consider(tree))
        return FOUND;
    if (light) {
        flow_greatest_side(&tree->flow, tree->trial.side);
        evaluate(tree, &tree->trial);
        if (consider(tree))
            return FOUND;
    }
    if (!fix_by_residuals(tree, bound))
        return CLOSED;
    set_tie_price(tree);
    return OPEN;
}

/* True if branching on a node helps to make the heavy set convex. */
static bool closes_gap(const struct tree *tree, int32_t v) {
    const uint64_t *below = relatives(tree, tree->problem->below, v);
    const uint64_t *above = relatives(tree, tree->problem->above, v);
    const int32_t z = tree->missing_node;
    return v == z || (tree->heavy.side[v] && (has(below, z) || has(above, z)));
}

/* List the open nodes most worth branching on, best first: those that the heavy set lacks to be convex, else
 * those in which light and heavy set differ, heaviest first. Returns their number. */
static int32_t candidates(const struct tree *tree, int32_t *found, int32_t most) {
    int64_t score[CANDIDATES];
    int32_t count = 0;
    for (int32_t v = 0; v < tree->problem->nodes; v++) {
        if (tree->value[v] != 0)
            continue;
        const bool differ =
            tree->missing_node >= 0 ? closes_gap(tree, v) : tree->light.side[v] != tree->heavy.side[v];
        const int64_t value = tree->weight[v] + (differ ? FLOW_INFINITE : 0);
        int32_t at = count < most ? count++ : most;
        while (at > 0 && score[at - 1] < value) {
            if (at < most) {
                score[at] = score[at - 1];
                found[at] = found[at - 1];
            }
            at--;
        }
        if (at < most) {
            score[at] = value;
            found[at] = v;
        }
    }
    return count;
}

/* The bound of a child at the current price; the limit if the child is closed. */
static int64_t probe(struct tree *tree, int32_t v, int8_t value) {
    const int32_t length = tree->assigned;
    int64_t bound = tree->limit;
    if (assign(tree, v, value) && propagate(tree) && cut(tree, &tree->trial))
        bound = bound_of(tree, &tree->trial);
    undo(tree, length);
    return bound < tree->limit ? (bound > tree->bound ? bound : tree->bound) : tree->limit;
}

/* The gain in the bound of putting a node in (value 1) or leaving it out (-1): the mean of several probes. */
static double gain(struct tree *tree, int32_t v, int8_t value) {
    struct gain *past = &tree->gains[2 * v + (value > 0)];
    if (past->count >= RELIABLE)
        return past->sum / past->count;
    const double gained = (double)(probe(tree, v, value) - tree->bound);
    past->sum += gained;
    past->count++;
    return gained;
}

/* Choose the node whose children promise the smallest tree. */
static int32_t choose_branch_node(struct tree *tree) {
    int32_t found[CANDIDATES];
    const int32_t count = candidates(tree, found, CANDIDATES);
    int32_t best = count > 0 ? found[0] : -1;
    double most = -1.0;
    const double gap = (double)(tree->limit - tree->bound);
    const double least =
        1e-6 * (double)tree->limit; /* so that a child without gain does not hide that of the other */
    for (int32_t i = 0; i < count && count > 1 && !is_exhausted(tree); i++) {
        const double in = fmin(gap, gain(tree, found[i], 1)), out = fmin(gap, gain(tree, found[i], -1));
        const double score = (in + least) * (out + least);
        if (score > most) {
            most = score;
            best = found[i];
        }
    }
    return best;
}

/* Enter a child of a node of the tree; false if it is closed, or claimed by another thread. */
static bool enter_child(struct tree *tree, const struct decision *from, int8_t value) {
    const bool trunk = from->level < SHARD_TRUNK;
    tree->level = trunk && value < 0 ? from->level + 1 : SHARD_TRUNK;
    if (trunk && value > 0 && __atomic_exchange_n(&tree->shared[2 * from->level + 1], 1, __ATOMIC_RELAXED))
        return false;
    return assign(tree, from->node, value) && propagate(tree);
}

/* Enter the next node of the tree that is still to be visited; false if there is none. */
static bool backtrack(struct tree *tree) {
    while (tree->depth > 0) {
        const struct decision last = tree->decisions[--tree->depth];
        undo(tree, last.trail);
        if (last.bound >= tree->limit)
            continue;
        tree->bound = last.bound;
        set_price(tree, last.price);
        if (enter_child(tree, &last, -1))
            return true;
    }
    return false;
}

/* The node that the first thread at this level of the trunk has chosen to branch on. */
static int32_t agreed_branch_node(struct tree *tree) {
    if (tree->level == SHARD_TRUNK)
        return choose_branch_node(tree);
    int32_t *agreed = &tree->shared[2 * tree->level]; /* the node plus 1; 0 for none yet */
    int32_t chosen = __atomic_load_n(agreed, __ATOMIC_RELAXED);
    if (chosen == 0) {
        const int32_t own = choose_branch_node(tree) + 1;
        if (__atomic_compare_exchange_n(agreed, &chosen, own, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            chosen = own;
    }
    return chosen - 1;
}

static bool branch(struct tree *tree) {
    const int32_t v = agreed_branch_node(tree);
    if (v < 0)
        return backtrack(tree);
    const struct decision last = {tree->assigned, tree->level, v, tree->bound, tree->price};
    tree->decisions[tree->depth++] = last;
    return enter_child(tree, &last, 1) || backtrack(tree);
}

/* The least bound of the nodes of the tree not yet visited. */
static int64_t open_bound(const struct tree *tree) {
    int64_t least = tree->bound;
    for (int32_t i = 0; i < tree->depth; i++)
        least = tree->decisions[i].bound < least ? tree->decisions[i].bound : least;
    return least;
}

/* Add the trial set to those listed. */
static void list_trial(const struct tree *tree) {
    struct listing *listing = tree->listing;
    uint64_t *member = listing->member + (size_t)listing->count * (size_t)tree->words;
    memset(member, 0, (size_t)tree->words * sizeof *member);
    for (int32_t v = 0; v < tree->problem->nodes; v++)
        member[v >> 6] |= (uint64_t)tree->trial.side[v] << (v & 63);
    listing->cost[listing->count++] = tree->trial.cost;
}

/* Search the tree, keep the last set found, or list all, and return the proved bound. */
static int64_t search(struct tree *tree, int first, int64_t *cost, int8_t *member) {
    bool more = propagate(tree);
    while (more && !is_exhausted(tree)) {
        const enum verdict verdict = bound_node(tree);
        if (verdict == FOUND && tree->listing) {
            list_trial(tree);
            more = backtrack(tree);
            continue;
        }
        if (verdict == FOUND) {
            *cost = tree->limit = tree->trial.cost;
            for (int32_t v = 0; v < tree->problem->nodes; v++)
                member[v] = tree->trial.side[v];
            if (first)
                stop_all(tree->stop);
            continue; /* visit the same node again for a cheaper set */
        }
        if (verdict == OPEN && tree->assigned == tree->problem->nodes)
            continue; /* the last open nodes have just been fixed: a set to be examined */
        more = verdict == CLOSED ? backtrack(tree) : branch(tree);
    }
    const int64_t open = more ? open_bound(tree) : tree->limit;
    return open < tree->limit ? open : tree->limit;
}

/* Prepare the tree for a search under some fixed nodes. */
static int begin(struct tree *tree, const int8_t *fixed, double seconds) {
    const int status = allocate(tree);
    tree->level = tree->shared ? 0 : SHARD_TRUNK;
    tree->deadline = monotonic_seconds() + seconds;
    for (int32_t v = 0; status == SHARD_OK && v < tree->problem->nodes; v++)
        if (fixed[v])
            assign(tree, v, fixed[v]);
    return status;
}

int shard_cheapest_set(const struct shard_set_costs *problem, const int64_t *weight, int64_t need,
                       const int8_t *fixed, int64_t limit, int first, double seconds, int32_t *shared,
                       int32_t *stop, int64_t *cuts, int64_t *cost, int64_t *proved, int8_t *member) {
    struct tree tree = {.problem = problem, .weight = weight, .need = need, .limit = limit};
    tree.shared = shared;
    tree.stop = stop;
    tree.budget = *cuts;
    const int status = begin(&tree, fixed, seconds);
    if (status == SHARD_OK) {
        *cost = limit;
        *proved = search(&tree, first, cost, member);
        *cuts = tree.cuts;
    }
    arena_free(&tree.arena);
    return status;
}

int shard_list_sets(const struct shard_set_costs *problem, const int64_t *weight, int64_t need,
                    const int8_t *fixed, int64_t limit, double seconds, int32_t *shared, int32_t *stop,
                    int64_t *count, int64_t *cost, uint64_t *member, int64_t *proved) {
    struct listing listing = {.member = member, .cost = cost, .most = *count};
    struct tree tree = {.problem = problem, .weight = weight, .need = need, .limit = limit};
    tree.shared = shared;
    tree.stop = stop;
    tree.budget = INT64_MAX;
    tree.listing = &listing;
    const int status = begin(&tree, fixed, seconds);
    if (status == SHARD_OK) {
        *proved = search(&tree, 0, NULL, NULL);
        *count = listing.count;
    }
    arena_free(&tree.arena);
    return status;
}
