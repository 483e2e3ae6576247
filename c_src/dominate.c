/* Dead-end elimination (Goldstein, Biophysical Journal 1994) with memory as a second cost, at every time. */
#include "dominate.h"

#include <stdbool.h>

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

/* How much less value k costs in the pair e than value other, at least, whatever the other end takes of the
 * values that are left; -NEVER where k is not allowed beside some value that other is allowed beside. */
static int64_t least_gain(const struct shard_network *network, int64_t v, int64_t e, int64_t k, int64_t other,
                          const int8_t *value) {
    const bool is_tail = network->tail[e] == v;
    const int64_t u = is_tail ? network->head[e] : network->tail[e];
    const int64_t columns = size_of(network, network->head[e]);
    const int64_t across = is_tail ? columns : 1, along = is_tail ? 1 : columns;
    const int64_t *cell = network->cell + network->cell_start[e];
    int64_t least = NEVER;
    for (int64_t b = 0; b < size_of(network, u); b++) {
        const int64_t now = cell[other * across + b * along], then = cell[k * across + b * along];
        if (!value[network->start[u] + b] || now == NEVER)
            continue;
        if (then == NEVER)
            return -NEVER;
        least = now - then < least ? now - then : least;
    }
    return least;
}

/* Whether value k of v can replace value other. */
static bool replaces(const struct facts *facts, int64_t v, int64_t k, int64_t other, const int8_t *value) {
    const struct shard_network *network = facts->network;
    const int64_t first = network->start[v];
    if (!uses_no_more(facts, v, k, other))
        return false;
    int64_t gain = facts->cost[first + other] - facts->cost[first + k];
    for (int64_t a = network->arc_start[v]; a < network->arc_start[v + 1]; a++) {
        const int64_t more = least_gain(network, v, network->arc[a], k, other, value);
        if (more == -NEVER)
            return false;
        if (more == NEVER)
            return true; /* other is allowed beside nothing */
        gain += more;
    }
    return gain >= 0;
}

int shard_dominate(const struct shard_network *network, const int64_t *cost, const int64_t *usage_start,
                   const int64_t *usage, const int8_t *keep, int8_t *value) {
    const struct facts facts = {network, cost, usage_start, usage};
    for (int64_t v = 0; v < network->variables; v++) {
        const int64_t size = size_of(network, v);
        int8_t *mine = value + network->start[v];
        for (int64_t other = 0; other < size && !keep[v]; other++)
            for (int64_t k = 0; k < size && mine[other]; k++)
                if (k != other && mine[k] && replaces(&facts, v, k, other, value))
                    mine[other] = 0;
    }
    return SHARD_OK;
}

/* The value of v that is best beside value a of the other end of its one pair, by cost and by memory; -1 if
 * there is none. */
static int64_t best_beside(const struct facts *facts, int64_t v, int64_t a) {
    const struct shard_network *network = facts->network;
    const int64_t e = network->arc[network->arc_start[v]];
    const bool is_tail = network->tail[e] == v;
    const int64_t columns = size_of(network, network->head[e]);
    const int64_t *cell = network->cell + network->cell_start[e] + (is_tail ? a : a * columns);
    const int64_t stride = is_tail ? columns : 1;
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
