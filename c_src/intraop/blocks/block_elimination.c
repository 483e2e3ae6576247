/* Bucket elimination: Bertele and Brioschi 1972, Dechter 1999. */
#include "intraop/blocks/block_elimination.h"

#include "intraop/simd.h"

/* Compute the degree of a member and the size of the table of its elimination. */
static void score_member(struct block *block, int64_t i) {
    double weight = (double)size_of(block, block->member[i]);
    int64_t degree = 0;
    for (int64_t w = 0; w < block->words; w++) {
        for (uint64_t bits = block->adjacent[i * block->words + w]; bits; bits &= bits - 1) {
            weight *= (double)size_of(block, block->member[64 * w + __builtin_ctzll(bits)]);
            degree++;
        }
    }
    block->weight[i] = weight;
    block->degree[i] = degree;
}

void block_link(struct block *block) {
    const struct shard_memory_network *network = block->network;
    block->words = (block->count + 63) / 64;
    memset(block->role, FIXED, (size_t)block->count);
    memset(block->adjacent, 0, (size_t)(block->count * block->words) * sizeof *block->adjacent);
    for (int64_t i = 0; i < block->count; i++) {
        const int64_t v = block->member[i];
        for (int64_t a = network->arc_start[v]; a < network->arc_start[v + 1]; a++) {
            const int64_t f = network->arc[a];
            for (int64_t k = network->scope_start[f]; k < network->scope_start[f + 1]; k++) {
                const int64_t j = block->place[network->scope[k]];
                if (j >= 0 && j != i)
                    block->adjacent[i * block->words + j / 64] |= UINT64_C(1) << (j % 64);
            }
        }
    }
    for (int64_t i = 0; i < block->count; i++) {
        score_member(block, i);
        block->undecided[i] = i;
    }
}

/* Remove a member from the graph; if it is eliminated, its neighbours become a clique. */
static void remove_member(struct block *block, int64_t i, bool eliminate) {
    const uint64_t *mine = block->adjacent + i * block->words;
    int64_t *clique = block->clique + block->eliminated * MAX_CLIQUE, size = 0;
    for (int64_t w = 0; w < block->words; w++) {
        for (uint64_t bits = mine[w]; bits; bits &= bits - 1) {
            const int64_t j = 64 * w + __builtin_ctzll(bits);
            uint64_t *other = block->adjacent + j * block->words;
            if (eliminate) {
                clique[size++] = j;
                for (int64_t x = 0; x < block->words; x++)
                    other[x] |= mine[x];
                other[j / 64] &= ~(UINT64_C(1) << (j % 64));
            }
            other[i / 64] &= ~(UINT64_C(1) << (i % 64));
        }
    }
    for (int64_t w = 0; w < block->words; w++) {
        for (uint64_t bits = mine[w]; bits; bits &= bits - 1) {
            const int64_t j = 64 * w + __builtin_ctzll(bits);
            score_member(block, j);
        }
    }
    if (eliminate) {
        block->role[i] = FREE;
        block->rank[i] = block->eliminated;
        block->order[block->eliminated] = i;
        block->clique_size[block->eliminated++] = size;
    }
}

/* Index in `undecided` of the member of least weight. */
static int64_t lightest_member(const struct block *block) {
    int64_t best = 0;
    for (int64_t k = 1; k < block->undecided_count; k++)
        best = block->weight[block->undecided[k]] < block->weight[block->undecided[best]] ? k : best;
    return best;
}

/* Index in `undecided` of a member to fix: the last to join, or a random one, favouring high degrees. */
static int64_t pick_fixed(struct block *block, bool farthest) {
    int64_t best = 0;
    double most = -1;
    for (int64_t k = 0; k < block->undecided_count; k++) {
        const int64_t i = block->undecided[k];
        const double score = farthest ? (double)i : (double)block->degree[i] * random_share(&block->random);
        if (score > most) {
            most = score;
            best = k;
        }
    }
    return best;
}

double block_plan(struct block *block) {
    const bool farthest = random_bits(&block->random) & 1;
    double total = 0;
    block->eliminated = 0;
    block->undecided_count = block->count;
    while (block->undecided_count) {
        int64_t k = lightest_member(block);
        const double weight = block->weight[block->undecided[k]];
        if (total + weight > block->cells)
            break;
        if (weight <= block->width)
            total += weight;
        else
            k = pick_fixed(block, farthest);
        const int64_t i = block->undecided[k];
        block->undecided[k] = block->undecided[--block->undecided_count];
        remove_member(block, i, weight <= block->width);
    }
    return total;
}

/* Give table f to the free member i, the first of its members to be eliminated. */
static void attach_table(struct block *block, int64_t i, int64_t f) {
    const struct shard_memory_network *network = block->network;
    struct source source = {network->cell + network->cell_start[f], block->scope_size, 0, block->bucket[i]};
    int64_t stride = 1;
    for (int64_t k = network->scope_start[f + 1] - 1; k >= network->scope_start[f]; k--) {
        const int64_t v = network->scope[k], j = block->place[v];
        if (j >= 0 && block->role[j] == FREE) {
            block->scope[block->scope_size + source.count] = j;
            block->stride[block->scope_size + source.count++] = stride;
        } else {
            source.cell += stride * block->value[v];
        }
        stride *= size_of(block, v);
    }
    if (source.count == 1) {
        double *unary = block->unary + block->unary_start[i];
        for (int64_t x = 0; x < size_of(block, block->member[i]); x++)
            unary[x] += source.cell[x * block->stride[block->scope_size]];
        return;
    }
    block->scope_size += source.count;
    block->source[block->sources] = source;
    block->bucket[i] = block->sources++;
}

/* Set the costs of a free member's values, and give it the tables that no earlier member has. */
static void gather_tables(struct block *block, int64_t i) {
    const struct shard_memory_network *network = block->network;
    const int64_t v = block->member[i], row = network->start[v];
    for (int64_t x = 0; x < size_of(block, v); x++)
        block->unary[block->unary_start[i] + x] = network->cost[row + x] + block->price[row + x];
    for (int64_t a = network->arc_start[v]; a < network->arc_start[v + 1]; a++) {
        const int64_t f = network->arc[a];
        if (block->seen[f] == block->stamp)
            continue;
        block->seen[f] = block->stamp;
        attach_table(block, i, f);
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

/* Drop the members of a clique that were fixed later, and return the number left. */
static int64_t drop_fixed(const struct block *block, int64_t *clique, int64_t count) {
    int64_t left = 0;
    for (int64_t a = 0; a < count; a++)
        if (block->role[clique[a]] == FREE)
            clique[left++] = clique[a];
    return left;
}

/* Eliminate the p-th member of the order: its minimum is a table over its clique. */
static void eliminate(struct block *block, int64_t p) {
    int64_t *clique = block->clique + p * MAX_CLIQUE;
    const int64_t i = block->order[p], values = size_of(block, block->member[i]);
    const int64_t axes = drop_fixed(block, clique, block->clique_size[p]) + 1;
    int64_t size[MAX_CLIQUE + 1], stride[MAX_CLIQUE + 1], length = 1, target = -1;
    size[0] = values;
    for (int64_t a = 1; a < axes; a++) {
        size[a] = size_of(block, block->member[clique[a - 1]]);
        length *= size[a];
        target = target < 0 || block->rank[clique[a - 1]] < block->rank[target] ? clique[a - 1] : target;
    }
    if (target < 0)
        return;
    for (int64_t x = 0; x < values; x++)
        for (int64_t y = 0; y < length; y++)
            block->table[x * length + y] = block->unary[block->unary_start[i] + x];
    for (int64_t k = block->bucket[i]; k >= 0; k = block->source[k].next) {
        memset(stride, 0, (size_t)axes * sizeof *stride);
        for (int64_t m = block->source[k].first; m < block->source[k].first + block->source[k].count; m++)
            for (int64_t a = 0; a < axes; a++)
                if (block->scope[m] == (a ? clique[a - 1] : i))
                    stride[a] = block->stride[m];
        add_strided(block->table, block->source[k].cell, axes, size, stride);
    }
    double *least = block->message + block->message_cells;
    minimise(block->table, values, length, least);
    block->message_cells += length;
    struct source source = {least, block->scope_size, axes - 1, block->bucket[target]};
    for (int64_t a = axes - 1, jump = 1; a > 0; jump *= size[a--]) {
        block->scope[block->scope_size] = clique[a - 1];
        block->stride[block->scope_size++] = jump;
    }
    block->source[block->sources] = source;
    block->bucket[target] = block->sources++;
}

/* Choose the best value of a member given those eliminated after it; ties keep the present value. */
static void choose_value(struct block *block, int64_t i) {
    const int64_t values = size_of(block, block->member[i]), now = block->value[block->member[i]];
    double *total = block->unary + block->unary_start[i];
    for (int64_t k = block->bucket[i]; k >= 0; k = block->source[k].next) {
        const double *cell = block->source[k].cell;
        int64_t mine = 0;
        for (int64_t m = block->source[k].first; m < block->source[k].first + block->source[k].count; m++)
            if (block->scope[m] == i)
                mine = block->stride[m];
            else
                cell += block->stride[m] * block->choice[block->scope[m]];
        for (int64_t x = 0; x < values; x++)
            total[x] += cell[x * mine];
    }
    int64_t best = now;
    for (int64_t x = 0; x < values; x++)
        best = total[x] < total[best] ? x : best;
    block->choice[i] = best;
}

void block_solve(struct block *block) {
    block->sources = block->scope_size = block->message_cells = 0;
    block->stamp++;
    for (int64_t i = 0, from = 0; i < block->count; from += size_of(block, block->member[i++])) {
        block->unary_start[i] = from;
        block->bucket[i] = -1;
        block->choice[i] = block->value[block->member[i]];
    }
    for (int64_t p = 0; p < block->eliminated; p++) {
        gather_tables(block, block->order[p]);
        eliminate(block, p);
    }
    for (int64_t p = block->eliminated - 1; p >= 0; p--)
        choose_value(block, block->order[p]);
}

void block_allocate(struct arena *arena, struct block *block, int64_t size) {
    const struct shard_memory_network *network = block->network;
    const int64_t scopes = network->scope_start[network->tables] + size * MAX_CLIQUE;
    ARENA_ARRAYS(arena, network->variables, block->place);
    ARENA_ARRAYS(arena, size, block->member, block->weight, block->degree, block->undecided, block->role,
                 block->order, block->rank, block->clique_size);
    ARENA_ARRAYS(arena, size, block->bucket, block->unary_start, block->choice);
    ARENA_ARRAYS(arena, size * ((size + 63) / 64), block->adjacent);
    ARENA_ARRAYS(arena, size * MAX_CLIQUE, block->clique);
    ARENA_ZEROS(arena, network->tables, block->seen);
    ARENA_ARRAYS(arena, network->tables + size, block->source);
    ARENA_ARRAYS(arena, scopes, block->scope, block->stride);
    ARENA_ARRAYS(arena, network->start[network->variables], block->unary);
    ARENA_ARRAYS(arena, block->width, block->table);
    ARENA_ARRAYS(arena, block->cells / 2 + 1, block->message);
    for (int64_t v = 0; !arena->failed && v < network->variables; v++)
        block->place[v] = -1;
}
