/* Arcs have the numbers that `build_network` gives them, two each. */
#include "pipeline/sets/set_proof.h"

void begin_proof_node(const struct tree *tree) {
    struct proof *proof = tree->proof;
    proof->branch[proof->count] = -1;
    proof->price[proof->count++] = -1;
}

/* The residual capacity of the arc that was added as number i. */
static int64_t left_of(const struct tree *tree, int64_t i) {
    return tree->flow.left[tree->flow.place[i]];
}

/* Write down what the tensors move to each of their consumers, and return the number of their arcs. */
static int64_t write_moved(const struct tree *tree, int64_t *moved) {
    const struct shard_set_costs *p = tree->problem;
    int64_t arc = 0;
    for (int32_t u = 0; u < p->nodes; u++) {
        const int64_t first = p->out_start[u], end = p->out_start[u + 1];
        const bool joined = first < end && p->size[u] > 0, single = end == first + 1;
        arc += joined && !single ? 4 : 0;
        for (int64_t e = first; e < end; e++) {
            moved[e] = 0;
            if (joined && single)
                moved[e] = left_of(tree, arc) - p->size[u];
            else if (joined)
                moved[e] = left_of(tree, arc + 3) - left_of(tree, arc + 1);
            arc += joined ? (single ? 2 : 4) : 0;
        }
    }
    return arc;
}

/* Write down the flow on the arcs of a closed set, given the number of the first one. */
static void write_closed(const struct tree *tree, int64_t arc, int64_t *closed) {
    const struct shard_set_costs *p = tree->problem;
    const int64_t *start = p->closure > 0 ? p->in_start : p->out_start;
    for (int32_t v = 0; v < p->nodes; v++) {
        for (int64_t at = start[v]; at < start[v + 1]; at++, arc += 2) {
            int64_t e = at;
            if (p->closure > 0)
                for (e = p->out_start[p->in_tail[at]]; p->out_head[e] != v;)
                    e++;
            closed[e] = left_of(tree, arc + 1);
        }
    }
}

void write_proof_numbers(const struct tree *tree) {
    const struct proof *proof = tree->proof;
    const int64_t edges = tree->problem->out_start[tree->problem->nodes], at = proof->count - 1;
    proof->price[at] = (int64_t)tree->price;
    const int64_t arc = write_moved(tree, proof->moved + at * edges);
    if (tree->problem->closure != 0)
        write_closed(tree, arc, proof->closed + at * edges);
    for (int32_t v = 0; v < tree->problem->nodes; v++)
        proof->excess[v] = tree->flow.excess[v];
}
