/* Each step draws a node beside the set, or in it, and moves it to the other side. */
#include "pipeline/anneal_set.h"

#include <stdbool.h>
#include <string.h>

#include "common/anneal.h"
#include "common/arena.h"

#define COLD 0.01  /* temperature at the last move, in shares of the limit */
#define STRICT 1.5 /* what an excess over the limit counts, against weight for its price */

struct hunt {
    struct arena arena;
    const struct shard_blocks *problem;
    const int64_t *weight;
    int64_t limit;
    int32_t words;
    int8_t *member;
    uint64_t *set;   /* words: the set once more, as bits */
    int32_t *inside; /* nodes: how many of a node and its consumers are in the set */
    int32_t *node;   /* nodes: those of the set come first */
    int32_t *place;  /* nodes: where in `node` */
    int32_t size;    /* of the set */
    int64_t cost, heavy;
    int8_t *best;
    int64_t best_cost, heaviest;
};

static int allocate(struct hunt *hunt) {
    const int32_t n = hunt->problem->nodes;
    hunt->words = (n + 63) / 64;
    ARENA_ZEROS(&hunt->arena, hunt->set, hunt->words);
    ARENA_ZEROS(&hunt->arena, hunt->inside, n);
    ARENA_ARRAY(&hunt->arena, hunt->node, n);
    ARENA_ARRAY(&hunt->arena, hunt->place, n);
    ARENA_ZEROS(&hunt->arena, hunt->best, n);
    ARENA_ZEROS(&hunt->arena, hunt->member, n);
    return arena_status(&hunt->arena);
}

/* What the tensor of u adds to the cost once `by` more of its nodes are in the set. */
static int64_t tensor(const struct hunt *hunt, int32_t u, int32_t by) {
    const struct shard_blocks *p = hunt->problem;
    const int64_t all = 1 + p->out_start[u + 1] - p->out_start[u];
    const int32_t before = hunt->inside[u];
    const bool cut = before + by > 0 && before + by < all;
    return cut == (before > 0 && before < all) ? 0 : (cut ? p->size[u] : -p->size[u]);
}

/* What the set costs more with v on its other side. */
static int64_t change(const struct hunt *hunt, int32_t v) {
    const struct shard_blocks *p = hunt->problem;
    const int32_t by = hunt->member[v] ? -1 : 1;
    int64_t sum = by * p->work[v] + tensor(hunt, v, by);
    for (int64_t e = p->in_start[v]; e < p->in_start[v + 1]; e++)
        sum += tensor(hunt, p->in_tail[e], by);
    return sum;
}

static void move(struct hunt *hunt, int32_t v) {
    const struct shard_blocks *p = hunt->problem;
    const int32_t by = hunt->member[v] ? -1 : 1;
    const int32_t edge = by > 0 ? hunt->size : hunt->size - 1;
    const int32_t other = hunt->node[edge];
    hunt->cost += change(hunt, v);
    hunt->heavy += by * hunt->weight[v];
    hunt->inside[v] += by;
    for (int64_t e = p->in_start[v]; e < p->in_start[v + 1]; e++)
        hunt->inside[p->in_tail[e]] += by;
    hunt->member[v] = by > 0;
    hunt->set[v >> 6] ^= (uint64_t)1 << (v & 63);
    hunt->node[hunt->place[v]] = other;
    hunt->place[other] = hunt->place[v];
    hunt->node[edge] = v;
    hunt->place[v] = edge;
    hunt->size += by;
}

static bool meets(const struct hunt *hunt, const uint64_t *rows, int32_t v) {
    for (int32_t i = 0; i < hunt->words; i++)
        if (rows[(size_t)v * (size_t)hunt->words + (size_t)i] & hunt->set[i])
            return true;
    return false;
}

/* Whether the set is convex with v on its other side, as it is now. */
static bool stays_convex(const struct hunt *hunt, int32_t v) {
    const struct shard_blocks *p = hunt->problem;
    if (hunt->member[v])
        return !meets(hunt, p->below, v) || !meets(hunt, p->above, v);
    for (int64_t e = p->in_start[v]; e < p->in_start[v + 1]; e++)
        if (!hunt->member[p->in_tail[e]] && meets(hunt, p->above, p->in_tail[e]))
            return false;
    for (int64_t e = p->out_start[v]; e < p->out_start[v + 1]; e++)
        if (!hunt->member[p->out_head[e]] && meets(hunt, p->below, p->out_head[e]))
            return false;
    return true;
}

/* A member, a node beside one, or, once in a while, any node. */
static int32_t draw(const struct hunt *hunt, struct random *random) {
    const struct shard_blocks *p = hunt->problem;
    const int32_t kind = random_below(random, 16);
    if (hunt->size == 0 || kind == 0)
        return random_below(random, p->nodes);
    const int32_t v = hunt->node[random_below(random, hunt->size)];
    const int32_t in = (int32_t)(p->in_start[v + 1] - p->in_start[v]);
    const int32_t out = (int32_t)(p->out_start[v + 1] - p->out_start[v]);
    if (kind < 6 || in + out == 0)
        return v;
    const int32_t at = random_below(random, in + out);
    return at < in ? p->in_tail[p->in_start[v] + at] : p->out_head[p->out_start[v] + at - in];
}

static double energy(const struct hunt *hunt, int64_t cost, int64_t heavy, double price) {
    const double excess = cost >= hunt->limit ? (double)(cost - hunt->limit + 1) : 0.0;
    return STRICT * excess - price * (double)heavy;
}

static void keep(struct hunt *hunt) {
    if (hunt->cost >= hunt->limit || hunt->heavy <= hunt->heaviest)
        return;
    hunt->heaviest = hunt->heavy;
    hunt->best_cost = hunt->cost;
    memcpy(hunt->best, hunt->member, (size_t)hunt->problem->nodes);
}

static void anneal(struct hunt *hunt, int64_t moves, double hot, double price, struct random *random) {
    const double scale = (double)hunt->limit;
    const double cooling = anneal_cooling(hot, COLD, 1, moves > 1 ? moves - 1 : 1);
    double temperature = hot * scale;
    for (int64_t i = 0; i < moves; i++, temperature *= cooling) {
        const int32_t v = draw(hunt, random);
        const int64_t cost = hunt->cost + change(hunt, v);
        const int64_t heavy = hunt->heavy + (hunt->member[v] ? -hunt->weight[v] : hunt->weight[v]);
        const double before = energy(hunt, hunt->cost, hunt->heavy, price);
        const double after = energy(hunt, cost, heavy, price);
        if (!anneal_accepts(random, temperature, before, after) || !stays_convex(hunt, v))
            continue;
        move(hunt, v);
        keep(hunt);
    }
}

/* Put the members in, one by one. */
static void begin(struct hunt *hunt, const int8_t *member) {
    hunt->heaviest = -1;
    for (int32_t v = 0; v < hunt->problem->nodes; v++)
        hunt->node[v] = hunt->place[v] = v;
    for (int32_t v = 0; v < hunt->problem->nodes; v++)
        if (member[v])
            move(hunt, v);
    keep(hunt);
}

int shard_hunt(const struct shard_blocks *problem, const int64_t *weight, int64_t need, int64_t limit,
               int64_t moves, double hot, uint64_t seed, int8_t *member, int64_t *cost) {
    struct hunt hunt = {.problem = problem, .weight = weight, .limit = limit};
    struct random random = {seed};
    const int status = allocate(&hunt);
    if (status == SHARD_OK) {
        begin(&hunt, member);
        if (problem->nodes > 0)
            anneal(&hunt, moves, hot, (double)limit / (double)need, &random);
        *cost = hunt.heaviest >= need ? hunt.best_cost : limit;
        memcpy(member, hunt.best, (size_t)problem->nodes);
    }
    arena_free(&hunt.arena);
    return status;
}
