/* A block: grow it, plan which of its variables to choose anew, choose them, make the changes that pay.
 */
#include "intraop/large_neighbourhood.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/random.h"
#include "intraop/wide.h"

/* Variables beside the one that is eliminated, at most: each doubles the table at least. */
#define MOST 64
/* What a block counts for at least, in cells. */
#define FEWEST 500

/* What becomes of a member of a block; members are known by their place in it. */
enum fate { FIXED, FREE };

/* A table without the variables whose values are fixed. */
struct source {
    const double *cell;
    int64_t first, count; /* its free members: who[first ..], with the stride of each */
    int64_t next;         /* the next one that is used up at the same elimination, or -1 */
};

/* A connected part of what may change. */
struct change {
    double gain;
    int64_t first, count; /* its variables in `changed` */
};

struct search {
    const struct shard_field *field;
    const double *price;
    struct random random;
    int64_t *value;
    int64_t *load;
    int64_t size;
    double width, cells;

    int64_t count;   /* members of the block */
    int64_t words;   /* of a row of `near` */
    int64_t *place;  /* of every variable: its place in the block, or -1 */
    int64_t *member; /* of every place: the variable */
    int64_t *front;
    uint64_t *near;  /* a bit for each member that shares a table */
    double *weight;  /* cells of the table if the member were eliminated now */
    int64_t *degree; /* its neighbours */
    int64_t *open;   /* members whose fate is open */
    int64_t opens;
    int8_t *fate;

    int64_t eliminated;
    int64_t *order;       /* places, in the order of elimination */
    int64_t *position;    /* the inverse */
    int64_t *clique;      /* MOST places for each elimination */
    int64_t *clique_size; /* how many of them */

    int64_t *seen; /* of every table: the last stamp */
    int64_t stamp;
    struct source *source;
    int64_t sources, members;
    int64_t *who, *stride;
    int64_t *bucket;     /* of every place: its first source */
    double *unary;       /* of every free member's values */
    int64_t *unary_from; /* of every place */
    double *table, *message;
    int64_t sent;

    int64_t *choice;  /* of every place */
    int64_t *changed; /* variables, part by part */
    struct change *change;
    int64_t *difference; /* steps + 1 elements, 0 between uses */
};

static int64_t size_of(const struct search *s, int64_t variable) {
    return s->field->start[variable + 1] - s->field->start[variable];
}

/* Any variable, or, half the time, one with many tables. */
static int64_t somewhere(struct search *s) {
    const struct shard_field *field = s->field;
    const int64_t any = random_below(&s->random, (int32_t)field->variables);
    const int64_t scopes = field->scope_start[field->tables];
    if (scopes && random_bits(&s->random) & 1)
        return field->scope[random_below(&s->random, (int32_t)scopes)];
    return any;
}

/* The next variable of the front: half the time the first that came, half the time any. */
static int64_t next_of(struct search *s, int64_t head, int64_t tail) {
    const int64_t first = s->front[head];
    if (random_bits(&s->random) & 1) {
        const int64_t other = head + random_below(&s->random, (int32_t)(tail - head));
        s->front[head] = s->front[other];
        s->front[other] = first;
    }
    return s->front[head];
}

/* Put the variables that share a table with v behind the front, each once; its new end. */
static int64_t reach(struct search *s, int64_t v, int64_t tail) {
    const struct shard_field *field = s->field;
    for (int64_t a = field->arc_start[v]; a < field->arc_start[v + 1]; a++) {
        const int64_t f = field->arc[a];
        for (int64_t i = field->scope_start[f]; i < field->scope_start[f + 1]; i++) {
            const int64_t u = field->scope[i];
            if (s->place[u] < 0) {
                s->place[u] = 0;
                s->front[tail++] = u;
            }
        }
    }
    return tail;
}

/* Grow the block from one variable; how many were looked at. */
static int64_t grow(struct search *s) {
    int64_t head = 0, tail = 1;
    s->count = 0;
    s->front[0] = somewhere(s);
    s->place[s->front[0]] = 0;
    while (head < tail && s->count < s->size) {
        const int64_t v = next_of(s, head++, tail);
        if (size_of(s, v) > 1) /* the others have no choice */
            s->member[s->count++] = v;
        tail = reach(s, v, tail);
    }
    for (int64_t i = 0; i < tail; i++)
        s->place[s->front[i]] = -1;
    for (int64_t i = 0; i < s->count; i++)
        s->place[s->member[i]] = i;
    return tail;
}

/* Find out how many members share a table with one, and what its elimination takes. */
static void weigh(struct search *s, int64_t i) {
    double weight = (double)size_of(s, s->member[i]);
    int64_t degree = 0;
    for (int64_t w = 0; w < s->words; w++) {
        for (uint64_t bits = s->near[i * s->words + w]; bits; bits &= bits - 1) {
            weight *= (double)size_of(s, s->member[64 * w + __builtin_ctzll(bits)]);
            degree++;
        }
    }
    s->weight[i] = weight;
    s->degree[i] = degree;
}

static void link_members(struct search *s) {
    const struct shard_field *field = s->field;
    s->words = (s->count + 63) / 64;
    memset(s->fate, FIXED, (size_t)s->count);
    memset(s->near, 0, (size_t)(s->count * s->words) * sizeof *s->near);
    for (int64_t i = 0; i < s->count; i++) {
        const int64_t v = s->member[i];
        for (int64_t a = field->arc_start[v]; a < field->arc_start[v + 1]; a++) {
            const int64_t f = field->arc[a];
            for (int64_t k = field->scope_start[f]; k < field->scope_start[f + 1]; k++) {
                const int64_t j = s->place[field->scope[k]];
                if (j >= 0 && j != i)
                    s->near[i * s->words + j / 64] |= UINT64_C(1) << (j % 64);
            }
        }
    }
    for (int64_t i = 0; i < s->count; i++) {
        weigh(s, i);
        s->open[i] = i;
    }
}

/* Take a member out of the graph; its neighbours become a clique if it is eliminated. */
static void take_out(struct search *s, int64_t i, bool eliminate) {
    const uint64_t *mine = s->near + i * s->words;
    int64_t *clique = s->clique + s->eliminated * MOST, size = 0;
    for (int64_t w = 0; w < s->words; w++) {
        for (uint64_t bits = mine[w]; bits; bits &= bits - 1) {
            const int64_t j = 64 * w + __builtin_ctzll(bits);
            uint64_t *other = s->near + j * s->words;
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
            weigh(s, j);
        }
    }
    if (eliminate) {
        s->fate[i] = FREE;
        s->position[i] = s->eliminated;
        s->order[s->eliminated] = i;
        s->clique_size[s->eliminated++] = size;
    }
}

/* Where among the open members the one of least weight is. */
static int64_t lightest(const struct search *s) {
    int64_t best = 0;
    for (int64_t k = 1; k < s->opens; k++)
        best = s->weight[s->open[k]] < s->weight[s->open[best]] ? k : best;
    return best;
}

/* Where among them one to be fixed is: at random with a preference for many neighbours, or the one farthest
 * out. */
static int64_t to_fix(struct search *s, bool farthest) {
    int64_t best = 0;
    double most = -1;
    for (int64_t k = 0; k < s->opens; k++) {
        const int64_t i = s->open[k];
        const double score = farthest ? (double)i : (double)s->degree[i] * random_share(&s->random);
        if (score > most) {
            most = score;
            best = k;
        }
    }
    return best;
}

/* Decide in which order members are eliminated, and which are fixed; the cells that takes. */
static double plan(struct search *s) {
    const bool farthest = random_bits(&s->random) & 1;
    double total = 0;
    s->eliminated = 0;
    s->opens = s->count;
    while (s->opens) {
        int64_t k = lightest(s);
        const double weight = s->weight[s->open[k]];
        if (total + weight > s->cells)
            break;
        if (weight <= s->width)
            total += weight;
        else
            k = to_fix(s, farthest);
        const int64_t i = s->open[k];
        s->open[k] = s->open[--s->opens];
        take_out(s, i, weight <= s->width);
    }
    return total;
}

/* Bring a table to the free member i, the first of its members to be eliminated. */
static void attach(struct search *s, int64_t i, int64_t f) {
    const struct shard_field *field = s->field;
    struct source source = {field->cell + field->cell_start[f], s->members, 0, s->bucket[i]};
    int64_t stride = 1;
    for (int64_t k = field->scope_start[f + 1] - 1; k >= field->scope_start[f]; k--) {
        const int64_t v = field->scope[k], j = s->place[v];
        if (j >= 0 && s->fate[j] == FREE) {
            s->who[s->members + source.count] = j;
            s->stride[s->members + source.count++] = stride;
        } else {
            source.cell += stride * s->value[v];
        }
        stride *= size_of(s, v);
    }
    if (source.count == 1) {
        double *unary = s->unary + s->unary_from[i];
        for (int64_t x = 0; x < size_of(s, s->member[i]); x++)
            unary[x] += source.cell[x * s->stride[s->members]];
        return;
    }
    s->members += source.count;
    s->source[s->sources] = source;
    s->bucket[i] = s->sources++;
}

/* What each value of a free member costs by itself and beside what is fixed; its tables. */
static void gather(struct search *s, int64_t i) {
    const struct shard_field *field = s->field;
    const int64_t v = s->member[i], row = field->start[v];
    for (int64_t x = 0; x < size_of(s, v); x++)
        s->unary[s->unary_from[i] + x] = field->cost[row + x] + s->price[row + x];
    for (int64_t a = field->arc_start[v]; a < field->arc_start[v + 1]; a++) {
        const int64_t f = field->arc[a];
        if (s->seen[f] == s->stamp)
            continue;
        s->seen[f] = s->stamp;
        attach(s, i, f);
    }
}

/* sum[x0][x1]... += cell[stride0 * x0 + stride1 * x1 + ...] */
SHARD_WIDE
static void add(double *sum, const double *cell, int64_t axes, const int64_t *size, const int64_t *stride) {
    int64_t length[MOST + 1], jump[MOST + 1], at[MOST + 1] = {0}, depth = 0;
    for (int64_t a = 0; a < axes; a++) { /* axes that lie one after another in both are one */
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
SHARD_WIDE
static void minimise(const double *table, int64_t values, int64_t length, double *least) {
    memcpy(least, table, (size_t)length * sizeof *least);
    for (int64_t x = 1; x < values; x++) {
        table += length;
        for (int64_t y = 0; y < length; y++)
            least[y] = table[y] < least[y] ? table[y] : least[y];
    }
}

/* Leave out of a clique what was fixed after its member was eliminated; how many are left. */
static int64_t without_fixed(const struct search *s, int64_t *clique, int64_t count) {
    int64_t left = 0;
    for (int64_t a = 0; a < count; a++)
        if (s->fate[clique[a]] == FREE)
            clique[left++] = clique[a];
    return left;
}

/* Eliminate the p-th member in the order: what it costs at least is a table over its clique. */
static void eliminate(struct search *s, int64_t p) {
    int64_t *clique = s->clique + p * MOST;
    const int64_t i = s->order[p], values = size_of(s, s->member[i]);
    const int64_t axes = without_fixed(s, clique, s->clique_size[p]) + 1;
    int64_t size[MOST + 1], stride[MOST + 1], length = 1, target = -1;
    size[0] = values;
    for (int64_t a = 1; a < axes; a++) {
        size[a] = size_of(s, s->member[clique[a - 1]]);
        length *= size[a];
        target = target < 0 || s->position[clique[a - 1]] < s->position[target] ? clique[a - 1] : target;
    }
    if (target < 0)
        return;
    for (int64_t x = 0; x < values; x++)
        for (int64_t y = 0; y < length; y++)
            s->table[x * length + y] = s->unary[s->unary_from[i] + x];
    for (int64_t k = s->bucket[i]; k >= 0; k = s->source[k].next) {
        memset(stride, 0, (size_t)axes * sizeof *stride);
        for (int64_t m = s->source[k].first; m < s->source[k].first + s->source[k].count; m++)
            for (int64_t a = 0; a < axes; a++)
                if (s->who[m] == (a ? clique[a - 1] : i))
                    stride[a] = s->stride[m];
        add(s->table, s->source[k].cell, axes, size, stride);
    }
    double *least = s->message + s->sent;
    minimise(s->table, values, length, least);
    s->sent += length;
    struct source source = {least, s->members, axes - 1, s->bucket[target]};
    for (int64_t a = axes - 1, jump = 1; a > 0; jump *= size[a--]) {
        s->who[s->members] = clique[a - 1];
        s->stride[s->members++] = jump;
    }
    s->source[s->sources] = source;
    s->bucket[target] = s->sources++;
}

/* The best value of a member beside those that were eliminated after it; its present one among equals. */
static void choose(struct search *s, int64_t i) {
    const int64_t values = size_of(s, s->member[i]), now = s->value[s->member[i]];
    double *total = s->unary + s->unary_from[i];
    for (int64_t k = s->bucket[i]; k >= 0; k = s->source[k].next) {
        const double *cell = s->source[k].cell;
        int64_t mine = 0;
        for (int64_t m = s->source[k].first; m < s->source[k].first + s->source[k].count; m++) {
            if (s->who[m] == i)
                mine = s->stride[m];
            else
                cell += s->stride[m] * s->choice[s->who[m]];
        }
        for (int64_t x = 0; x < values; x++)
            total[x] += cell[x * mine];
    }
    int64_t best = now;
    for (int64_t x = 0; x < values; x++)
        best = total[x] < total[best] ? x : best;
    s->choice[i] = best;
}

static void choose_all(struct search *s) {
    s->sources = s->members = s->sent = 0;
    s->stamp++;
    for (int64_t i = 0, from = 0; i < s->count; from += size_of(s, s->member[i++])) {
        s->unary_from[i] = from;
        s->bucket[i] = -1;
        s->choice[i] = s->value[s->member[i]];
    }
    for (int64_t p = 0; p < s->eliminated; p++) {
        gather(s, s->order[p]);
        eliminate(s, p);
    }
    for (int64_t p = s->eliminated - 1; p >= 0; p--)
        choose(s, s->order[p]);
}

static int64_t changed_to(const struct search *s, int64_t v) {
    return s->place[v] >= 0 ? s->choice[s->place[v]] : s->value[v];
}

/* By how much a table becomes cheaper. */
static double gain_of_table(const struct search *s, int64_t f) {
    const struct shard_field *field = s->field;
    int64_t before = 0, after = 0;
    for (int64_t k = field->scope_start[f]; k < field->scope_start[f + 1]; k++) {
        const int64_t v = field->scope[k];
        before = before * size_of(s, v) + s->value[v];
        after = after * size_of(s, v) + changed_to(s, v);
    }
    const double *cell = field->cell + field->cell_start[f];
    return cell[before] - cell[after];
}

/* Collect the part of the changes that hangs together with a variable, and what it gains. */
static struct change part_of(struct search *s, int64_t variable, int64_t first) {
    const struct shard_field *field = s->field;
    struct change change = {0, first, 1};
    s->changed[first] = variable;
    s->fate[s->place[variable]] = FIXED;
    for (int64_t at = first; at < first + change.count; at++) {
        const int64_t v = s->changed[at], row = field->start[v];
        const int64_t before = row + s->value[v], after = row + changed_to(s, v);
        change.gain += field->cost[before] + s->price[before] - field->cost[after] - s->price[after];
        for (int64_t a = field->arc_start[v]; a < field->arc_start[v + 1]; a++) {
            const int64_t f = field->arc[a];
            if (s->seen[f] == s->stamp)
                continue;
            s->seen[f] = s->stamp;
            change.gain += gain_of_table(s, f);
            for (int64_t k = field->scope_start[f]; k < field->scope_start[f + 1]; k++) {
                const int64_t u = field->scope[k], j = s->place[u];
                if (j >= 0 && s->fate[j] == FREE && s->choice[j] != s->value[u]) {
                    s->fate[j] = FIXED;
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

/* Steps first .. last - 1. */
struct span {
    int64_t first, last;
};

/* Write down where the memory in use changes under a change, and by how much; the steps it is about. */
static struct span differences(struct search *s, const struct change *change) {
    const struct shard_field *field = s->field;
    struct span span = {field->steps, 0};
    for (int64_t i = change->first; i < change->first + change->count; i++) {
        const int64_t v = s->changed[i], first = field->node_start[v];
        const int64_t nodes = field->node_start[v + 1] - first;
        const int64_t *before = field->usage + field->usage_start[v] + s->value[v] * nodes;
        const int64_t *after = field->usage + field->usage_start[v] + changed_to(s, v) * nodes;
        for (int64_t j = 0; j < nodes; j++) {
            const int64_t begin = field->begin[first + j], end = field->end[first + j];
            s->difference[begin] += after[j] - before[j];
            s->difference[end] -= after[j] - before[j];
            span.first = begin < span.first ? begin : span.first;
            span.last = end > span.last ? end : span.last;
        }
    }
    return span;
}

/* Whether every step in which memory is added has room for it. */
static bool has_room(const struct search *s, struct span span) {
    int64_t more = 0;
    for (int64_t t = span.first; t < span.last; t++) {
        more += s->difference[t];
        if (more > 0 && s->load[t] + more > s->field->room[t])
            return false;
    }
    return true;
}

static void make(struct search *s, const struct change *change, struct span span) {
    int64_t more = 0;
    for (int64_t t = span.first; t < span.last; t++) {
        more += s->difference[t];
        s->load[t] += more;
    }
    for (int64_t i = change->first; i < change->first + change->count; i++)
        s->value[s->changed[i]] = s->choice[s->place[s->changed[i]]];
}

/* Make a change if there is room for it; whether it was made. */
static bool try_to_make(struct search *s, const struct change *change) {
    const struct span span = differences(s, change);
    const bool fits = has_room(s, span);
    if (fits)
        make(s, change, span);
    for (int64_t t = span.first; t <= span.last; t++)
        s->difference[t] = 0;
    return fits;
}

/* Make the changes that pay, those first that pay most; what they gain. */
static double make_all(struct search *s) {
    int64_t parts = 0, changed = 0;
    double gain = 0;
    s->stamp++;
    for (int64_t p = 0; p < s->eliminated; p++) {
        const int64_t i = s->order[p], v = s->member[i];
        if (s->fate[i] != FREE || s->choice[i] == s->value[v])
            continue;
        s->change[parts] = part_of(s, v, changed);
        changed += s->change[parts++].count;
    }
    qsort(s->change, (size_t)parts, sizeof *s->change, larger_gain);
    for (int64_t k = 0; k < parts && s->change[k].gain > 0; k++)
        gain += try_to_make(s, &s->change[k]) ? s->change[k].gain : 0;
    return gain;
}

/* Every array of a search; false if there is no memory. */
static bool allocate(struct search *s) {
    const struct shard_field *field = s->field;
    const size_t variables = (size_t)field->variables, size = (size_t)s->size, tables = (size_t)field->tables;
    const size_t scopes = (size_t)field->scope_start[field->tables] + size * MOST;
    return (s->place = malloc(variables * sizeof *s->place)) &&
           (s->front = malloc(variables * sizeof *s->front)) &&
           (s->member = malloc(size * sizeof *s->member)) &&
           (s->near = malloc(size * ((size + 63) / 64) * sizeof *s->near)) &&
           (s->weight = malloc(size * sizeof *s->weight)) && (s->fate = malloc(size)) &&
           (s->degree = malloc(size * sizeof *s->degree)) && (s->open = malloc(size * sizeof *s->open)) &&
           (s->order = malloc(size * sizeof *s->order)) &&
           (s->position = malloc(size * sizeof *s->position)) &&
           (s->clique = malloc(size * MOST * sizeof *s->clique)) &&
           (s->clique_size = malloc(size * sizeof *s->clique_size)) &&
           (s->seen = calloc(tables + 1, sizeof *s->seen)) &&
           (s->source = malloc((tables + size) * sizeof *s->source)) &&
           (s->who = malloc(scopes * sizeof *s->who)) && (s->stride = malloc(scopes * sizeof *s->stride)) &&
           (s->bucket = malloc(size * sizeof *s->bucket)) &&
           (s->unary = malloc((size_t)(field->start[field->variables] + 1) * sizeof *s->unary)) &&
           (s->unary_from = malloc(size * sizeof *s->unary_from)) &&
           (s->table = malloc((size_t)(s->width + 1) * sizeof *s->table)) &&
           (s->message = malloc((size_t)(s->cells / 2 + 1) * sizeof *s->message)) &&
           (s->choice = malloc(size * sizeof *s->choice)) &&
           (s->changed = malloc(size * sizeof *s->changed)) &&
           (s->change = malloc(size * sizeof *s->change)) &&
           (s->difference = calloc((size_t)field->steps + 1, sizeof *s->difference));
}

static void release(struct search *s) {
    void *arrays[] = {s->place,  s->front,   s->member,   s->near,      s->weight,      s->fate,  s->degree,
                      s->open,   s->order,   s->position, s->clique,    s->clique_size, s->seen,  s->source,
                      s->who,    s->stride,  s->bucket,   s->unary,     s->unary_from,  s->table, s->message,
                      s->choice, s->changed, s->change,   s->difference};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
}

int shard_blocks(const struct shard_field *field, const double *price, int64_t size, double width,
                 double cells, double work, uint64_t *random, int64_t *value, int64_t *load, double *gain) {
    struct search s = {.field = field,
                       .price = price,
                       .random = {*random},
                       .value = value,
                       .load = load,
                       .size = size < field->variables ? size : field->variables,
                       .width = width,
                       .cells = cells};
    *gain = 0;
    if (!field->variables)
        return SHARD_OK;
    if (!allocate(&s)) {
        release(&s);
        return SHARD_NO_MEMORY;
    }
    for (int64_t v = 0; v < field->variables; v++)
        s.place[v] = -1;
    for (double done = 0; done < work;) {
        done += (double)grow(&s);
        link_members(&s);
        done += plan(&s) + (double)(s.count * s.count) + FEWEST;
        choose_all(&s);
        *gain += make_all(&s);
        for (int64_t i = 0; i < s.count; i++)
            s.place[s.member[i]] = -1;
    }
    *random = s.random.state;
    release(&s);
    return SHARD_OK;
}
