/* Strong branching: children are probed by a minimum cut until their mean gain is trusted. */
#include "pipeline/sets/set_branching.h"

#include "pipeline/sets/set_fixing.h"
#include "pipeline/sets/set_network.h"

#define CANDIDATES 16 /* nodes of the graph whose children are probed before one is branched on */
#define RELIABLE 2    /* children of a node that are probed before their mean gain is trusted */

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
    if (assign_side(tree, v, value) && propagate_assignments(tree) && cut_network(tree, &tree->trial))
        bound = bound_of_cut(tree, &tree->trial);
    undo_assignments(tree, length);
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

int32_t choose_branch_node(struct tree *tree) {
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
