/* Per block: grow it, plan the elimination, solve it, apply the changes that lower the cost. */
#include "intraop/blocks/large_neighbourhood.h"

#include "intraop/blocks/block_elimination.h"

/* Fixed work of a block, in cells. */
#define BLOCK_OVERHEAD 500

/* A connected component of the variables that change. */
struct change {
    double gain;
    int64_t first, count; /* its variables: changed[first ..] */
};

struct search {
    struct block block;
    int64_t *load;         /* steps elements of the caller: memory in use */
    int64_t size;          /* most members of a block */
    int64_t *front;        /* variables elements: those that the block has reached */
    int64_t *changed;      /* size elements: variables, component by component */
    struct change *change; /* size elements */
    int64_t *difference;   /* steps + 1 elements, 0 between uses */
};

/* A uniformly random variable or, half the time, one drawn in proportion to its number of tables. */
static int64_t random_variable(struct search *s) {
    const struct shard_memory_network *network = s->block.network;
    const int64_t any = random_below(&s->block.random, (int32_t)network->variables);
    const int64_t scopes = network->scope_start[network->tables];
    if (scopes && random_bits(&s->block.random) & 1)
        return network->scope[random_below(&s->block.random, (int32_t)scopes)];
    return any;
}

/* The next variable of the front: half the time the oldest, half the time any. */
static int64_t next_in_front(struct search *s, int64_t head, int64_t tail) {
    const int64_t first = s->front[head];
    if (random_bits(&s->block.random) & 1) {
        const int64_t other = head + random_below(&s->block.random, (int32_t)(tail - head));
        s->front[head] = s->front[other];
        s->front[other] = first;
    }
    return s->front[head];
}

/* Append the unvisited neighbours of v to the front and return its new end. */
static int64_t extend_front(struct search *s, int64_t v, int64_t tail) {
    const struct shard_memory_network *network = s->block.network;
    for (int64_t a = network->arc_start[v]; a < network->arc_start[v + 1]; a++) {
        const int64_t f = network->arc[a];
        for (int64_t i = network->scope_start[f]; i < network->scope_start[f + 1]; i++) {
            const int64_t u = network->scope[i];
            if (s->block.place[u] < 0) {
                s->block.place[u] = 0;
                s->front[tail++] = u;
            }
        }
    }
    return tail;
}

/* Grow a block from one variable and return the number of variables visited. */
static int64_t grow_block(struct search *s) {
    int64_t head = 0, tail = 1;
    s->block.count = 0;
    s->front[0] = random_variable(s);
    s->block.place[s->front[0]] = 0;
    while (head < tail && s->block.count < s->size) {
        const int64_t v = next_in_front(s, head++, tail);
        if (size_of(&s->block, v) > 1) /* the others have a single value */
            s->block.member[s->block.count++] = v;
        tail = extend_front(s, v, tail);
    }
    for (int64_t i = 0; i < tail; i++)
        s->block.place[s->front[i]] = -1;
    for (int64_t i = 0; i < s->block.count; i++)
        s->block.place[s->block.member[i]] = i;
    return tail;
}

static int64_t changed_to(const struct search *s, int64_t v) {
    return s->block.place[v] >= 0 ? s->block.choice[s->block.place[v]] : s->block.value[v];
}

/* Decrease of the cost of a table. */
static double gain_of_table(const struct search *s, int64_t f) {
    const struct shard_memory_network *network = s->block.network;
    int64_t before = 0, after = 0;
    for (int64_t k = network->scope_start[f]; k < network->scope_start[f + 1]; k++) {
        const int64_t v = network->scope[k];
        before = before * size_of(&s->block, v) + s->block.value[v];
        after = after * size_of(&s->block, v) + changed_to(s, v);
    }
    const double *cell = network->cell + network->cell_start[f];
    return cell[before] - cell[after];
}

/* Collect the connected component of a changed variable, and its gain. */
static struct change connected_change(struct search *s, int64_t variable, int64_t first) {
    const struct shard_memory_network *network = s->block.network;
    struct change change = {0, first, 1};
    s->changed[first] = variable;
    s->block.role[s->block.place[variable]] = FIXED;
    for (int64_t at = first; at < first + change.count; at++) {
        const int64_t v = s->changed[at], row = network->start[v];
        const int64_t before = row + s->block.value[v], after = row + changed_to(s, v);
        change.gain +=
            network->cost[before] + s->block.price[before] - network->cost[after] - s->block.price[after];
        for (int64_t a = network->arc_start[v]; a < network->arc_start[v + 1]; a++) {
            const int64_t f = network->arc[a];
            if (s->block.seen[f] == s->block.stamp)
                continue;
            s->block.seen[f] = s->block.stamp;
            change.gain += gain_of_table(s, f);
            for (int64_t k = network->scope_start[f]; k < network->scope_start[f + 1]; k++) {
                const int64_t u = network->scope[k], j = s->block.place[u];
                if (j >= 0 && s->block.role[j] == FREE && s->block.choice[j] != s->block.value[u]) {
                    s->block.role[j] = FIXED;
                    s->changed[first + change.count++] = u;
                }
            }
        }
    }
    return change;
}

static int larger_gain(const void *left, const void *right) {
    const double a = ((const struct change *)left)->gain, b = ((const struct change *)right)->gain;
    return (a < b) - (a > b);
}

/* The steps first .. last - 1. */
struct span {
    int64_t first, last;
};

/* Record the load differences of a change in `difference`, and return the steps affected. */
static struct span load_change(struct search *s, const struct change *change) {
    const struct shard_memory_network *network = s->block.network;
    struct span span = {network->steps, 0};
    for (int64_t i = change->first; i < change->first + change->count; i++) {
        const int64_t v = s->changed[i], first = network->node_start[v];
        const int64_t nodes = network->node_start[v + 1] - first;
        const int64_t *before = network->usage + network->usage_start[v] + s->block.value[v] * nodes;
        const int64_t *after = network->usage + network->usage_start[v] + changed_to(s, v) * nodes;
        for (int64_t j = 0; j < nodes; j++) {
            const int64_t begin = network->begin[first + j], end = network->end[first + j];
            s->difference[begin] += after[j] - before[j];
            s->difference[end] -= after[j] - before[j];
            span.first = begin < span.first ? begin : span.first;
            span.last = end > span.last ? end : span.last;
        }
    }
    return span;
}

/* True if every step whose load rises has room for it. */
static bool has_room(const struct search *s, struct span span) {
    int64_t more = 0;
    for (int64_t t = span.first; t < span.last; t++) {
        more += s->difference[t];
        if (more > 0 && s->load[t] + more > s->block.network->room[t])
            return false;
    }
    return true;
}

static void apply_change(struct search *s, const struct change *change, struct span span) {
    int64_t more = 0;
    for (int64_t t = span.first; t < span.last; t++) {
        more += s->difference[t];
        s->load[t] += more;
    }
    for (int64_t i = change->first; i < change->first + change->count; i++)
        s->block.value[s->changed[i]] = s->block.choice[s->block.place[s->changed[i]]];
}

/* Apply a change if it fits in memory; true if it did. */
static bool apply_if_fits(struct search *s, const struct change *change) {
    const struct span span = load_change(s, change);
    const bool fits = has_room(s, span);
    if (fits)
        apply_change(s, change, span);
    for (int64_t t = span.first; t <= span.last; t++)
        s->difference[t] = 0;
    return fits;
}

/* Apply the changes that lower the cost, largest gain first, and return their total gain. */
static double apply_gains(struct search *s) {
    int64_t parts = 0, changed = 0;
    double gain = 0;
    s->block.stamp++;
    for (int64_t p = 0; p < s->block.eliminated; p++) {
        const int64_t i = s->block.order[p], v = s->block.member[i];
        if (s->block.role[i] != FREE || s->block.choice[i] == s->block.value[v])
            continue;
        s->change[parts] = connected_change(s, v, changed);
        changed += s->change[parts++].count;
    }
    qsort(s->change, (size_t)parts, sizeof *s->change, larger_gain);
    for (int64_t k = 0; k < parts && s->change[k].gain > 0; k++)
        gain += apply_if_fits(s, &s->change[k]) ? s->change[k].gain : 0;
    return gain;
}

static int allocate(struct arena *arena, struct search *s) {
    block_allocate(arena, &s->block, s->size);
    ARENA_ARRAYS(arena, s->block.network->variables, s->front);
    ARENA_ARRAYS(arena, s->size, s->changed, s->change);
    ARENA_ZEROS(arena, s->block.network->steps + 1, s->difference);
    return arena_status(arena);
}

int shard_large_neighbourhood(const struct shard_memory_network *network, const double *price, int64_t size,
                              double width, double cells, double work, uint64_t *random, int64_t *value,
                              int64_t *load, double *gain) {
    struct search s = {.block = {.network = network,
                                 .price = price,
                                 .random = {*random},
                                 .value = value,
                                 .width = width,
                                 .cells = cells},
                       .load = load,
                       .size = size < network->variables ? size : network->variables};
    struct block *block = &s.block;
    struct arena arena = {0};
    const int status = allocate(&arena, &s);
    *gain = 0;
    for (double done = 0; status == SHARD_OK && network->variables && done < work;) {
        done += (double)grow_block(&s);
        block_link(block);
        done += block_plan(block) + (double)(block->count * block->count) + BLOCK_OVERHEAD;
        block_solve(block);
        *gain += apply_gains(&s);
        for (int64_t i = 0; i < block->count; i++)
            block->place[block->member[i]] = -1;
    }
    *random = block->random.state;
    arena_free(&arena);
    return status;
}
