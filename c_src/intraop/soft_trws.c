/* Messages are computed for several values of a variable at a time; each variable's lie together, its tables in the
 * order of the visits. */
#include "intraop/soft_trws.h"

#include "intraop/simd.h"

/* Number of arcs by which messages are prefetched. */
#define AHEAD 4
/* Bytes of a cache line, and most bytes prefetched. */
#define LINE 64
#define FETCHED 256
/* Least number of values for which negligible rows are skipped. */
#define LISTED_FROM 40

/* State of the sweeps. */
struct pass {
    const struct shard_network *network;
    const struct shard_soft *soft;
    float softness;
    const double *cost;
    float *message;
    double *belief;
    /* scratch, as long as the largest domain, padded */
    double *total;  /* cost of each value of the variable visited, with its messages */
    float *share;   /* what each pair ahead gets of that */
    float *barrier; /* FORBIDDEN for forbidden values, else 0 */
    int64_t *row;
};

static int64_t padded(int64_t count) {
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

/* Place the messages of all variables: `place`, out, 2 * pairs elements, is that of a pair's messages to its tail, then
 * to its head. */
static void place_messages(const struct shard_network *network, int64_t *slot, int64_t *place) {
    int64_t next = 0;
    for (int64_t v = 0; v < network->variables; v++) {
        slot[v] = next;
        for (int64_t a = network->arc_start[v]; a < network->arc_start[v + 1]; a++) {
            const int64_t e = network->arc[a];
            place[2 * e + (network->head[e] == v)] = next;
            next += padded(size_of(network, v));
        }
    }
    slot[network->variables] = next;
}

/* Tables and ranges, and the places at which the next ones begin. */
struct cursor {
    float *table, *range;
    int64_t cells, rows;
};

/* Copy the table that arc a of v reads, its rows being those of the other end. */
static void copy_table(const struct shard_network *network, const int64_t *place, int64_t v, int64_t a,
                       struct shard_soft_arc *arc, struct cursor *next) {
    const int64_t e = network->arc[a], size = size_of(network, v);
    const bool is_tail = network->tail[e] == v;
    const int64_t rows = size_of(network, is_tail ? network->head[e] : network->tail[e]);
    const int64_t *cell = network->cell + network->cell_start[e];
    arc[a] = (struct shard_soft_arc){next->cells, next->rows, place[2 * e + is_tail], rows};
    for (int64_t i = 0; i < rows; i++, next->cells += size, next->rows++)
        copy_row(is_tail ? cell + i : cell + i * size, is_tail ? rows : 1, size, next->table + next->cells,
                 next->range + 2 * next->rows);
}

int shard_soft_trws_tables(const struct shard_network *network, int64_t *slot, struct shard_soft_arc *arc,
                           float *table, float *range) {
    int64_t *place = malloc((size_t)(2 * network->pairs + 1) * sizeof *place);
    if (!place)
        return SHARD_NO_MEMORY;
    place_messages(network, slot, place);
    struct cursor next = {table, range, 0, 0};
    for (int64_t v = 0; v < network->variables; v++)
        for (int64_t a = network->arc_start[v]; a < network->arc_start[v + 1]; a++)
            if (network->head[network->arc[a]] == v)
                copy_table(network, place, v, a, arc, &next);
    for (int64_t v = network->variables - 1; v >= 0; v--)
        for (int64_t a = network->arc_start[v + 1] - 1; a >= network->arc_start[v]; a--)
            if (network->tail[network->arc[a]] == v)
                copy_table(network, place, v, a, arc, &next);
    for (int64_t i = 0; i < SHARD_LANES; i++)
        table[next.cells + i] = 0.0F;
    free(place);
    return SHARD_OK;
}

/* Terms below 2^-UNDERFLOW_BITS of the greatest are raised to it. */
#define UNDERFLOW_BITS 100.0F
/* A row of a table is left out if each of its terms is below 2^-NEGLIGIBLE_BITS of the greatest. */
#define NEGLIGIBLE_BITS 20.0F
/* Adding it to a float of at most 2^21 in absolute value rounds that to an integer, which is then in the last bits.
 * */
#define ROUNDER 12582912.0F
/* Binary logarithm of e, and natural one of 2. */
#define LOG2_E 1.44269504F
#define LN_2 0.69314718F

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

/* Load the messages that an arc reads. */
SHARD_INLINE void fetch(const struct pass *pass, int64_t a) {
    if (a < 0 || a >= 2 * pass->network->pairs)
        return;
    const struct shard_soft_arc *arc = pass->soft->arc + a;
    const char *sent = (const char *)(pass->message + arc->sent);
    for (int64_t i = 0; i < arc->rows * (int64_t)sizeof(float) && i < FETCHED; i += LINE)
        __builtin_prefetch(sent + i);
}

/* Begin a visit with the costs of v's values alone. */
SHARD_INLINE void begin(struct pass *pass, int64_t v) {
    const double *cost = pass->cost + pass->network->start[v];
    const int64_t size = size_of(pass->network, v), width = padded(size);
    for (int64_t i = 0; i < size; i++)
        pass->total[i] = cost[i];
    for (int64_t i = size; i < width; i++)
        pass->total[i] = (double)FORBIDDEN;
}

/* Mark the values that cost too much to be allowed. */
SHARD_INLINE void mark_forbidden(struct pass *pass, int64_t width) {
    for (int64_t i = 0; i < width; i++)
        pass->barrier[i] = pass->total[i] < (double)(FORBIDDEN / 2) ? 0.0F : (float)FORBIDDEN;
}

/* Divide the excess of each value's cost over the least among the pairs ahead. Forbidden values send -FORBIDDEN. */
SHARD_INLINE void divide(struct pass *pass, int64_t v, int64_t chains) {
    const int64_t size = size_of(pass->network, v), width = padded(size);
    double least = pass->total[0], *belief = pass->belief + pass->network->start[v];
    for (int64_t i = 1; i < size; i++)
        least = pass->total[i] < least ? pass->total[i] : least;
    mark_forbidden(pass, width);
    const double part = 1.0 / (double)(chains ? chains : 1);
    for (int64_t i = 0; i < width; i++) {
        pass->total[i] = (pass->total[i] - least) * part;
        pass->share[i] = (float)pass->total[i];
    }
    for (int64_t i = 0; i < size; i++)
        belief[i] = pass->total[i];
}

#define LANES 8
#define SIMD SHARD_SIMD
#include "intraop/soft_sweep.h"
#ifdef SHARD_AVX512
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl")
#define LANES 16
#define SIMD
#include "intraop/soft_sweep.h"
#pragma GCC pop_options
#endif

/* Sweep, with up to `lanes` values at a time if the processor can. */
static void sweep(struct pass *pass, int64_t sweeps, int64_t lanes) {
#ifdef SHARD_AVX512
    const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    if (wide && lanes >= 16) {
        sweep_16(pass, sweeps);
        return;
    }
#endif
    (void)lanes;
    sweep_8(pass, sweeps);
}

int shard_soft_trws(const struct shard_network *network, const struct shard_soft *soft, int64_t lanes,
                    int64_t sweeps, double softness, const double *cost, float *message, double *belief) {
    int64_t largest = SHARD_LANES;
    for (int64_t v = 0; v < network->variables; v++)
        largest = size_of(network, v) > largest ? padded(size_of(network, v)) : largest;
    double *total = malloc((size_t)largest * sizeof *total);
    float *scratch = malloc((size_t)(2 * largest) * sizeof *scratch);
    int64_t *row = malloc((size_t)largest * sizeof *row);
    const bool allocated = total && scratch && row;
    if (allocated) {
        struct pass pass = {network, soft,    (float)softness,   cost, message, belief,
                            total,   scratch, scratch + largest, row};
        sweep(&pass, sweeps, lanes);
    }
    free(total);
    free(scratch);
    free(row);
    return allocated ? SHARD_OK : SHARD_NO_MEMORY;
}

void shard_soft_trws_messages(const struct shard_network *network, const struct shard_soft *soft,
                              const float *message, double *cost, double *sent) {
    for (int64_t v = 0; v < network->variables; v++)
        for (int64_t a = network->arc_start[v]; a < network->arc_start[v + 1]; a++) {
            const int64_t e = network->arc[a], size = size_of(network, v);
            const float *mine = message + soft->slot[v] + (a - network->arc_start[v]) * padded(size);
            const int64_t before = network->tail[e] == v ? 0 : size_of(network, network->tail[e]);
            double *to = sent + network->message_start[e] + before;
            for (int64_t i = 0; i < size; i++) {
                to[i] = (double)mine[i];
                cost[network->start[v] + i] += to[i];
            }
        }
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
