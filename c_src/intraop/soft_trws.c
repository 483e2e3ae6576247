/* Messages are computed for eight values of a variable at a time. */
#include "intraop/soft_trws.h"

#include "intraop/simd.h"

/* Bytes of a table and of a pair's messages that are fetched while another pair is computed. */
#define AHEAD 16384
/* Bytes fetched at once. */
#define LINE 64

/* State of the sweeps. */
struct pass {
    const struct shard_network *network;
    const float *table, *range;
    float softness;
    double *cost, *message, *belief;
    float *sent, *least; /* scratch, as long as the largest domain, padded */
    int64_t *row;        /* scratch, likewise */
};

SHARD_INLINE int64_t padded(int64_t count) {
    return (count + SHARD_LANES - 1) / SHARD_LANES * SHARD_LANES;
}

/* Copy one row of a table, or a column if `stride` is not 1; range gets its least and greatest element. */
static void copy_row(const int64_t *cell, int64_t stride, int64_t count, float *row, float *range) {
    range[0] = INFINITY;
    range[1] = -INFINITY;
    for (int64_t j = 0; j < count; j++) {
        row[j] = (float)cell[j * stride];
        range[0] = row[j] < range[0] ? row[j] : range[0];
        range[1] = row[j] > range[1] ? row[j] : range[1];
    }
}

int shard_soft_trws_tables(const struct shard_network *network, float *table, float *range) {
    for (int64_t e = 0; e < network->pairs; e++) {
        const int64_t rows = size_of(network, network->tail[e]), columns = size_of(network, network->head[e]);
        const int64_t *cell = network->cell + network->cell_start[e];
        float *to_head = table + 2 * network->cell_start[e], *to_tail = to_head + rows * columns;
        float *of_row = range + 2 * network->message_start[e], *of_column = of_row + 2 * rows;
        for (int64_t i = 0; i < rows; i++)
            copy_row(cell + i * columns, 1, columns, to_head + i * columns, of_row + 2 * i);
        for (int64_t j = 0; j < columns; j++)
            copy_row(cell + j, columns, rows, to_tail + j * rows, of_column + 2 * j);
    }
    for (int64_t i = 0; i < SHARD_LANES; i++)
        table[2 * network->cell_start[network->pairs] + i] = 0.0F;
    return SHARD_OK;
}

/* Terms below 2^-UNDERFLOW_BITS of the greatest are raised to it. */
#define UNDERFLOW_BITS 100.0F
/* A row of a table is left out if each of its terms is below 2^-NEGLIGIBLE_BITS of the greatest. */
#define NEGLIGIBLE_BITS 20.0F
/* Added to a float of at most 2^21 in absolute value, it rounds that to an integer, which its last bits hold. */
#define ROUNDER 12582912.0F
/* Binary logarithm of e, and natural one of 2. */
#define LOG2_E 1.44269504F
#define LN_2 0.69314718F

/* Numbers computed at once, wherever they lie in memory, and their bits. */
typedef float floats
    __attribute__((vector_size(SHARD_LANES * sizeof(float)), aligned(sizeof(float)), may_alias));
typedef int32_t ints __attribute__((vector_size(SHARD_LANES * sizeof(int32_t))));
typedef uint32_t words __attribute__((vector_size(SHARD_LANES * sizeof(uint32_t))));

/* The first where the mask, a comparison, is true, else the second. */
#define SELECT(mask, first, second) ((floats)(((ints)(first) & (mask)) | ((ints)(second) & ~(mask))))

/* List the rows with terms that count: all others are at least NEGLIGIBLE_BITS softnesses above the row whose greatest
 * cell less its message is least. There is always one. */
SHARD_INLINE int64_t list_rows(const float *range, int64_t rows, const float *sent, float softness,
                               int64_t *row) {
    float enough = INFINITY;
    for (int64_t i = 0; i < rows; i++) {
        const float most = range[2 * i + 1] - sent[i];
        enough = most < enough ? most : enough;
    }
    enough += NEGLIGIBLE_BITS * LN_2 * softness;
    int64_t count = 0;
    for (int64_t i = 0; i < rows; i++) {
        row[count] = i;
        count += range[2 * i] - sent[i] <= enough;
    }
    return count;
}

/* least[j] = -s log(sum over the listed rows i of exp((sent[i] - cell[i][j]) / s)), to about four digits of s; it is
 * relative to the plain minimum. Columns up to a multiple of SHARD_LANES are computed along, from what follows each row. */
SHARD_INLINE void soft_least(const float *cell, int64_t columns, const int64_t *row, int64_t rows,
                             const float *sent, float softness, float *least) {
    const float bits_per = LOG2_E / softness;
    const floats underflow = (floats){0} - UNDERFLOW_BITS;
    for (int64_t j = 0; j < columns; j += SHARD_LANES) {
        floats low = *(const floats *)(cell + row[0] * columns + j) - sent[row[0]], sum = {0};
        for (int64_t k = 1; k < rows; k++) {
            const floats left = *(const floats *)(cell + row[k] * columns + j) - sent[row[k]];
            low = SELECT(left < low, left, low);
        }
        for (int64_t k = 0; k < rows; k++) { /* add 2^bits: that of the fraction, then of the integer part */
            floats bits = (low - (*(const floats *)(cell + row[k] * columns + j) - sent[row[k]])) * bits_per;
            bits = SELECT(bits > underflow, bits, underflow);
            const floats whole = bits + ROUNDER, part = bits - (whole - ROUNDER);
            const floats power =
                0.99992807F + part * (0.69326098F + part * (0.24261112F + part * 0.05517166F));
            sum += (floats)((words)power + ((words)whole << 23));
        }
        const ints exponent = ((ints)sum >> 23) - 127;
        const floats fraction = (floats)((ints)sum - (exponent << 23));
        const floats t = (fraction - 1.0F) / (fraction + 1.0F), square = t * t;
        const floats series = 1.0F + square * (0.33333333F + square * (0.2F + square * 0.14285714F));
        const floats log = __builtin_convertvector(exponent, floats) * LN_2 + 2.0F * t * series;
        *(floats *)(least + j) = low - softness * log;
    }
}

/* True if a value is allowed; forbidden values send no shares, so their cost stays near FORBIDDEN. */
SHARD_INLINE bool allowed_cost(double cost) {
    return cost < (double)(FORBIDDEN / 2);
}

/* The messages of pair e to v, or to its other end. */
SHARD_INLINE double *messages(const struct pass *pass, int64_t v, int64_t e, bool to_v) {
    const bool is_tail = pass->network->tail[e] == v;
    const int64_t after = is_tail == to_v ? 0 : size_of(pass->network, pass->network->tail[e]);
    return pass->message + pass->network->message_start[e] + after;
}

/* Move to each value of v its soft minimum in pair e over the allowed values of the other end, minus the least of
 * these. Otherwise each sweep would add a constant to the variables that have most pairs. */
SHARD_INLINE void collect(struct pass *pass, int64_t v, int64_t e) {
    const struct shard_network *network = pass->network;
    const bool is_tail = network->tail[e] == v;
    const int64_t other = is_tail ? network->head[e] : network->tail[e];
    const int64_t size = size_of(network, v), rows = size_of(network, other);
    double *mine = messages(pass, v, e, true), *theirs = messages(pass, v, e, false);
    double most = theirs[0];
    for (int64_t i = 1; i < rows; i++)
        most = theirs[i] > most ? theirs[i] : most;
    for (int64_t i = 0; i < rows; i++) /* relative to the greatest, which is allowed, floats suffice */
        pass->sent[i] = (float)(theirs[i] - most);
    const float *cell = pass->table + 2 * network->cell_start[e] + (is_tail ? rows * size : 0);
    const float *range = pass->range + 2 * (network->message_start[e] + (is_tail ? size : 0));
    const int64_t listed = list_rows(range, rows, pass->sent, pass->softness, pass->row);
    soft_least(cell, size, pass->row, listed, pass->sent, pass->softness, pass->least);
    double *cost = pass->cost + network->start[v];
    float base = INFINITY;
    for (int64_t i = 0; i < size; i++)
        base = allowed_cost(cost[i]) && pass->least[i] < base ? pass->least[i] : base;
    for (int64_t i = 0; i < size; i++) {
        const double offer = allowed_cost(cost[i]) ? (double)(pass->least[i] - base) : mine[i];
        cost[i] += offer - mine[i];
        mine[i] = offer;
    }
}

/* Load what collecting an arc reads: the table to the head or the tail of its pair, and messages. */
SHARD_INLINE void fetch(const struct pass *pass, int64_t arc, bool to_head) {
    const struct shard_network *network = pass->network;
    if (arc < 0 || arc >= 2 * network->pairs)
        return;
    const int64_t e = network->arc[arc], cells = network->cell_start[e + 1] - network->cell_start[e];
    const int64_t sent = network->message_start[e + 1] - network->message_start[e];
    const char *cell = (const char *)(pass->table + 2 * network->cell_start[e] + (to_head ? 0 : cells));
    const char *message = (const char *)(pass->message + network->message_start[e]);
    const char *range = (const char *)(pass->range + 2 * network->message_start[e]);
    for (int64_t i = 0; i < cells * (int64_t)sizeof(float) && i < AHEAD; i += LINE)
        __builtin_prefetch(cell + i);
    for (int64_t i = 0; i < sent * (int64_t)sizeof(double) && i < AHEAD; i += LINE) {
        __builtin_prefetch(message + i, 1);
        __builtin_prefetch(range + i);
    }
}

/* Visit v on the way up or down. */
SHARD_INLINE void visit(struct pass *pass, int64_t v, bool from_below) {
    const struct shard_network *network = pass->network;
    const int64_t first = network->arc_start[v], end = network->arc_start[v + 1], size = size_of(network, v);
    int64_t middle = first;
    while (middle < end && network->head[network->arc[middle]] == v)
        middle++;
    for (int64_t a = first; from_below && a < middle; a++) {
        fetch(pass, a + 1 < middle ? a + 1 : end, from_below);
        collect(pass, v, network->arc[a]);
    }
    for (int64_t a = end - 1; !from_below && a >= middle; a--) {
        fetch(pass, a > middle ? a - 1 : first - 1, from_below);
        collect(pass, v, network->arc[a]);
    }
    double *cost = pass->cost + network->start[v], *share = pass->belief + network->start[v];
    double least = cost[0];
    for (int64_t i = 1; i < size; i++)
        least = cost[i] < least ? cost[i] : least;
    const int64_t chains = middle - first > end - middle ? middle - first : end - middle;
    for (int64_t i = 0; i < size; i++)
        share[i] = (cost[i] - least) / (double)(chains ? chains : 1);
    for (int64_t a = from_below ? middle : first; a < (from_below ? end : middle); a++) {
        double *mine = messages(pass, v, network->arc[a], true);
        for (int64_t i = 0; i < size; i++) {
            const bool allowed = allowed_cost(cost[i]);
            mine[i] = allowed ? mine[i] - share[i] : (double)-FORBIDDEN;
            cost[i] -= allowed ? share[i] : 0.0;
        }
    }
}

SHARD_SIMD
static void sweep_once(struct pass *pass) {
    for (int64_t v = 0; v < pass->network->variables; v++)
        visit(pass, v, true);
    for (int64_t v = pass->network->variables - 1; v >= 0; v--)
        visit(pass, v, false);
}

int shard_soft_trws(const struct shard_network *network, const float *table, const float *range,
                    int64_t sweeps, double softness, double *cost, double *message, double *belief) {
    int64_t largest = SHARD_LANES;
    for (int64_t v = 0; v < network->variables; v++)
        largest = size_of(network, v) > largest ? padded(size_of(network, v)) : largest;
    float *scratch = malloc((size_t)(2 * largest) * sizeof *scratch);
    int64_t *row = malloc((size_t)largest * sizeof *row);
    struct pass pass = {network, table,  range,   (float)softness,   cost,
                        message, belief, scratch, scratch + largest, row};
    const bool allocated = scratch && row;
    for (int64_t sweep = 0; allocated && sweep < sweeps; sweep++)
        sweep_once(&pass);
    free(scratch);
    free(row);
    return allocated ? SHARD_OK : SHARD_NO_MEMORY;
}

/* Add to the values of v the tables shared with lower variables, whose values are chosen. */
static void add_chosen_costs(const struct shard_network *network, const double *message, const int64_t *value,
                             int64_t v, double *cost) {
    for (int64_t a = network->arc_start[v]; a < network->arc_start[v + 1]; a++) {
        const int64_t e = network->arc[a], other = network->tail[e], size = size_of(network, v);
        if (other == v)
            break; /* the pairs with lower variables come first */
        const int64_t *cell = network->cell + network->cell_start[e] + value[other] * size;
        const double *mine = message + network->message_start[e] + size_of(network, other);
        for (int64_t i = 0; i < size; i++)
            cost[i] += (double)cell[i] - mine[i];
    }
}

int shard_soft_trws_round(const struct shard_network *network, const double *cost, const double *message,
                          int64_t *value) {
    const int64_t rows = network->start[network->variables];
    double *total = malloc((size_t)(rows ? rows : 1) * sizeof *total);
    if (!total)
        return SHARD_NO_MEMORY;
    for (int64_t r = 0; r < rows; r++)
        total[r] = cost[r];
    for (int64_t v = 0; v < network->variables; v++) {
        double *mine = total + network->start[v];
        add_chosen_costs(network, message, value, v, mine);
        value[v] = 0;
        for (int64_t i = 1; i < size_of(network, v); i++)
            value[v] = mine[i] < mine[value[v]] ? i : value[v];
    }
    free(total);
    return SHARD_OK;
}
