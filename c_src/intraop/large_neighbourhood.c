/* Per block: grow it, plan the elimination, solve it, apply the changes that lower the cost. */
#include "intraop/large_neighbourhood.h"

#include "common/arena.h"
#include "common/random.h"
#include "intraop/simd.h"

/* Most neighbours of a variable when it is eliminated: each at least doubles the table. */
#define MAX_CLIQUE 64
/* Fixed work of a block, in cells. */
#define BLOCK_OVERHEAD 500

/* Role of a member of a block. Members are numbered by their place in it. */
enum role { FIXED, FREE };

/* A table restricted to its free variables; the others are fixed at their values. */
struct source {
    const double *cell;
    int64_t first, count; /* its free members: scope[first ..], with the stride of each */
    int64_t next;         /* next source consumed by the same elimination, or -1 */
};

/* A connected component of the variables that change. */
struct change {
    double gain;
    int64_t first, count; /* its variables: changed[first ..] */
};

struct search {
    const struct shard_memory_network *network;
    const double *price;
    struct random random;
    int64_t *value, *load;
    int64_t size;
    double width, cells;

    int64_t count;   /* of the block's members */
    int64_t words;   /* per row of `adjacent` */
    int64_t *place;  /* per variable: its place in the block, or -1 */
    int64_t *member; /* per place: the variable */
    int64_t *front;
    uint64_t *adjacent; /* bit matrix over members: they share a table */
    double *weight;     /* cells of the table if the member were eliminated next */
    int64_t *degree;    /* number of its neighbours */
    int64_t *undecided; /* members without a role yet */
    int64_t undecided_count;
    int8_t *role;

    int64_t eliminated;
    int64_t *order;       /* places in the order of elimination */
    int64_t *rank;        /* inverse of `order` */
    int64_t *clique;      /* MAX_CLIQUE places per elimination: the neighbours */
    int64_t *clique_size; /* number of them */

    int64_t *seen; /* per table: stamp of the last visit */
    int64_t stamp;
    struct source *source;
    int64_t sources, scope_size;
    int64_t *scope, *stride;
    int64_t *bucket;      /* per place: first source of its elimination, or -1 */
    double *unary;        /* cost of each free member's values */
    int64_t *unary_start; /* per place */
    double *table, *message;
    int64_t message_cells;

    int64_t *choice;  /* per place: the new value */
    int64_t *changed; /* variables, component by component */
    struct change *change;
    int64_t *difference; /* steps + 1 elements, 0 between uses */
};

static int64_t size_of(const struct search *s, int64_t variable) {
    return s->network->start[variable + 1] - s->network->start[variable];
}

/* A uniformly random variable or, half the time, one drawn in proportion to its number of tables. */
static int64_t random_variable(struct search *s) {
    const struct shard_memory_network *network = s->network;
    const int64_t any = random_below(&s->random, (int32_t)network->variables);
    const int64_t scopes = network->scope_start[network->tables];
    if (scopes && random_bits(&s->random) & 1)
        return network->scope[random_below(&s->random, (int32_t)scopes)];
    return any;
}

/* The next variable of the front: half the time the oldest, half the time any. */
static int64_t next_in_front(struct search *s, int64_t head, int64_t tail) {
    const int64_t first = s->front[head];
    if (random_bits(&s->random) & 1) {
        const int64_t other = head + random_below(&s->random, (int32_t)(tail - head));
        s->front[head] = s->front[other];
        s->front[other] = first;
    }
    return s->front[head];
}

/* Append the unvisited neighbours of v to the front and return its new end. */
static int64_t extend_front(struct search *s, int64_t v, int64_t tail) {
    const struct shard_memory_network *network = s->network;
    for (int64_t a = network->arc_start[v]; a < network->arc_start[v + 1]; a++) {
        const int64_t f = network->arc[a];
        for (int64_t i = network->scope_start[f]; i < network->scope_start[f + 1]; i++) {
            const int64_t u = network->scope[i];
            if (s->place[u] < 0) {
                s->place[u] = 0;
                s->front[tail++] = u;
            }
        }
    }
    return tail;
}

/* Grow a block from one variable and return the number of variables visited. */
static int64_t grow_block(struct search *s) {
    int64_t head = 0, tail = 1;
    s->count = 0;
    s->front[0] = random_variable(s);
    s->place[s->front[0]] = 0;
    while (head < tail && s->count < s->size) {
        const int64_t v = next_in_front(s, head++, tail);
        if (size_of(s, v) > 1) /* the others have a single value */
            s->member[s->count++] = v;
        tail = extend_front(s, v, tail);
    }
    for (int64_t i = 0; i < tail; i++)
        s->place[s->front[i]] = -1;
    for (int64_t i = 0; i < s->count; i++)
        s->place[s->member[i]] = i;
    return tail;
}

/* Compute the degree of a member and the size of the table of its elimination. */
static void score_member(struct search *s, int64_t i) {
    double weight = (double)size_of(s, s->member[i]);
    int64_t degree = 0;
    for (int64_t w = 0; w < s->words; w++) {
        for (uint64_t bits = s->adjacent[i * s->words + w]; bits; bits &= bits - 1) {
            weight *= (double)size_of(s, s->member[64 * w + __builtin_ctzll(bits)]);
            degree++;
        }
    }
    s->weight[i] = weight;
    s->degree[i] = degree;
}

static void link_members(struct search *s) {
    const struct shard_memory_network *network = s->network;
    s->words = (s->count + 63) / 64;
    memset(s->role, FIXED, (size_t)s->count);
    memset(s->adjacent, 0, (size_t)(s->count * s->words) * sizeof *s->adjacent);
    for (int64_t i = 0; i < s->count; i++) {
        const int64_t v = s->member[i];
        for (int64_t a = network->arc_start[v]; a < network->arc_start[v + 1]; a++) {
            const int64_t f = network->arc[a];
            for (int64_t k = network->scope_start[f]; k < network->scope_start[f + 1]; k++) {
                const int64_t j = s->place[network->scope[k]];
                if (j >= 0 && j != i)
                    s->adjacent[i * s->words + j / 64] |= UINT64_C(1) << (j % 64);
            }
        }
    }
    for (int64_t i = 0; i < s->count; i++) {
        score_member(s, i);
        s->undecided[i] = i;
    }
}

/* Remove a member from the graph; if it is eliminated, its neighbours become a clique. */
static void remove_member(struct search *s, int64_t i, bool eliminate) {
    const uint64_t *mine = s->adjacent + i * s->words;
    int64_t *clique = s->clique + s->eliminated * MAX_CLIQUE, size = 0;
    for (int64_t w = 0; w < s->words; w++) {
        for (uint64_t bits = mine[w]; bits; bits &= bits - 1) {
            const int64_t j = 64 * w + __builtin_ctzll(bits);
            uint64_t *other = s->adjacent + j * s->words;
            if (eliminate) {
                clique[size++] = j;
                for (int64_t x = 0; x < s->words; x++)
                    other[x] |= mine[x];
                other[j / 64] &= ~(UINT64_C(1) << (j % 64));
            }
            other[i / 64] &= ~(UINT64_C(1) << (i % 64));
        }
    }
    for (int64_t w = 0; w < s->words; w++) {
        for (uint64_t bits = mine[w]; bits; bits &= bits - 1) {
            const int64_t j = 64 * w + __builtin_ctzll(bits);
            score_member(s, j);
        }
    }
    if (eliminate) {
        s->role[i] = FREE;
        s->rank[i] = s->eliminated;
        s->order[s->eliminated] = i;
        s->clique_size[s->eliminated++] = size;
    }
}

/* Index in `undecided` of the member of least weight. */
static int64_t lightest_member(const struct search *s) {
    int64_t best = 0;
    for (int64_t k = 1; k < s->undecided_count; k++)
        best = s->weight[s->undecided[k]] < s->weight[s->undecided[best]] ? k : best;
    return best;
}

/* Index in `undecided` of a member to fix: the last to join, or a random one, favouring high degrees. */
static int64_t pick_fixed(struct search *s, bool farthest) {
    int64_t best = 0;
    double most = -1;
    for (int64_t k = 0; k < s->undecided_count; k++) {
        const int64_t i = s->undecided[k];
        const double score = farthest ? (double)i : (double)s->degree[i] * random_share(&s->random);
        if (score > most) {
            most = score;
            best = k;
        }
    }
    return best;
}

/* Decide which members are eliminated, in which order, and return the number of cells. */
static double plan_elimination(struct search *s) {
    const bool farthest = random_bits(&s->random) & 1;
    double total = 0;
    s->eliminated = 0;
    s->undecided_count = s->count;
    while (s->undecided_count) {
        int64_t k = lightest_member(s);
        const double weight = s->weight[s->undecided[k]];
        if (total + weight > s->cells)
            break;
        if (weight <= s->width)
            total += weight;
        else
            k = pick_fixed(s, farthest);
        const int64_t i = s->undecided[k];
        s->undecided[k] = s->undecided[--s->undecided_count];
        remove_member(s, i, weight <= s->width);
    }
    return total;
}

/* Hand table f to the free member i, the first of its members to be eliminated. */
static void attach_table(struct search *s, int64_t i, int64_t f) {
    const struct shard_memory_network *network = s->network;
    struct source source = {network->cell + network->cell_start[f], s->scope_size, 0, s->bucket[i]};
    int64_t stride = 1;
    for (int64_t k = network->scope_start[f + 1] - 1; k >= network->scope_start[f]; k--) {
        const int64_t v = network->scope[k], j = s->place[v];
        if (j >= 0 && s->role[j] == FREE) {
            s->scope[s->scope_size + source.count] = j;
            s->stride[s->scope_size + source.count++] = stride;
        } else {
            source.cell += stride * s->value[v];
        }
        stride *= size_of(s, v);
    }
    if (source.count == 1) {
        double *unary = s->unary + s->unary_start[i];
        for (int64_t x = 0; x < size_of(s, s->member[i]); x++)
            unary[x] += source.cell[x * s->stride[s->scope_size]];
        return;
    }
    s->scope_size += source.count;
    s->source[s->sources] = source;
    s->bucket[i] = s->sources++;
}

/* Set the costs of a free member's values, and hand it the tables that no earlier member has. */
static void gather_tables(struct search *s, int64_t i) {
    const struct shard_memory_network *network = s->network;
    const int64_t v = s->member[i], row = network->start[v];
    for (int64_t x = 0; x < size_of(s, v); x++)
        s->unary[s->unary_start[i] + x] = network->cost[row + x] + s->price[row + x];
    for (int64_t a = network->arc_start[v]; a < network->arc_start[v + 1]; a++) {
        const int64_t f = network->arc[a];
        if (s->seen[f] == s->stamp)
            continue;
        s->seen[f] = s->stamp;
        attach_table(s, i, f);
    }
}

/* sum[x0][x1]... += cell[stride0 * x0 + stride1 * x1 + ...] */
SHARD_SIMD
static void add_strided(double *sum, const double *cell, int64_t axes, const int64_t *size,
                        const int64_t *stride) {
    int64_t length[MAX_CLIQUE + 1], jump[MAX_CLIQUE + 1], at[MAX_CLIQUE + 1] = {0}, depth = 0;
    for (int64_t a = 0; a < axes; a++) { /* merge axes that are contiguous in both arrays */
        if (depth && jump[depth - 1] == stride[a] * size[a]) {
            length[depth - 1] *= size[a];
            jump[depth - 1] = stride[a];
        } else {
            length[depth] = size[a];
            jump[depth++] = stride[a];
        }
    }
    const int64_t inner = length[depth - 1], step = jump[depth - 1];
    for (;;) {
        if (step == 1) {
            for (int64_t x = 0; x < inner; x++)
                sum[x] += cell[x];
        } else if (step == 0) {
            const double constant = *cell;
            for (int64_t x = 0; x < inner; x++)
                sum[x] += constant;
        } else {
            for (int64_t x = 0; x < inner; x++)
                sum[x] += cell[x * step];
        }
        sum += inner;
        int64_t a = depth - 2;
        while (a >= 0 && ++at[a] == length[a]) {
            cell -= jump[a] * (length[a] - 1);
            at[a--] = 0;
        }
        if (a < 0)
            return;
        cell += jump[a];
    }
}

/* least[y] = min over x of table[x][y] */
SHARD_SIMD
static void minimise(const double *table, int64_t values, int64_t length, double *least) {
    memcpy(least, table, (size_t)length * sizeof *least);
    for (int64_t x = 1; x < values; x++) {
        table += length;
        for (int64_t y = 0; y < length; y++)
            least[y] = table[y] < least[y] ? table[y] : least[y];
    }
}

/* Drop from a clique the members fixed since, and return the number left. */
static int64_t drop_fixed(const struct search *s, int64_t *clique, int64_t count) {
    int64_t left = 0;
    for (int64_t a = 0; a < count; a++)
        if (s->role[clique[a]] == FREE)
            clique[left++] = clique[a];
    return left;
}

/* Eliminate the p-th member of the order: its minimum is a table over its clique. */
static void eliminate(struct search *s, int64_t p) {
    int64_t *clique = s->clique + p * MAX_CLIQUE;
    const int64_t i = s->order[p], values = size_of(s, s->member[i]);
    const int64_t axes = drop_fixed(s, clique, s->clique_size[p]) + 1;
    int64_t size[MAX_CLIQUE + 1], stride[MAX_CLIQUE + 1], length = 1, target = -1;
    size[0] = values;
    for (int64_t a = 1; a < axes; a++) {
        size[a] = size_of(s, s->member[clique[a - 1]]);
        length *= size[a];
        target = target < 0 || s->rank[clique[a - 1]] < s->rank[target] ? clique[a - 1] : target;
    }
    if (target < 0)
        return;
    for (int64_t x = 0; x < values; x++)
        for (int64_t y = 0; y < length; y++)
            s->table[x * length + y] = s->unary[s->unary_start[i] + x];
    for (int64_t k = s->bucket[i]; k >= 0; k = s->source[k].next) {
        memset(stride, 0, (size_t)axes * sizeof *stride);
        for (int64_t m = s->source[k].first; m < s->source[k].first + s->source[k].count; m++)
            for (int64_t a = 0; a < axes; a++)
                if (s->scope[m] == (a ? clique[a - 1] : i))
                    stride[a] = s->stride[m];
        add_strided(s->table, s->source[k].cell, axes, size, stride);
    }
    double *least = s->message + s->message_cells;
    minimise(s->table, values, length, least);
    s->message_cells += length;
    struct source source = {least, s->scope_size, axes - 1, s->bucket[target]};
    for (int64_t a = axes - 1, jump = 1; a > 0; jump *= size[a--]) {
        s->scope[s->scope_size] = clique[a - 1];
        s->stride[s->scope_size++] = jump;
    }
    s->source[s->sources] = source;
    s->bucket[target] = s->sources++;
}

/* Choose the best value of a member given those eliminated after it; ties keep the present value. */
static void choose_value(struct search *s, int64_t i) {
    const int64_t values = size_of(s, s->member[i]), now = s->value[s->member[i]];
    double *total = s->unary + s->unary_start[i];
    for (int64_t k = s->bucket[i]; k >= 0; k = s->source[k].next) {
        const double *cell = s->source[k].cell;
        int64_t mine = 0;
        for (int64_t m = s->source[k].first; m < s->source[k].first + s->source[k].count; m++)
            if (s->scope[m] == i)
                mine = s->stride[m];
            else
                cell += s->stride[m] * s->choice[s->scope[m]];
        for (int64_t x = 0; x < values; x++)
            total[x] += cell[x * mine];
    }
    int64_t best = now;
    for (int64_t x = 0; x < values; x++)
        best = total[x] < total[best] ? x : best;
    s->choice[i] = best;
}

static void solve_block(struct search *s) {
    s->sources = s->scope_size = s->message_cells = 0;
    s->stamp++;
    for (int64_t i = 0, from = 0; i < s->count; from += size_of(s, s->member[i++])) {
        s->unary_start[i] = from;
        s->bucket[i] = -1;
        s->choice[i] = s->value[s->member[i]];
    }
    for (int64_t p = 0; p < s->eliminated; p++) {
        gather_tables(s, s->order[p]);
        eliminate(s, p);
    }
    for (int64_t p = s->eliminated - 1; p >= 0; p--)
        choose_value(s, s->order[p]);
}

static int64_t changed_to(const struct search *s, int64_t v) {
    return s->place[v] >= 0 ? s->choice[s->place[v]] : s->value[v];
}

/* Decrease of the cost of a table. */
static double gain_of_table(const struct search *s, int64_t f) {
    const struct shard_memory_network *network = s->network;
    int64_t before = 0, after = 0;
    for (int64_t k = network->scope_start[f]; k < network->scope_start[f + 1]; k++) {
        const int64_t v = network->scope[k];
        before = before * size_of(s, v) + s->value[v];
        after = after * size_of(s, v) + changed_to(s, v);
    }
    const double *cell = network->cell + network->cell_start[f];
    return cell[before] - cell[after];
}

/* Collect the connected component of a changed variable, and its gain. */
static struct change connected_change(struct search *s, int64_t variable, int64_t first) {
    const struct shard_memory_network *network = s->network;
    struct change change = {0, first, 1};
    s->changed[first] = variable;
    s->role[s->place[variable]] = FIXED;
    for (int64_t at = first; at < first + change.count; at++) {
        const int64_t v = s->changed[at], row = network->start[v];
        const int64_t before = row + s->value[v], after = row + changed_to(s, v);
        change.gain += network->cost[before] + s->price[before] - network->cost[after] - s->price[after];
        for (int64_t a = network->arc_start[v]; a < network->arc_start[v + 1]; a++) {
            const int64_t f = network->arc[a];
            if (s->seen[f] == s->stamp)
                continue;
            s->seen[f] = s->stamp;
            change.gain += gain_of_table(s, f);
            for (int64_t k = network->scope_start[f]; k < network->scope_start[f + 1]; k++) {
                const int64_t u = network->scope[k], j = s->place[u];
                if (j >= 0 && s->role[j] == FREE && s->choice[j] != s->value[u]) {
                    s->role[j] = FIXED;
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
    const struct shard_memory_network *network = s->network;
    struct span span = {network->steps, 0};
    for (int64_t i = change->first; i < change->first + change->count; i++) {
        const int64_t v = s->changed[i], first = network->node_start[v];
        const int64_t nodes = network->node_start[v + 1] - first;
        const int64_t *before = network->usage + network->usage_start[v] + s->value[v] * nodes;
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
        if (more > 0 && s->load[t] + more > s->network->room[t])
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
        s->value[s->changed[i]] = s->choice[s->place[s->changed[i]]];
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
    s->stamp++;
    for (int64_t p = 0; p < s->eliminated; p++) {
        const int64_t i = s->order[p], v = s->member[i];
        if (s->role[i] != FREE || s->choice[i] == s->value[v])
            continue;
        s->change[parts] = connected_change(s, v, changed);
        changed += s->change[parts++].count;
    }
    qsort(s->change, (size_t)parts, sizeof *s->change, larger_gain);
    for (int64_t k = 0; k < parts && s->change[k].gain > 0; k++)
        gain += apply_if_fits(s, &s->change[k]) ? s->change[k].gain : 0;
    return gain;
}

/* Allocate every array of a search. */
static int allocate(struct arena *arena, struct search *s) {
    const struct shard_memory_network *network = s->network;
    const int64_t scopes = network->scope_start[network->tables] + s->size * MAX_CLIQUE;
    ARENA_ARRAYS(arena, network->variables, s->place, s->front);
    ARENA_ARRAYS(arena, s->size, s->member, s->weight, s->degree, s->undecided, s->role, s->order, s->rank,
                 s->clique_size);
    ARENA_ARRAYS(arena, s->size, s->bucket, s->unary_start, s->choice, s->changed, s->change);
    ARENA_ARRAYS(arena, s->size * ((s->size + 63) / 64), s->adjacent);
    ARENA_ARRAYS(arena, s->size * MAX_CLIQUE, s->clique);
    ARENA_ZEROS(arena, network->tables, s->seen);
    ARENA_ARRAYS(arena, network->tables + s->size, s->source);
    ARENA_ARRAYS(arena, scopes, s->scope, s->stride);
    ARENA_ARRAYS(arena, network->start[network->variables], s->unary);
    ARENA_ARRAYS(arena, s->width, s->table);
    ARENA_ARRAYS(arena, s->cells / 2 + 1, s->message);
    ARENA_ZEROS(arena, network->steps + 1, s->difference);
    return arena_status(arena);
}

int shard_large_neighbourhood(const struct shard_memory_network *network, const double *price, int64_t size,
                              double width, double cells, double work, uint64_t *random, int64_t *value,
                              int64_t *load, double *gain) {
    struct search s = {.network = network,
                       .price = price,
                       .random = {*random},
                       .value = value,
                       .load = load,
                       .size = size < network->variables ? size : network->variables,
                       .width = width,
                       .cells = cells};
    struct arena arena = {0};
    const int status = allocate(&arena, &s);
    *gain = 0;
    for (int64_t v = 0; status == SHARD_OK && v < network->variables; v++)
        s.place[v] = -1;
    for (double done = 0; status == SHARD_OK && network->variables && done < work;) {
        done += (double)grow_block(&s);
        link_members(&s);
        done += plan_elimination(&s) + (double)(s.count * s.count) + BLOCK_OVERHEAD;
        solve_block(&s);
        *gain += apply_gains(&s);
        for (int64_t i = 0; i < s.count; i++)
            s.place[s.member[i]] = -1;
    }
    *random = s.random.state;
    arena_free(&arena);
    return status;
}
