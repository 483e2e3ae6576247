/* Softened messages, eight values of a variable at a time. */
#include "intraop/soft_trws.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "intraop/wide.h"

/* Values that are computed side by side; rows of tables are filled up to a multiple. */
#define LANES 8

/* A pass over all variables at work. */
struct pass {
    const struct shard_network *network;
    const int64_t *place;
    const float *table;
    float softness;
    double *cost;
    double *message;
    double *belief;
    float *sent, *least, *sum; /* scratch, as many elements as the largest domain has values, filled up */
};

static int64_t size_of(const struct shard_network *network, int64_t v) {
    return network->start[v + 1] - network->start[v];
}

static int64_t filled(int64_t count) {
    return (count + LANES - 1) / LANES * LANES;
}

int shard_soft_tables(const struct shard_network *network, const int64_t *place, float *table) {
    for (int64_t e = 0; e < network->pairs; e++) {
        const int64_t rows = size_of(network, network->tail[e]), columns = size_of(network, network->head[e]);
        const int64_t *cell = network->cell + network->cell_start[e];
        float *to_head = table + place[e], *to_tail = to_head + rows * filled(columns);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < filled(columns); j++)
                to_head[i * filled(columns) + j] = j < columns ? (float)cell[i * columns + j] : 0.0F;
        for (int64_t j = 0; j < columns; j++)
            for (int64_t i = 0; i < filled(rows); i++)
                to_tail[j * filled(rows) + i] = i < rows ? (float)cell[i * columns + j] : 0.0F;
    }
    return SHARD_OK;
}

/* Binary digits by which exp falls before it counts as no less. */
#define FALL 100.0F

/* exp(x) for x of at most 0, to about five digits; `fall` is FALL, as a variable: about a constant the
 * compiler would branch, and vectorise no loop. */
static inline float exp_of(float x, float fall) {
    float bits = x * 1.44269504F;
    bits = bits > -fall ? bits : -fall;
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

/* log(x) for x of at least 1, to about five digits */
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

/* least[j] = -s log(sum over i of exp((sent[i] - cell[i][j]) / s)), computed beside the plain least */
SHARD_WIDE
static void soft_least(const float *restrict cell, int64_t rows, int64_t columns, const float *restrict sent,
                       float softness, float fall, float *restrict least, float *restrict sum) {
    const float per = 1.0F / softness;
    columns = columns / LANES * LANES; /* it is such a multiple: no rest to loop over */
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
            sum[j] += exp_of((least[j] - (cell[i * columns + j] - sent[i])) * per, fall);
    for (int64_t j = 0; j < columns; j++)
        least[j] -= softness * log_of(sum[j]);
}

/* Whether a value is allowed; its cost says so at any time, as no share is taken of one that is not. */
static inline bool is_allowed(double cost) {
    return cost < (double)(NEVER / 2);
}

/* The messages of the pair e to v, or to its other end. */
static double *messages(const struct pass *pass, int64_t v, int64_t e, bool to_v) {
    const bool is_tail = pass->network->tail[e] == v;
    const int64_t after = is_tail == to_v ? 0 : size_of(pass->network, pass->network->tail[e]);
    return pass->message + pass->network->message_start[e] + after;
}

/* Move to the values of v what the pair e has for each, beside what is allowed of its other end. */
static void collect(struct pass *pass, int64_t v, int64_t e) {
    const struct shard_network *network = pass->network;
    const bool is_tail = network->tail[e] == v;
    const int64_t other = is_tail ? network->head[e] : network->tail[e];
    const int64_t size = size_of(network, v), rows = size_of(network, other);
    double *mine = messages(pass, v, e, true), *theirs = messages(pass, v, e, false);
    double most = theirs[0];
    for (int64_t i = 1; i < rows; i++)
        most = theirs[i] > most ? theirs[i] : most;
    for (int64_t i = 0; i < rows;
         i++) /* the greatest, which is allowed, becomes 0: floats are fine beside it */
        pass->sent[i] = (float)(theirs[i] - most);
    const float *cell = pass->table + pass->place[e] + (is_tail ? size_of(network, v) * filled(rows) : 0);
    soft_least(cell, rows, filled(size), pass->sent, pass->softness, FALL, pass->least, pass->sum);
    double *cost = pass->cost + network->start[v];
    for (int64_t i = 0; i < size; i++) {
        const double offer = is_allowed(cost[i]) ? (double)pass->least[i] - most : mine[i];
        cost[i] += offer - mine[i];
        mine[i] = offer;
    }
}

/* A visit to v, coming from below or from above. */
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
            const bool allowed = is_allowed(cost[i]);
            mine[i] = allowed ? mine[i] - share[i] : (double)-NEVER;
            cost[i] -= allowed ? share[i] : 0.0;
        }
    }
}

int shard_soften(const struct shard_network *network, const int64_t *place, const float *table,
                 int64_t sweeps, double softness, double *cost, double *message, double *belief) {
    int64_t largest = LANES;
    for (int64_t v = 0; v < network->variables; v++)
        largest = size_of(network, v) > largest ? filled(size_of(network, v)) : largest;
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

/* The values of one variable, now that those of lower ones are chosen: what each costs. */
static void cost_beside(const struct shard_network *network, const double *message, const int64_t *value,
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

int shard_round(const struct shard_network *network, const double *cost, const double *message,
                int64_t *value) {
    const int64_t rows = network->start[network->variables];
    double *beside = malloc((size_t)(rows ? rows : 1) * sizeof *beside);
    if (!beside)
        return SHARD_NO_MEMORY;
    for (int64_t r = 0; r < rows; r++)
        beside[r] = cost[r];
    for (int64_t v = 0; v < network->variables; v++) {
        double *mine = beside + network->start[v];
        cost_beside(network, message, value, v, mine);
        value[v] = 0;
        for (int64_t i = 1; i < size_of(network, v); i++)
            value[v] = mine[i] < mine[value[v]] ? i : value[v];
    }
    free(beside);
    return SHARD_OK;
}

/* Give the values of one end what messages say, as far as costs stay within half of what is allowed. */
static void give(int64_t size, int64_t *cost, int64_t *message) {
    const int64_t limit = TOO_MUCH / 2;
    for (int64_t i = 0; i < size; i++) {
        if (cost[i] == NEVER) {
            message[i] = -NEVER;
            continue;
        }
        const int64_t low = -limit - cost[i], high = limit - cost[i];
        message[i] = message[i] < low ? low : message[i] > high ? high : message[i];
        cost[i] += message[i];
    }
}

/* The least that is left in a table beside what was given of it, of what is allowed; NEVER if nothing is. */
static int64_t least_left(const int64_t *cell, int64_t rows, int64_t columns, const int64_t *to_tail,
                          const int64_t *to_head) {
    int64_t least = NEVER;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++, cell++) {
            const int64_t left = *cell - to_tail[i] - to_head[j];
            const bool allowed = *cell != NEVER && to_tail[i] != -NEVER && to_head[j] != -NEVER;
            least = allowed && left < least ? left : least;
        }
    return least;
}

int shard_adopt(const struct shard_network *network, int64_t top, int64_t *cost, int64_t *message,
                int64_t *bound) {
    for (int64_t e = 0; e < network->pairs; e++) {
        const int64_t rows = size_of(network, network->tail[e]), columns = size_of(network, network->head[e]);
        int64_t *to_tail = message + network->message_start[e], *to_head = to_tail + rows;
        give(rows, cost + network->start[network->tail[e]], to_tail);
        give(columns, cost + network->start[network->head[e]], to_head);
        const int64_t least =
            least_left(network->cell + network->cell_start[e], rows, columns, to_tail, to_head);
        if (least == NEVER || *bound < -NEVER) {
            *bound = least == NEVER ? top : INT64_MIN;
            return SHARD_OK;
        }
        for (int64_t i = 0; i < rows; i++)
            to_tail[i] += to_tail[i] == -NEVER ? 0 : least;
        *bound += least;
    }
    return SHARD_OK;
}
