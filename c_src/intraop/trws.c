/* Each visit to a variable collects the messages of the pairs with already visited variables, moves the common part
 * to the bound and divides the rest among the other pairs. */
#include "intraop/trws.h"

#include "intraop/simd.h"

__extension__ typedef __int128 int128;

/* State of the sweeps. */
struct pass {
    const struct shard_network *network;
    int64_t top;
    int64_t *cost, *message;
    int64_t bound;
    int64_t *per_value; /* scratch, as long as the largest domain */
    int64_t *allowed;   /* scratch, likewise */
};

/* A pair's table, and where its ends' costs and messages begin. */
struct table {
    int64_t rows, columns;    /* values of the tail and of the head */
    int64_t tail, head;       /* first row of each */
    const int64_t *cell;      /* rows * columns elements */
    int64_t to_tail, to_head; /* first message to each */
};

SHARD_INLINE struct table table_of(const struct shard_network *network, int64_t e) {
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

/* List the values that the other end allows: all others sent -FORBIDDEN. */
SHARD_INLINE int64_t list_allowed(int64_t size, const int64_t *sent, int64_t *allowed) {
    int64_t count = 0;
    for (int64_t i = 0; i < size; i++) {
        allowed[count] = i;
        count += sent[i] != -FORBIDDEN;
    }
    return count;
}

/* least[i] = min over allowed j of cell[i][j] - sent[j], FORBIDDEN if none is; only for allowed i */
SHARD_INLINE void least_of_rows(const struct table *table, const int64_t *sent, const int64_t *cost,
                                int64_t *allowed, int64_t *least) {
    const int64_t *cell = table->cell, count = list_allowed(table->columns, sent, allowed);
    for (int64_t i = 0; i < table->rows; i++, cell += table->columns) {
        if (cost[i] == FORBIDDEN)
            continue;
        int64_t best = FORBIDDEN;
        for (int64_t k = 0; 4 * count < table->columns && k < count; k++) {
            const int64_t left = cell[allowed[k]] - sent[allowed[k]];
            best = left < best ? left : best;
        }
        for (int64_t j = 0; 4 * count >= table->columns && j < table->columns;
             j++) { /* this one vectorises */
            const int64_t left = cell[j] - sent[j];
            best = left < best ? left : best;
        }
        least[i] = best;
    }
}

/* least[j] = min over allowed i of cell[i][j] - sent[i], FORBIDDEN if none is */
SHARD_INLINE void least_of_columns(const struct table *table, const int64_t *sent, int64_t *least) {
    const int64_t *cell = table->cell;
    for (int64_t j = 0; j < table->columns; j++)
        least[j] = FORBIDDEN;
    for (int64_t i = 0; i < table->rows; i++, cell += table->columns) {
        if (sent[i] == -FORBIDDEN)
            continue;
        for (int64_t j = 0; j < table->columns; j++) {
            const int64_t left = cell[j] - sent[i];
            least[j] = left < least[j] ? left : least[j];
        }
    }
}

/* Move to each value of v its minimum in the table of pair e. */
SHARD_INLINE void collect(struct pass *pass, int64_t v, int64_t e) {
    const struct table table = table_of(pass->network, e);
    const bool is_tail = pass->network->tail[e] == v;
    int64_t *mine = pass->message + (is_tail ? table.to_tail : table.to_head);
    int64_t *cost = pass->cost + pass->network->start[v];
    if (is_tail)
        least_of_rows(&table, pass->message + table.to_head, cost, pass->allowed, pass->per_value);
    else
        least_of_columns(&table, pass->message + table.to_tail, pass->per_value);
    for (int64_t i = 0; i < size_of(pass->network, v); i++) {
        if (cost[i] == FORBIDDEN)
            continue;
        const int64_t gain = pass->per_value[i] - mine[i];
        if (gain >= COST_LIMIT || cost[i] + gain >= COST_LIMIT) {
            cost[i] = FORBIDDEN;
        } else {
            mine[i] += gain;
            cost[i] += gain;
        }
    }
}

/* Minimum cost of v; FORBIDDEN if no value is allowed. */
SHARD_INLINE int64_t least_cost(const struct pass *pass, int64_t v) {
    const int64_t *cost = pass->cost + pass->network->start[v];
    int64_t least = FORBIDDEN;
    for (int64_t i = 0; i < size_of(pass->network, v); i++)
        least = cost[i] < least ? cost[i] : least;
    return least;
}

/* Take the minimum cost of v, `least`, from each of its values. */
SHARD_INLINE void normalise(struct pass *pass, int64_t v, int64_t least) {
    int64_t *cost = pass->cost + pass->network->start[v];
    for (int64_t i = 0; i < size_of(pass->network, v); i++)
        cost[i] = cost[i] == FORBIDDEN ? FORBIDDEN : cost[i] - least;
}

/* Move the minimum cost of every variable to the bound, which is then at most `top`: `top` if a variable has no
 * value; INT64_MIN, and no cost moves, if it were below -FORBIDDEN. The sum of all minima may need more than 64
 * bits. */
static void normalise_all(struct pass *pass) {
    int128 sum = pass->bound;
    for (int64_t v = 0; v < pass->network->variables; v++) {
        const int64_t least = least_cost(pass, v);
        if (least == FORBIDDEN) {
            pass->bound = pass->top;
            return;
        }
        sum += least;
    }
    pass->bound = sum < -FORBIDDEN ? INT64_MIN : sum < pass->top ? (int64_t)sum : pass->top;
    for (int64_t v = 0; pass->bound != INT64_MIN && v < pass->network->variables; v++)
        normalise(pass, v, least_cost(pass, v));
}

/* Forbid the values of v that reach the top; all other variables and pairs cost at least 0. */
SHARD_INLINE void rule_out(struct pass *pass, int64_t v) {
    int64_t *cost = pass->cost + pass->network->start[v];
    for (int64_t i = 0; i < size_of(pass->network, v); i++)
        cost[i] = cost[i] != FORBIDDEN && pass->bound + cost[i] >= pass->top ? FORBIDDEN : cost[i];
}

/* Move the share `per_value` of each value's cost from v to pair e. */
SHARD_INLINE void share(struct pass *pass, int64_t v, int64_t e) {
    const struct table table = table_of(pass->network, e);
    int64_t *mine = pass->message + (pass->network->tail[e] == v ? table.to_tail : table.to_head);
    int64_t *cost = pass->cost + pass->network->start[v];
    for (int64_t i = 0; i < size_of(pass->network, v); i++) {
        if (cost[i] == FORBIDDEN) {
            mine[i] = -FORBIDDEN;
        } else if (mine[i] - pass->per_value[i] > -COST_LIMIT) {
            mine[i] -= pass->per_value[i];
            cost[i] -= pass->per_value[i];
        }
    }
}

/* Visit v on the way up or down; false if no assignment below the top is left. */
SHARD_INLINE bool visit(struct pass *pass, int64_t v, bool up) {
    const struct shard_network *network = pass->network;
    const int64_t first = network->arc_start[v], end = network->arc_start[v + 1];
    int64_t middle = first;
    while (middle < end && network->head[network->arc[middle]] == v)
        middle++;
    for (int64_t a = up ? first : middle; a < (up ? middle : end); a++)
        collect(pass, v, network->arc[a]);
    const int64_t least = least_cost(pass, v);
    if (least == FORBIDDEN || pass->bound + least >= pass->top)
        return false;
    pass->bound += least;
    normalise(pass, v, least);
    rule_out(pass, v);
    const int64_t parts = middle - first > end - middle ? middle - first : end - middle;
    for (int64_t i = 0; parts && i < size_of(network, v); i++)
        pass->per_value[i] = pass->cost[network->start[v] + i] / parts;
    for (int64_t a = up ? middle : first; a < (up ? end : middle); a++)
        share(pass, v, network->arc[a]);
    return true;
}

/* Sweep up and down while assignments below the top may be left; false if none is. */
SHARD_SIMD
static bool sweep_all(struct pass *pass, int64_t sweeps) {
    const int64_t variables = pass->network->variables;
    bool open = true;
    for (int64_t sweep = 0; sweep < sweeps && open; sweep++) {
        for (int64_t v = 0; v < variables && open; v++)
            open = visit(pass, v, true);
        for (int64_t v = variables - 1; v >= 0 && open; v--)
            open = visit(pass, v, false);
    }
    return open;
}

static int64_t largest_size(const struct shard_network *network) {
    int64_t largest = 1;
    for (int64_t v = 0; v < network->variables; v++)
        largest = size_of(network, v) > largest ? size_of(network, v) : largest;
    return largest;
}

int shard_trws(const struct shard_network *network, int64_t top, int64_t sweeps, int64_t *cost,
               int64_t *message, int64_t *bound) {
    const int64_t largest = largest_size(network);
    struct pass pass = {network, top, cost, message, *bound, NULL, NULL};
    pass.per_value = malloc((size_t)(2 * largest) * sizeof *pass.per_value);
    if (!pass.per_value)
        return SHARD_NO_MEMORY;
    pass.allowed = pass.per_value + largest;
    normalise_all(&pass);
    bool open = pass.bound < top;
    if (pass.bound < -COST_LIMIT / 2) /* a cost of COST_LIMIT might still be below the top */
        sweeps = 0;
    open = open && sweep_all(&pass, sweeps);
    *bound = open ? pass.bound : top;
    free(pass.per_value);
    return SHARD_OK;
}

/* Reparametrised cost of a cell plus its two values. */
static int64_t cost_of_cell(const struct table *table, int64_t i, int64_t j, const int64_t *cost,
                            const int64_t *message) {
    const int64_t tail = cost[table->tail + i], head = cost[table->head + j];
    if (tail == FORBIDDEN || head == FORBIDDEN)
        return FORBIDDEN;
    return table->cell[i * table->columns + j] - message[table->to_tail + i] - message[table->to_head + j] +
           tail + head;
}

/* Add to the total of each value the minimum over the pair and its other end, up to `top`. */
static void add_best(const struct table *table, int64_t top, const int64_t *cost, const int64_t *message,
                     int64_t *best, int64_t *total) {
    for (int64_t k = 0; k < table->rows + table->columns; k++)
        best[k] = FORBIDDEN;
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
            total[row] + (best[k] >= top ? top : best[k] - (cost[row] == FORBIDDEN ? 0 : cost[row]));
        total[row] = sum < top ? sum : top;
    }
}

int shard_trws_prune(const struct shard_network *network, int64_t top, const int64_t *cost,
                     const int64_t *message, int64_t bound, int8_t *value_allowed, int8_t *cell_allowed) {
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
        value_allowed[r] = bound + total[r] < top;
    for (int64_t e = 0; e < network->pairs; e++) {
        const struct table table = table_of(network, e);
        int8_t *cell = cell_allowed + network->cell_start[e];
        for (int64_t i = 0; i < table.rows; i++)
            for (int64_t j = 0; j < table.columns; j++, cell++)
                *cell = value_allowed[table.tail + i] && value_allowed[table.head + j] &&
                        bound + cost_of_cell(&table, i, j, cost, message) < top;
    }
    free(total);
    return SHARD_OK;
}

/* Apply messages to the values of one end, clamped so that costs stay within half the limit. */
static void apply_messages(int64_t size, int64_t *cost, int64_t *message) {
    const int64_t limit = COST_LIMIT / 2;
    for (int64_t i = 0; i < size; i++) {
        if (cost[i] == FORBIDDEN) {
            message[i] = -FORBIDDEN;
            continue;
        }
        const int64_t low = -limit - cost[i], high = limit - cost[i];
        message[i] = message[i] < low ? low : message[i] > high ? high : message[i];
        cost[i] += message[i];
    }
}

/* Minimum over the allowed cells of the table less its messages; FORBIDDEN if no cell is allowed. */
static int64_t least_reduced(const struct table *table, const int64_t *to_tail, const int64_t *to_head) {
    const int64_t *cell = table->cell;
    int64_t least = FORBIDDEN;
    for (int64_t i = 0; i < table->rows; i++)
        for (int64_t j = 0; j < table->columns; j++, cell++) {
            const int64_t left = *cell - to_tail[i] - to_head[j];
            const bool allowed = *cell != FORBIDDEN && to_tail[i] != -FORBIDDEN && to_head[j] != -FORBIDDEN;
            least = allowed && left < least ? left : least;
        }
    return least;
}

int shard_trws_reparametrise(const struct shard_network *network, int64_t top, int64_t *cost,
                             int64_t *message, int64_t *bound) {
    int128 sum = *bound;
    for (int64_t e = 0; e < network->pairs && *bound >= -FORBIDDEN; e++) {
        const struct table table = table_of(network, e);
        int64_t *to_tail = message + table.to_tail, *to_head = message + table.to_head;
        apply_messages(table.rows, cost + table.tail, to_tail);
        apply_messages(table.columns, cost + table.head, to_head);
        const int64_t least = least_reduced(&table, to_tail, to_head);
        if (least == FORBIDDEN) {
            *bound = top;
            return SHARD_OK;
        }
        for (int64_t i = 0; i < table.rows; i++)
            to_tail[i] += to_tail[i] == -FORBIDDEN ? 0 : least;
        sum += least;
    }
    *bound = sum < -FORBIDDEN ? INT64_MIN : sum < FORBIDDEN ? (int64_t)sum : FORBIDDEN;
    return SHARD_OK;
}
