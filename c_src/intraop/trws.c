/* At every variable: collect what the pairs behind it offer, set the common part aside, share the rest ahead.
 */
#include "intraop/trws.h"

#include <stdbool.h>
#include <stdlib.h>

/* A pass over all variables at work. */
struct pass {
    const struct shard_network *network;
    int64_t top;
    int64_t *cost;
    int64_t *message;
    int64_t bound;
    int64_t *of_value; /* scratch, as many elements as the largest domain has values */
};

/* A pair as its two ends see it. */
struct table {
    int64_t rows, columns;    /* values of the tail and of the head */
    int64_t tail, head;       /* first row of each */
    const int64_t *cell;      /* rows * columns elements */
    int64_t to_tail, to_head; /* first message to each */
};

static int64_t size_of(const struct shard_network *network, int64_t v) {
    return network->start[v + 1] - network->start[v];
}

static struct table table_of(const struct shard_network *network, int64_t e) {
    const int64_t tail = network->tail[e], head = network->head[e];
    const int64_t message = network->message_start[e], rows = size_of(network, tail);
    return (struct table){.rows = rows,
                          .columns = size_of(network, head),
                          .tail = network->start[tail],
                          .head = network->start[head],
                          .cell = network->cell + network->cell_start[e],
                          .to_tail = message,
                          .to_head = message + rows};
}

/* least[i] = min over j of cell[i][j] - sent[j] */
static void least_of_rows(const struct table *table, const int64_t *sent, int64_t *least) {
    const int64_t *cell = table->cell;
    for (int64_t i = 0; i < table->rows; i++, cell += table->columns) {
        int64_t best = INT64_MAX;
        for (int64_t j = 0; j < table->columns; j++) {
            const int64_t left = cell[j] - sent[j];
            best = left < best ? left : best;
        }
        least[i] = best;
    }
}

/* least[j] = min over i of cell[i][j] - sent[i] */
static void least_of_columns(const struct table *table, const int64_t *sent, int64_t *least) {
    const int64_t *cell = table->cell;
    for (int64_t j = 0; j < table->columns; j++)
        least[j] = INT64_MAX;
    for (int64_t i = 0; i < table->rows; i++, cell += table->columns) {
        for (int64_t j = 0; j < table->columns; j++) {
            const int64_t left = cell[j] - sent[i];
            least[j] = left < least[j] ? left : least[j];
        }
    }
}

/* Move to the values of v what the pair e has for each. */
static void collect(struct pass *pass, int64_t v, int64_t e) {
    const struct table table = table_of(pass->network, e);
    const bool is_tail = pass->network->tail[e] == v;
    int64_t *mine = pass->message + (is_tail ? table.to_tail : table.to_head);
    if (is_tail)
        least_of_rows(&table, pass->message + table.to_head, pass->of_value);
    else
        least_of_columns(&table, pass->message + table.to_tail, pass->of_value);
    int64_t *cost = pass->cost + pass->network->start[v];
    for (int64_t i = 0; i < size_of(pass->network, v); i++) {
        if (cost[i] == NEVER)
            continue;
        const int64_t gain = pass->of_value[i] - mine[i];
        if (gain >= TOO_MUCH || cost[i] + gain >= TOO_MUCH) {
            cost[i] = NEVER;
        } else {
            mine[i] += gain;
            cost[i] += gain;
        }
    }
}

/* Move the least cost of v's values to the constant; NEVER if no value is allowed. */
static int64_t set_aside(struct pass *pass, int64_t v) {
    int64_t *cost = pass->cost + pass->network->start[v];
    int64_t least = NEVER;
    for (int64_t i = 0; i < size_of(pass->network, v); i++)
        least = cost[i] < least ? cost[i] : least;
    for (int64_t i = 0; i < size_of(pass->network, v); i++)
        cost[i] = cost[i] == NEVER ? NEVER : cost[i] - least;
    pass->bound += least == NEVER ? 0 : least;
    return least;
}

/* Rule out the values of v that cost too much; all other variables and pairs cost at least 0. */
static void rule_out(struct pass *pass, int64_t v) {
    int64_t *cost = pass->cost + pass->network->start[v];
    for (int64_t i = 0; i < size_of(pass->network, v); i++)
        cost[i] = cost[i] != NEVER && pass->bound + cost[i] >= pass->top ? NEVER : cost[i];
}

/* Move to the pair e what `of_value` says of the cost of each value of v. */
static void share(struct pass *pass, int64_t v, int64_t e) {
    const struct table table = table_of(pass->network, e);
    int64_t *mine = pass->message + (pass->network->tail[e] == v ? table.to_tail : table.to_head);
    int64_t *cost = pass->cost + pass->network->start[v];
    for (int64_t i = 0; i < size_of(pass->network, v); i++) {
        if (cost[i] == NEVER) {
            mine[i] = -NEVER;
        } else if (mine[i] - pass->of_value[i] > -TOO_MUCH) {
            mine[i] -= pass->of_value[i];
            cost[i] -= pass->of_value[i];
        }
    }
}

/* Whether an assignment may still be of interest after a visit to v, coming from below or from above. */
static bool visit(struct pass *pass, int64_t v, bool from_below) {
    const struct shard_network *network = pass->network;
    const int64_t first = network->arc_start[v], end = network->arc_start[v + 1];
    int64_t middle = first;
    while (middle < end && network->head[network->arc[middle]] == v)
        middle++;
    for (int64_t a = from_below ? first : middle; a < (from_below ? middle : end); a++)
        collect(pass, v, network->arc[a]);
    if (set_aside(pass, v) == NEVER || pass->bound >= pass->top)
        return false;
    rule_out(pass, v);
    const int64_t parts = middle - first > end - middle ? middle - first : end - middle;
    for (int64_t i = 0; parts && i < size_of(network, v); i++)
        pass->of_value[i] = pass->cost[network->start[v] + i] / parts;
    for (int64_t a = from_below ? middle : first; a < (from_below ? end : middle); a++)
        share(pass, v, network->arc[a]);
    return true;
}

static int64_t largest_size(const struct shard_network *network) {
    int64_t largest = 1;
    for (int64_t v = 0; v < network->variables; v++)
        largest = size_of(network, v) > largest ? size_of(network, v) : largest;
    return largest;
}

int shard_messages(const struct shard_network *network, int64_t top, int64_t sweeps, int64_t *cost,
                   int64_t *message, int64_t *bound) {
    struct pass pass = {network, top, cost, message, *bound, NULL};
    pass.of_value = malloc((size_t)largest_size(network) * sizeof *pass.of_value);
    if (!pass.of_value)
        return SHARD_NO_MEMORY;
    bool open = true;
    for (int64_t v = 0; v < network->variables && open; v++)
        open = set_aside(&pass, v) != NEVER;
    if (pass.bound < -TOO_MUCH / 2) /* what costs TOO_MUCH might still be below the top */
        sweeps = 0;
    for (int64_t sweep = 0; sweep < sweeps && open; sweep++) {
        for (int64_t v = 0; v < network->variables && open; v++)
            open = visit(&pass, v, true);
        for (int64_t v = network->variables - 1; v >= 0 && open; v--)
            open = visit(&pass, v, false);
    }
    *bound = open && pass.bound < top ? pass.bound : top;
    free(pass.of_value);
    return SHARD_OK;
}

/* What a cell and the two values beside it cost. */
static int64_t cost_of_cell(const struct table *table, int64_t i, int64_t j, const int64_t *cost,
                            const int64_t *message) {
    const int64_t tail = cost[table->tail + i], head = cost[table->head + j];
    if (tail == NEVER || head == NEVER)
        return NEVER;
    return table->cell[i * table->columns + j] - message[table->to_tail + i] - message[table->to_head + j] +
           tail + head;
}

/* Add to the total of each value what the pair and its other end cost at least, up to `top`. */
static void add_best(const struct table *table, int64_t top, const int64_t *cost, const int64_t *message,
                     int64_t *best, int64_t *total) {
    for (int64_t k = 0; k < table->rows + table->columns; k++)
        best[k] = NEVER;
    for (int64_t i = 0; i < table->rows; i++) {
        for (int64_t j = 0; j < table->columns; j++) {
            const int64_t all = cost_of_cell(table, i, j, cost, message);
            best[i] = all < best[i] ? all : best[i];
            best[table->rows + j] = all < best[table->rows + j] ? all : best[table->rows + j];
        }
    }
    for (int64_t k = 0; k < table->rows + table->columns; k++) {
        const int64_t row = k < table->rows ? table->tail + k : table->head + k - table->rows;
        const int64_t sum =
            total[row] + (best[k] >= top ? top : best[k] - (cost[row] == NEVER ? 0 : cost[row]));
        total[row] = sum < top ? sum : top;
    }
}

int shard_prune(const struct shard_network *network, int64_t top, const int64_t *cost, const int64_t *message,
                int64_t bound, int8_t *value, int8_t *open) {
    const int64_t rows = network->start[network->variables];
    int64_t *total = malloc((size_t)(rows + 2 * largest_size(network)) * sizeof *total);
    if (!total)
        return SHARD_NO_MEMORY;
    for (int64_t r = 0; r < rows; r++)
        total[r] = cost[r] < top ? cost[r] : top;
    for (int64_t e = 0; e < network->pairs; e++) {
        const struct table table = table_of(network, e);
        add_best(&table, top, cost, message, total + rows, total);
    }
    for (int64_t r = 0; r < rows; r++)
        value[r] = bound + total[r] < top;
    for (int64_t e = 0; e < network->pairs; e++) {
        const struct table table = table_of(network, e);
        int8_t *cell = open + network->cell_start[e];
        for (int64_t i = 0; i < table.rows; i++)
            for (int64_t j = 0; j < table.columns; j++, cell++)
                *cell = value[table.tail + i] && value[table.head + j] &&
                        bound + cost_of_cell(&table, i, j, cost, message) < top;
    }
    free(total);
    return SHARD_OK;
}
