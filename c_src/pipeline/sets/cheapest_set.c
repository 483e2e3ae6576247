/* Depth-first branch and bound over minimum cuts. */
#include "pipeline/sets/cheapest_set.h"

#include "pipeline/sets/set_branching.h"
#include "pipeline/sets/set_fixing.h"
#include "pipeline/sets/set_network.h"
#include "pipeline/sets/set_proof.h"

#define ROOT_CUTS 12 /* minimum cuts at the root of a proof, at most, for the best price of weight */
#define NODE_CUTS 3  /* the same at another node */

enum verdict { CLOSED, FOUND, OPEN };

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

/* Set the price at which the light and the heavy set tie. */
static void set_tie_price(struct tree *tree) {
    const int64_t difference = tree->heavy.weight - tree->light.weight;
    const double price = (double)(tree->heavy.cost - tree->light.cost) / (double)difference;
    if (difference > 0 && price >= 0.0)
        set_weight_price(tree, price);
}

/* Compute a minimum cut, and raise the bound of the current node of the tree by it; FOUND if the trial set is a
 * solution. */
static enum verdict cut_once(struct tree *tree, int64_t *bound) {
    const bool less = cut_network(tree, &tree->trial);
    *bound = less ? bound_of_cut(tree, &tree->trial) : tree->limit;
    if (tree->proof && *bound > tree->bound)
        write_proof_numbers(tree);
    tree->bound = *bound > tree->bound ? *bound : tree->bound;
    if (tree->bound >= tree->limit)
        return CLOSED;
    const bool light = tree->trial.weight < tree->need;
    if (consider(tree))
        return FOUND;
    if (light) {
        flow_greatest_side(&tree->flow, tree->trial.side);
        evaluate_set(tree, &tree->trial);
        if (consider(tree))
            return FOUND;
    }
    return OPEN;
}

/* Bound the current node of a proof by minimum cuts, at several prices if weight is `priced`; only numbers that are
 * written down fix nodes. */
static enum verdict bound_proof_node(struct tree *tree, bool priced) {
    const int64_t inherited = tree->bound;
    int64_t bound;
    if (priced && tree->price == 0.0)
        set_tie_price(tree);
    enum verdict verdict = cut_once(tree, &bound);
    for (int cuts = tree->proof->count == 1 ? ROOT_CUTS : NODE_CUTS; verdict == OPEN && priced && cuts > 1;
         cuts--) {
        const double price = tree->price;
        set_tie_price(tree);
        if (tree->price == price)
            break;
        verdict = cut_once(tree, &bound);
    }
    if (verdict != OPEN || tree->bound == inherited ||
        fix_by_residuals(tree, tree->bound, tree->proof->excess))
        return verdict;
    /* A checker finds that a node fixes too much only below it: let it branch on any node of the graph. */
    tree->proof->branch[tree->proof->count - 1] = 0;
    begin_proof_node(tree);
    begin_proof_node(tree);
    return CLOSED;
}

/* Bound the current node of the tree by a minimum cut, at a price at which sets found before tie. */
static enum verdict bound_node(struct tree *tree) {
    tree->missing_node = -1;
    take_assigned(tree, 1, &tree->light);
    take_assigned(tree, 0, &tree->heavy);
    if (tree->heavy.weight < tree->need)
        return CLOSED;
    const bool priced = tree->light.weight < tree->need;
    if (!priced) {
        const bool whole = tree->assigned == tree->problem->nodes;
        take_assigned(tree, 1, &tree->trial);
        if ((whole || !tree->listing) && tree->trial.cost < tree->limit &&
            find_missing(tree, &tree->trial) < 0)
            return FOUND;
        if (whole && !tree->proof)
            return CLOSED;
        set_weight_price(tree, 0.0);
    }
    if (is_exhausted(tree))
        return OPEN;
    if (tree->proof)
        return bound_proof_node(tree, priced);
    int64_t bound;
    const enum verdict verdict = cut_once(tree, &bound);
    if (verdict == OPEN && !fix_by_residuals(tree, bound, tree->flow.excess))
        return CLOSED;
    if (verdict == OPEN)
        set_tie_price(tree);
    return verdict;
}

/* Enter a child of a node of the tree; false if it is closed, or claimed by another thread. */
static bool enter_child(struct tree *tree, const struct decision *from, int8_t value) {
    const bool trunk = from->level < SHARD_TRUNK;
    tree->level = trunk && value < 0 ? from->level + 1 : SHARD_TRUNK;
    if (tree->proof)
        begin_proof_node(tree);
    if (trunk && value > 0 && __atomic_exchange_n(&tree->shared[2 * from->level + 1], 1, __ATOMIC_RELAXED))
        return false;
    return assign_side(tree, from->node, value) && propagate_assignments(tree);
}

/* Enter the next node of the tree that is still to be visited; false if there is none. */
static bool backtrack(struct tree *tree) {
    while (tree->depth > 0) {
        const struct decision last = tree->decisions[--tree->depth];
        undo_assignments(tree, last.trail);
        if (last.bound >= tree->limit) {
            if (tree->proof)
                begin_proof_node(tree);
            continue;
        }
        tree->bound = last.bound;
        set_weight_price(tree, last.price);
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
    if (tree->proof)
        tree->proof->branch[tree->proof->count - 1] = v;
    return enter_child(tree, &last, 1) || backtrack(tree);
}

/* Give the current node of a proof, whose numbers fix all nodes, a child for the numbers of the only set. */
static void enter_only_child(struct tree *tree) {
    const int32_t v = tree->trail[tree->assigned - 1];
    tree->proof->branch[tree->proof->count - 1] = v;
    if (tree->value[v] > 0)
        tree->decisions[tree->depth++] = (struct decision){.trail = tree->assigned, .bound = INT64_MAX};
    else
        begin_proof_node(tree);
    begin_proof_node(tree);
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
    bool more = propagate_assignments(tree);
    while (more && !is_exhausted(tree)) {
        const enum verdict verdict = bound_node(tree);
        if (verdict == FOUND && tree->listing) {
            list_trial(tree);
            more = backtrack(tree);
            continue;
        }
        if (verdict == FOUND) {
            *cost = tree->limit = tree->trial.cost;
            for (int32_t v = 0; member && v < tree->problem->nodes; v++)
                member[v] = tree->trial.side[v];
            if (first)
                stop_all(tree->stop);
            continue; /* visit the same node again for a cheaper set */
        }
        if (verdict == OPEN && tree->assigned == tree->problem->nodes) {
            if (tree->proof)
                enter_only_child(tree);
            continue; /* the last open nodes have just been fixed: a set to be examined */
        }
        more = verdict == CLOSED ? backtrack(tree) : branch(tree);
    }
    const int64_t open = more ? open_bound(tree) : tree->limit;
    return open < tree->limit ? open : tree->limit;
}

/* Prepare the tree for a search under some fixed nodes. */
static int begin(struct tree *tree, const int8_t *fixed, double seconds) {
    const int status = build_network(tree);
    tree->level = tree->shared ? 0 : SHARD_TRUNK;
    tree->deadline = monotonic_seconds() + seconds;
    for (int32_t v = 0; status == SHARD_OK && v < tree->problem->nodes; v++)
        if (fixed[v])
            assign_side(tree, v, fixed[v]);
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

int shard_prove_sets(const struct shard_set_costs *problem, const int64_t *weight, int64_t need,
                     const int8_t *fixed, int64_t limit, double seconds, int64_t *count, int32_t *branch,
                     int64_t *price, int64_t *moved, int64_t *closed, int64_t *proved) {
    struct proof proof = {.branch = branch, .price = price, .moved = moved, .closed = closed, .most = *count};
    struct tree tree = {.problem = problem, .weight = weight, .need = need, .limit = limit, .proof = &proof};
    int32_t stop = 0;
    tree.stop = &stop;
    tree.budget = INT64_MAX;
    int status = begin(&tree, fixed, seconds);
    ARENA_ARRAYS(&tree.arena, problem->nodes, proof.excess);
    status = tree.arena.failed ? SHARD_NO_MEMORY : status;
    if (status == SHARD_OK) {
        int64_t cost;
        begin_proof_node(&tree);
        *proved = search(&tree, 0, &cost, NULL);
        for (; tree.depth > 0; tree.depth--)
            begin_proof_node(&tree);
        *count = proof.count;
    }
    arena_free(&tree.arena);
    return status;
}
