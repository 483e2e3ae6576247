/* Each step draws a node in the set or adjacent to it and moves it out or in. */
#include "pipeline/sets/anneal_set.h"

#include "common/anneal.h"
#include "common/arena.h"

#define COLD_SHARE 0.01   /* temperature at the last move, as a share of the limit */
#define EXCESS_FACTOR 1.5 /* energy per unit of cost above the limit */

struct annealer {
    const struct shard_set_costs *problem;
    const int64_t *weight;
    int64_t limit;
    int32_t words;
    int8_t *member;
    uint64_t *set;   /* words elements: the set as bits */
    int32_t *inside; /* nodes elements: members among a node and its consumers */
    int32_t *node;   /* nodes elements: nodes of the set come first */
    int32_t *place;  /* nodes elements: place in `node` */
    int32_t size;    /* of the set */
    int64_t cost, weighed;
    int8_t *best;
    int64_t best_cost, heaviest;
};

/* The cost that the tensor of u adds if `by` more of its nodes are in the set. */
static int64_t tensor_change(const struct annealer *annealer, int32_t u, int32_t by) {
    const struct shard_set_costs *p = annealer->problem;
    const int64_t all = 1 + p->out_start[u + 1] - p->out_start[u];
    const int32_t before = annealer->inside[u];
    const bool cut = before + by > 0 && before + by < all;
    return cut == (before > 0 && before < all) ? 0 : (cut ? p->size[u] : -p->size[u]);
}

/* The cost that moving v in or out adds. */
static int64_t cost_change(const struct annealer *annealer, int32_t v) {
    const struct shard_set_costs *p = annealer->problem;
    const int32_t by = annealer->member[v] ? -1 : 1;
    int64_t sum = by * p->work[v] + tensor_change(annealer, v, by);
    for (int64_t e = p->in_start[v]; e < p->in_start[v + 1]; e++)
        sum += tensor_change(annealer, p->in_tail[e], by);
    return sum;
}

static void move(struct annealer *annealer, int32_t v) {
    const struct shard_set_costs *p = annealer->problem;
    const int32_t by = annealer->member[v] ? -1 : 1;
    const int32_t edge = by > 0 ? annealer->size : annealer->size - 1;
    const int32_t other = annealer->node[edge];
    annealer->cost += cost_change(annealer, v);
    annealer->weighed += by * annealer->weight[v];
    annealer->inside[v] += by;
    for (int64_t e = p->in_start[v]; e < p->in_start[v + 1]; e++)
        annealer->inside[p->in_tail[e]] += by;
    annealer->member[v] = by > 0;
    annealer->set[v >> 6] ^= (uint64_t)1 << (v & 63);
    annealer->node[annealer->place[v]] = other;
    annealer->place[other] = annealer->place[v];
    annealer->node[edge] = v;
    annealer->place[v] = edge;
    annealer->size += by;
}

static bool intersects(const struct annealer *annealer, const uint64_t *rows, int32_t v) {
    for (int32_t i = 0; i < annealer->words; i++)
        if (rows[(size_t)v * (size_t)annealer->words + (size_t)i] & annealer->set[i])
            return true;
    return false;
}

/* True if the set holds a descendant of v; a set closed under descendants counts as holding one of each node. */
static bool is_above(const struct annealer *annealer, int32_t v) {
    return annealer->problem->closure < 0 || intersects(annealer, annealer->problem->below, v);
}

/* True if the set holds an ancestor of v; a set closed under ancestors counts as holding one of each node. */
static bool is_below(const struct annealer *annealer, int32_t v) {
    return annealer->problem->closure > 0 || intersects(annealer, annealer->problem->above, v);
}

/* True if the set stays convex or closed if v moves in or out. */
static bool stays_convex(const struct annealer *annealer, int32_t v) {
    const struct shard_set_costs *p = annealer->problem;
    if (annealer->member[v])
        return !is_above(annealer, v) || !is_below(annealer, v);
    for (int64_t e = p->in_start[v]; e < p->in_start[v + 1]; e++)
        if (!annealer->member[p->in_tail[e]] && is_below(annealer, p->in_tail[e]))
            return false;
    for (int64_t e = p->out_start[v]; e < p->out_start[v + 1]; e++)
        if (!annealer->member[p->out_head[e]] && is_above(annealer, p->out_head[e]))
            return false;
    return true;
}

/* Draw a member, a neighbour of a member or, rarely, any node. */
static int32_t draw(const struct annealer *annealer, struct random *random) {
    const struct shard_set_costs *p = annealer->problem;
    const int32_t kind = random_below(random, 16);
    if (annealer->size == 0 || kind == 0)
        return random_below(random, p->nodes);
    const int32_t v = annealer->node[random_below(random, annealer->size)];
    const int32_t in = (int32_t)(p->in_start[v + 1] - p->in_start[v]);
    const int32_t out = (int32_t)(p->out_start[v + 1] - p->out_start[v]);
    if (kind < 6 || in + out == 0)
        return v;
    const int32_t at = random_below(random, in + out);
    return at < in ? p->in_tail[p->in_start[v] + at] : p->out_head[p->out_start[v] + at - in];
}

static double energy(const struct annealer *annealer, int64_t cost, int64_t weighed, double price) {
    const double excess = cost >= annealer->limit ? (double)(cost - annealer->limit + 1) : 0.0;
    return EXCESS_FACTOR * excess - price * (double)weighed;
}

static void keep(struct annealer *annealer) {
    if (annealer->cost >= annealer->limit || annealer->weighed <= annealer->heaviest)
        return;
    annealer->heaviest = annealer->weighed;
    annealer->best_cost = annealer->cost;
    memcpy(annealer->best, annealer->member, (size_t)annealer->problem->nodes);
}

static void anneal(struct annealer *annealer, int64_t moves, double hot, double price,
                   struct random *random) {
    const double scale = (double)annealer->limit;
    const double cooling = anneal_cooling(hot, COLD_SHARE, 1, moves > 1 ? moves - 1 : 1);
    double temperature = hot * scale;
    for (int64_t i = 0; i < moves; i++, temperature *= cooling) {
        const int32_t v = draw(annealer, random);
        const int64_t cost = annealer->cost + cost_change(annealer, v);
        const int64_t weighed =
            annealer->weighed + (annealer->member[v] ? -annealer->weight[v] : annealer->weight[v]);
        const double before = energy(annealer, annealer->cost, annealer->weighed, price);
        const double after = energy(annealer, cost, weighed, price);
        if (!anneal_accepts(random, temperature, before, after) || !stays_convex(annealer, v))
            continue;
        move(annealer, v);
        keep(annealer);
    }
}

/* Put the members into the set one by one. */
static void begin(struct annealer *annealer, const int8_t *member) {
    annealer->heaviest = -1;
    for (int32_t v = 0; v < annealer->problem->nodes; v++)
        annealer->node[v] = annealer->place[v] = v;
    for (int32_t v = 0; v < annealer->problem->nodes; v++)
        if (member[v])
            move(annealer, v);
    keep(annealer);
}

int shard_anneal_set(const struct shard_set_costs *problem, const int64_t *weight, int64_t need,
                     int64_t limit, int64_t moves, double hot, uint64_t seed, int8_t *member, int64_t *cost) {
    struct annealer annealer = {.problem = problem, .weight = weight, .limit = limit};
    struct arena arena = {0};
    struct random random = {seed};
    annealer.words = (problem->nodes + 63) / 64;
    ARENA_ZEROS(&arena, annealer.words, annealer.set);
    ARENA_ZEROS(&arena, problem->nodes, annealer.inside, annealer.best, annealer.member);
    ARENA_ARRAYS(&arena, problem->nodes, annealer.node, annealer.place);
    const int status = arena_status(&arena);
    if (status == SHARD_OK) {
        begin(&annealer, member);
        if (problem->nodes > 0)
            anneal(&annealer, moves, hot, (double)limit / (double)need, &random);
        *cost = annealer.heaviest >= need ? annealer.best_cost : limit;
        memcpy(member, annealer.best, (size_t)problem->nodes);
    }
    arena_free(&arena);
    return status;
}
