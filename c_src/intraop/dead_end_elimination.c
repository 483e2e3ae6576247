/* Dead-end elimination (Goldstein, Biophysical Journal 1994); the memory of each span is a further cost. */
#include "intraop/dead_end_elimination.h"

/* The inputs of both eliminations. */
struct problem {
    const struct shard_network *network;
    const int64_t *cost, *usage_start, *usage;
};

/* True if value k of v never uses more memory than value `other`. */
static bool uses_no_more(const struct problem *problem, int64_t v, int64_t k, int64_t other) {
    const int64_t first = problem->usage_start[v];
    const int64_t spans = (problem->usage_start[v + 1] - first) / size_of(problem->network, v);
    const int64_t *mine = problem->usage + first + k * spans,
                  *theirs = problem->usage + first + other * spans;
    for (int64_t s = 0; s < spans; s++)
        if (mine[s] > theirs[s])
            return false;
    return true;
}

/* A pair seen from one end: its value k and value b of the other have cell[k * across + b * along]. */
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

/* The remaining value of the other end with which value k costs least; -1 if none is allowed. */
static int64_t cheapest_cell(const struct side *side, int64_t k, const int8_t *value) {
    int64_t best = -1, least = FORBIDDEN;
    for (int64_t b = 0; b < side->size; b++) {
        const int64_t cost = side->cell[k * side->across + b * side->along];
        if (value[side->other + b] && cost < least) {
            least = cost;
            best = b;
        }
    }
    return best;
}

/* Least saving in a pair if value k replaces `old`, over the remaining values of the other end; -FORBIDDEN
 * if one of them allows `old` but not k. */
static int64_t least_gain(const struct side *side, int64_t k, int64_t old, const int8_t *value) {
    int64_t least = FORBIDDEN;
    for (int64_t b = 0; b < side->size; b++) {
        const int64_t now = side->cell[old * side->across + b * side->along];
        const int64_t then = side->cell[k * side->across + b * side->along];
        if (!value[side->other + b] || now == FORBIDDEN)
            continue;
        if (then == FORBIDDEN)
            return -FORBIDDEN;
        least = now - then < least ? now - then : least;
    }
    return least;
}

/* True if value k of v can replace value `old`. `place` has, per pair of v, the other end's value with which
 * `old` costs least: the saving there bounds the least saving from above and rejects most values. */
static bool replaces(const struct problem *problem, int64_t v, int64_t k, int64_t old, const int64_t *place,
                     const int8_t *value) {
    const struct shard_network *network = problem->network;
    const int64_t *arc = network->arc + network->arc_start[v];
    const int64_t arcs = network->arc_start[v + 1] - network->arc_start[v];
    const int64_t *cost = problem->cost + network->start[v];
    int64_t gain_bound = cost[old] - cost[k];
    for (int64_t a = 0; a < arcs; a++) {
        const struct side side = side_of(network, v, arc[a]);
        const int64_t *cell = side.cell + place[a] * side.along;
        if (cell[k * side.across] == FORBIDDEN)
            return false;
        gain_bound += cell[old * side.across] - cell[k * side.across];
    }
    if (gain_bound < 0 || !uses_no_more(problem, v, k, old))
        return false;
    int64_t gain = cost[old] - cost[k];
    for (int64_t a = 0; a < arcs; a++) {
        const struct side side = side_of(network, v, arc[a]);
        const int64_t more = least_gain(&side, k, old, value);
        if (more == -FORBIDDEN)
            return false;
        gain += more;
    }
    return gain >= 0;
}

/* The remaining value that can replace `old`, NOTHING if some pair forbids `old` altogether, else KEPT. place, scratch. */
enum { NOTHING = -1, KEPT = -2 };

static int64_t replacement(const struct problem *problem, int64_t v, int64_t old, int64_t *place,
                           const int8_t *value) {
    const struct shard_network *network = problem->network;
    for (int64_t a = network->arc_start[v]; a < network->arc_start[v + 1]; a++) {
        const struct side side = side_of(network, v, network->arc[a]);
        const int64_t best = cheapest_cell(&side, old, value);
        if (best < 0)
            return NOTHING;
        place[a - network->arc_start[v]] = best;
    }
    for (int64_t k = 0; k < size_of(network, v); k++)
        if (k != old && value[network->start[v] + k] && replaces(problem, v, k, old, place, value))
            return k;
    return KEPT;
}

static int64_t largest_degree(const struct shard_network *network) {
    int64_t largest = 1;
    for (int64_t v = 0; v < network->variables; v++) {
        const int64_t degree = network->arc_start[v + 1] - network->arc_start[v];
        largest = degree > largest ? degree : largest;
    }
    return largest;
}

/* Rule out the dominated values of v and log them; true if there were any. */
static bool eliminate(const struct problem *problem, int64_t v, int64_t *place, int8_t *value, int64_t *log,
                      int64_t *logged) {
    const int64_t first = problem->network->start[v], before = *logged;
    for (int64_t k = 0; k < size_of(problem->network, v); k++) {
        const int64_t by = value[first + k] ? replacement(problem, v, k, place, value) : KEPT;
        if (by == KEPT)
            continue;
        value[first + k] = 0;
        log[2 * *logged] = first + k;
        log[2 * *logged + 1] = by == NOTHING ? -1 : first + by;
        ++*logged;
    }
    return *logged > before;
}

/* Mark the variables that share a pair with v. */
static void mark_neighbours(const struct shard_network *network, int64_t v, int8_t *marked) {
    for (int64_t a = network->arc_start[v]; a < network->arc_start[v + 1]; a++) {
        const int64_t e = network->arc[a];
        marked[network->tail[e] == v ? network->head[e] : network->tail[e]] = 1;
    }
}

int shard_dead_end_elimination(const struct shard_network *network, const int64_t *cost,
                               const int64_t *usage_start, const int64_t *usage, const int8_t *skip,
                               int8_t *value, int64_t *log, int64_t *logged) {
    const struct problem problem = {network, cost, usage_start, usage};
    *logged = 0;
    int64_t *place = malloc((size_t)largest_degree(network) * sizeof *place);
    int8_t *marked = malloc((size_t)network->variables + 1);
    const bool enough = place && marked;
    if (enough)
        memset(marked, 1, (size_t)network->variables);
    for (bool again = enough; again;) {
        again = false;
        for (int64_t v = 0; v < network->variables; v++) {
            const bool visit = marked[v] && !skip[v];
            marked[v] = 0;
            if (visit && eliminate(&problem, v, place, value, log, logged)) {
                mark_neighbours(network, v, marked);
                again = true;
            }
        }
    }
    free(marked);
    free(place);
    return enough ? SHARD_OK : SHARD_NO_MEMORY;
}

/* The best value of the leaf v, by cost and memory, if the other end has value a; -1 if there is none. */
static int64_t best_response(const struct problem *problem, int64_t v, int64_t a) {
    const struct shard_network *network = problem->network;
    const struct side side = side_of(network, v, network->arc[network->arc_start[v]]);
    const int64_t *cell = side.cell + a * side.along, stride = side.across;
    const int64_t *cost = problem->cost + network->start[v];
    int64_t best = -1;
    for (int64_t k = 0; k < size_of(network, v); k++) {
        if (cell[k * stride] == FORBIDDEN)
            continue;
        const int64_t gain = best < 0 ? 1 : cost[best] + cell[best * stride] - cost[k] - cell[k * stride];
        if (gain > 0 || (gain == 0 && uses_no_more(problem, v, k, best)))
            best = k;
    }
    for (int64_t k = 0; k < size_of(network, v) && best >= 0; k++)
        if (cell[k * stride] != FORBIDDEN && !uses_no_more(problem, v, best, k))
            best = -1;
    return best;
}

int shard_leaf_elimination(const struct shard_network *network, const int64_t *cost,
                           const int64_t *usage_start, const int64_t *usage, const int8_t *skip,
                           int64_t *parent, int64_t *response) {
    const struct problem problem = {network, cost, usage_start, usage};
    for (int64_t v = 0; v < network->variables; v++) {
        parent[v] = -1;
        if (skip[v] || network->arc_start[v + 1] - network->arc_start[v] != 1)
            continue;
        const int64_t e = network->arc[network->arc_start[v]];
        const bool is_tail = network->tail[e] == v;
        const int64_t u = is_tail ? network->head[e] : network->tail[e];
        if (network->arc_start[u + 1] - network->arc_start[u] == 1 && !skip[u] && v < u)
            continue; /* u may become the leaf of v instead */
        const int64_t tails = size_of(network, network->tail[e]);
        int64_t *of_parent = response + network->message_start[e] + (is_tail ? tails : 0);
        int64_t a = 0;
        while (a < size_of(network, u) && (of_parent[a] = best_response(&problem, v, a)) >= 0)
            a++;
        parent[v] = a == size_of(network, u) ? u : -1;
    }
    return SHARD_OK;
}
