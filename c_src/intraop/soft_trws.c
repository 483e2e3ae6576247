/* Messages are computed for eight values of a variable at a time. */
#include "intraop/soft_trws.h"

#include "intraop/simd.h"

/* Values computed at once; rows of tables are padded to a multiple. */
#define LANES 8

/* State of the sweeps. */
struct pass {
    const struct shard_network *network;
    const int64_t *place;
    const float *table;
    float softness;
    double *cost, *message, *belief;
    float *sent, *least, *sum; /* scratch, as long as the largest domain, padded */
};

static int64_t padded(int64_t count) {
    return (count + LANES - 1) / LANES * LANES;
}

int shard_soft_trws_tables(const struct shard_network *network, const int64_t *place, float *table) {
    for (int64_t e = 0; e < network->pairs; e++) {
        const int64_t rows = size_of(network, network->tail[e]), columns = size_of(network, network->head[e]);
        const int64_t *cell = network->cell + network->cell_start[e];
        float *to_head = table + place[e], *to_tail = to_head + rows * padded(columns);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < padded(columns); j++)
                to_head[i * padded(columns) + j] = j < columns ? (float)cell[i * columns + j] : 0.0F;
        for (int64_t j = 0; j < columns; j++)
            for (int64_t i = 0; i < padded(rows); i++)
                to_tail[j * padded(rows) + i] = i < rows ? (float)cell[i * columns + j] : 0.0F;
    }
    return SHARD_OK;
}

/* exp is clamped below 2^-UNDERFLOW_BITS. */
#define UNDERFLOW_BITS 100.0F

/* exp(x) for x <= 0, to about five digits. `underflow` is UNDERFLOW_BITS, passed as a variable: with a
 * constant the compiler would branch and vectorise no loop. */
static inline float exp_of(float x, float underflow) {
    float bits = x * 1.44269504F;
    bits = bits > -underflow ? bits : -underflow;
    const int32_t whole = (int32_t)(bits - 0.5F);
    const float part = bits - (float)whole;
    const float high = 0.05550411F + part * (0.00961813F + part * 0.00133336F);
    const float power = 1.0F + part * (0.69314718F + part * (0.24022651F + part * high));
    const union {
        int32_t bits;
        float value;
    } scale = {(whole + 127) * (1 << 23)};
    return power * scale.value;
}

/* log(x) for x >= 1, to about five digits. */
static inline float log_of(float x) {
    union {
        float value;
        int32_t bits;
    } part = {x};
    const int32_t whole = (part.bits >> 23) - 127;
    part.bits -= whole * (1 << 23);
    const float t = (part.value - 1.0F) / (part.value + 1.0F), square = t * t;
    const float series = 1.0F + square * (0.33333333F + square * (0.2F + square * 0.14285714F));
    return (float)whole * 0.69314718F + 2.0F * t * series;
}

/* least[j] = -s log(sum over i of exp((sent[i] - cell[i][j]) / s)), relative to the plain minimum */
SHARD_SIMD
static void soft_least(const float *restrict cell, int64_t rows, int64_t columns, const float *restrict sent,
                       float softness, float underflow, float *restrict least, float *restrict sum) {
    const float per = 1.0F / softness;
    columns = columns / LANES * LANES; /* it is a multiple already; saves the compiler a remainder loop */
    for (int64_t j = 0; j < columns; j++) {
        least[j] = INFINITY;
        sum[j] = 0.0F;
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            const float left = cell[i * columns + j] - sent[i];
            least[j] = left < least[j] ? left : least[j];
        }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            sum[j] += exp_of((least[j] - (cell[i * columns + j] - sent[i])) * per, underflow);
    for (int64_t j = 0; j < columns; j++)
        least[j] -= softness * log_of(sum[j]);
}

/* True if a value is allowed; forbidden values send no shares, so their cost stays near FORBIDDEN. */
static inline bool allowed_cost(double cost) {
    return cost < (double)(FORBIDDEN / 2);
}

/* The messages of pair e to v, or to its other end. */
static double *messages(const struct pass *pass, int64_t v, int64_t e, bool to_v) {
    const bool is_tail = pass->network->tail[e] == v;
    const int64_t after = is_tail == to_v ? 0 : size_of(pass->network, pass->network->tail[e]);
    return pass->message + pass->network->message_start[e] + after;
}

/* Move to each value of v its soft minimum in pair e over the allowed values of the other end, minus the least of
 * these. Otherwise each sweep would add a constant to the variables that have most pairs. */
static void collect(struct pass *pass, int64_t v, int64_t e) {
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
    const float *cell = pass->table + pass->place[e] + (is_tail ? size_of(network, v) * padded(rows) : 0);
    soft_least(cell, rows, padded(size), pass->sent, pass->softness, UNDERFLOW_BITS, pass->least, pass->sum);
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

/* Visit v on the way up or down. */
static void visit(struct pass *pass, int64_t v, bool from_below) {
    const struct shard_network *network = pass->network;
    const int64_t first = network->arc_start[v], end = network->arc_start[v + 1], size = size_of(network, v);
    int64_t middle = first;
    while (middle < end && network->head[network->arc[middle]] == v)
        middle++;
    for (int64_t a = from_below ? first : middle; a < (from_below ? middle : end); a++)
        collect(pass, v, network->arc[a]);
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

int shard_soft_trws(const struct shard_network *network, const int64_t *place, const float *table,
                    int64_t sweeps, double softness, double *cost, double *message, double *belief) {
    int64_t largest = LANES;
    for (int64_t v = 0; v < network->variables; v++)
        largest = size_of(network, v) > largest ? padded(size_of(network, v)) : largest;
    float *scratch = malloc((size_t)(3 * largest) * sizeof *scratch);
    if (!scratch)
        return SHARD_NO_MEMORY;
    struct pass pass = {network, place,  table,   (float)softness,   cost,
                        message, belief, scratch, scratch + largest, scratch + 2 * largest};
    for (int64_t sweep = 0; sweep < sweeps; sweep++) {
        for (int64_t v = 0; v < network->variables; v++)
            visit(&pass, v, true);
        for (int64_t v = network->variables - 1; v >= 0; v--)
            visit(&pass, v, false);
    }
    free(scratch);
    return SHARD_OK;
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
