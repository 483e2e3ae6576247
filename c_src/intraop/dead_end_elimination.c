/* Dead-end elimination (Goldstein, Biophysical Journal 1994) with memory as a second cost, at every time. */
#include "intraop/dead_end_elimination.h"

#include <stdbool.h>
#include <stdlib.h>

/* What both searches read. */
struct facts {
    const struct shard_network *network;
    const int64_t *cost;
    const int64_t *usage_start;
    const int64_t *usage;
};

static int64_t size_of(const struct shard_network *network, int64_t v) {
    return network->start[v + 1] - network->start[v];
}

/* Whether value k of v uses no more memory than value other, at any time. */
static bool uses_no_more(const struct facts *facts, int64_t v, int64_t k, int64_t other) {
    const int64_t first = facts->usage_start[v];
    const int64_t spans = (facts->usage_start[v + 1] - first) / size_of(facts->network, v);
    const int64_t *mine = facts->usage + first + k * spans, *theirs = facts->usage + first + other * spans;
    for (int64_t s = 0; s < spans; s++)
        if (mine[s] > theirs[s])
            return false;
    return true;
}

/* A pair as one of its ends sees it: the cell of its value k beside value b is cell[k * across + b * along].
 */
struct side {
    const int64_t *cell;
    int64_t across, along;
    int64_t other, size; /* first row and number of values of the other end */
};

static struct side side_of(const struct shard_network *network, int64_t v, int64_t e) {
    const bool is_tail = network->tail[e] == v;
    const int64_t u = is_tail ? network->head[e] : network->tail[e];
    const int64_t columns = size_of(network, network->head[e]);
    return (struct side){.cell = network->cell + network->cell_start[e],
                         .across = is_tail ? columns : 1,
                         .along = is_tail ? 1 : columns,
                         .other = network->start[u],
                         .size = size_of(network, u)};
}

/* Where value k costs least in a pair, beside the values that are left; -1 if it is allowed beside none. */
static int64_t cheapest_place(const struct side *side, int64_t k, const int8_t *value) {
    int64_t best = -1, least = NEVER;
    for (int64_t b = 0; b < side->size; b++) {
        const int64_t cost = side->cell[k * side->across + b * side->along];
        if (value[side->other + b] && cost < least) {
            least = cost;
            best = b;
        }
    }
    return best;
}

/* How much less value k costs in a pair than value `old`, at least, whatever is left for the other end;
 * -NEVER where k is not allowed beside something that `old` is allowed beside. */
static int64_t least_gain(const struct side *side, int64_t k, int64_t old, const int8_t *value) {
    int64_t least = NEVER;
    for (int64_t b = 0; b < side->size; b++) {
        const int64_t now = side->cell[old * side->across + b * side->along];
        const int64_t then = side->cell[k * side->across + b * side->along];
        if (!value[side->other + b] || now == NEVER)
            continue;
        if (then == NEVER)
            return -NEVER;
        least = now - then < least ? now - then : least;
    }
    return least;
}

/* Whether value k of v can replace value `old`, which is allowed beside something in every pair and costs
 * least there beside the values `place`. */
static bool replaces(const struct facts *facts, int64_t v, int64_t k, int64_t old, const int64_t *place,
                     const int8_t *value) {
    const struct shard_network *network = facts->network;
    const int64_t *arc = network->arc + network->arc_start[v];
    const int64_t arcs = network->arc_start[v + 1] - network->arc_start[v];
    const int64_t *cost = facts->cost + network->start[v];
    int64_t hope = cost[old] - cost[k];
    for (int64_t a = 0; a < arcs; a++) {
        const struct side side = side_of(network, v, arc[a]);
        const int64_t *cell = side.cell + place[a] * side.along;
        if (cell[k * side.across] == NEVER)
            return false;
        hope += cell[old * side.across] - cell[k * side.across];
    }
    if (hope < 0 || !uses_no_more(facts, v, k, old))
        return false;
    int64_t gain = cost[old] - cost[k];
    for (int64_t a = 0; a < arcs; a++) {
        const struct side side = side_of(network, v, arc[a]);
        const int64_t more = least_gain(&side, k, old, value);
        if (more == -NEVER)
            return false;
        gain += more;
    }
    return gain >= 0;
}

/* Whether some value of v that is left can replace value `old`, or it is allowed nowhere; place is scratch.
 */
static bool is_dominated(const struct facts *facts, int64_t v, int64_t old, int64_t *place,
                         const int8_t *value) {
    const struct shard_network *network = facts->network;
    for (int64_t a = network->arc_start[v]; a < network->arc_start[v + 1]; a++) {
        const struct side side = side_of(network, v, network->arc[a]);
        const int64_t best = cheapest_place(&side, old, value);
        if (best < 0)
            return true;
        place[a - network->arc_start[v]] = best;
    }
    for (int64_t k = 0; k < size_of(network, v); k++)
        if (k != old && value[network->start[v] + k] && replaces(facts, v, k, old, place, value))
            return true;
    return false;
}

static int64_t largest_degree(const struct shard_network *network) {
    int64_t largest = 1;
    for (int64_t v = 0; v < network->variables; v++) {
        const int64_t degree = network->arc_start[v + 1] - network->arc_start[v];
        largest = degree > largest ? degree : largest;
    }
    return largest;
}

int shard_dominate(const struct shard_network *network, const int64_t *cost, const int64_t *usage_start,
                   const int64_t *usage, const int8_t *keep, int8_t *value) {
    const struct facts facts = {network, cost, usage_start, usage};
    int64_t *place = malloc((size_t)largest_degree(network) * sizeof *place);
    if (!place)
        return SHARD_NO_MEMORY;
    for (int64_t v = 0; v < network->variables; v++) {
        int8_t *mine = value + network->start[v];
        for (int64_t k = 0; k < size_of(network, v) && !keep[v]; k++)
            if (mine[k] && is_dominated(&facts, v, k, place, value))
                mine[k] = 0;
    }
    free(place);
    return SHARD_OK;
}

/* The value of v that is best beside value a of the other end of its one pair, by cost and by memory; -1 if
 * there is none. */
static int64_t best_beside(const struct facts *facts, int64_t v, int64_t a) {
    const struct shard_network *network = facts->network;
    const struct side side = side_of(network, v, network->arc[network->arc_start[v]]);
    const int64_t *cell = side.cell + a * side.along, stride = side.across;
    const int64_t *cost = facts->cost + network->start[v];
    int64_t best = -1;
    for (int64_t k = 0; k < size_of(network, v); k++) {
        if (cell[k * stride] == NEVER)
            continue;
        const int64_t gain = best < 0 ? 1 : cost[best] + cell[best * stride] - cost[k] - cell[k * stride];
        if (gain > 0 || (gain == 0 && uses_no_more(facts, v, k, best)))
            best = k;
    }
    for (int64_t k = 0; k < size_of(network, v) && best >= 0; k++)
        if (cell[k * stride] != NEVER && !uses_no_more(facts, v, best, k))
            best = -1;
    return best;
}

int shard_follow(const struct shard_network *network, const int64_t *cost, const int64_t *usage_start,
                 const int64_t *usage, const int8_t *keep, int64_t *follow, int64_t *choice) {
    const struct facts facts = {network, cost, usage_start, usage};
    for (int64_t v = 0; v < network->variables; v++) {
        follow[v] = -1;
        if (keep[v] || network->arc_start[v + 1] - network->arc_start[v] != 1)
            continue;
        const int64_t e = network->arc[network->arc_start[v]];
        const bool is_tail = network->tail[e] == v;
        const int64_t u = is_tail ? network->head[e] : network->tail[e];
        if (network->arc_start[u + 1] - network->arc_start[u] == 1 && !keep[u] && v < u)
            continue; /* u may follow v instead */
        const int64_t tails = size_of(network, network->tail[e]);
        int64_t *of_pair = choice + network->message_start[e] + (is_tail ? tails : 0);
        int64_t a = 0;
        while (a < size_of(network, u) && (of_pair[a] = best_beside(&facts, v, a)) >= 0)
            a++;
        follow[v] = a == size_of(network, u) ? u : -1;
    }
    return SHARD_OK;
}
