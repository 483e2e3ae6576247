/* Assignments are propagated over the sets of descendants and ancestors, as bits. */
#include "pipeline/sets/set_fixing.h"

#include "pipeline/sets/set_network.h"

/* Clear the sets of descendants and of ancestors of a set's nodes; the nodes that a closed set must contain count
 * as lying between two nodes. */
static void clear_relatives(const struct tree *tree, uint64_t *below, uint64_t *above) {
    memset(below, tree->problem->closure > 0 ? 0xff : 0, (size_t)tree->words * sizeof *below);
    memset(above, tree->problem->closure < 0 ? 0xff : 0, (size_t)tree->words * sizeof *above);
}

bool assign_side(struct tree *tree, int32_t v, int8_t value) {
    if (tree->value[v] != 0)
        return tree->value[v] == value;
    tree->value[v] = value;
    tree->flow.excess[v] += value * FLOW_INFINITE;
    tree->trail[tree->assigned++] = v;
    return true;
}

void undo_assignments(struct tree *tree, int32_t length) {
    while (tree->assigned > length) {
        const int32_t v = tree->trail[--tree->assigned];
        tree->flow.excess[v] -= tree->value[v] * FLOW_INFINITE;
        tree->value[v] = 0;
    }
}

/* Assign `value` to every node of a bit set. */
static bool assign_all(struct tree *tree, const uint64_t *set, int8_t value) {
    for (int32_t i = 0; i < tree->words; i++)
        for (uint64_t rest = set[i]; rest; rest &= rest - 1)
            if (!assign_side(tree, 64 * i + __builtin_ctzll(rest), value))
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
                if (!assign_side(tree, u, -1))
                    return false;
    }
    return true;
}

/* Bar the nodes that must stay out if v is out: those beyond v as seen from the set. */
static void bar(struct tree *tree, int32_t v) {
    const struct shard_set_costs *p = tree->problem;
    if (has(row(tree, BELOW), v))
        unite(row(tree, BARRED), relatives(tree, p->below, v), tree->words);
    if (has(row(tree, ABOVE), v))
        unite(row(tree, BARRED), relatives(tree, p->above, v), tree->words);
}

bool propagate_assignments(struct tree *tree) {
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

void take_assigned(const struct tree *tree, int8_t least, struct set *set) {
    for (int32_t v = 0; v < tree->problem->nodes; v++)
        set->side[v] = tree->value[v] >= least;
    evaluate_set(tree, set);
}

int32_t find_missing(const struct tree *tree, const struct set *set) {
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

/* A node whose side changes adds at least its residual capacity, from the source or to the sink, to the minimum cut. */
bool fix_by_residuals(struct tree *tree, int64_t bound, const int64_t *excess) {
    const int64_t gap = tree->limit - bound;
    const int32_t before = tree->assigned;
    for (int32_t v = 0; v < tree->problem->nodes; v++) {
        const int64_t residual = excess[v];
        if (tree->value[v] == 0 && (residual >= gap || -residual >= gap))
            assign_side(tree, v, residual > 0 ? 1 : -1);
    }
    return tree->assigned == before || propagate_assignments(tree);
}
