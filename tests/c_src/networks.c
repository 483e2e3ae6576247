/* The kernels of cost-function networks, against their definitions by every assignment of small networks. */
#include "check.h"
#include "intraop/arc_consistency.h"
#include "intraop/contract.h"
#include "intraop/dead_end_elimination.h"
#include "intraop/soft_trws.h"
#include "intraop/trws.h"

#define MOST_VARIABLES 5
#define MOST_VALUES 3
#define MOST_PAIRS 10
#define MOST_CELLS (MOST_PAIRS * MOST_VALUES * MOST_VALUES)
#define MOST_ROWS (MOST_VARIABLES * MOST_VALUES)
#define MOST_SPANS 2
#define ROUNDS (3000 / PART)

enum { ANY, CHAIN };

struct net {
    struct shard_network network;
    int64_t start[MOST_VARIABLES + 1], arc_start[MOST_VARIABLES + 1], arc[2 * MOST_PAIRS];
    int64_t tail[MOST_PAIRS], head[MOST_PAIRS];
    int64_t cell_start[MOST_PAIRS + 1], message_start[MOST_PAIRS + 1];
    int64_t cell[MOST_CELLS], cost[MOST_ROWS];
    int64_t usage_start[MOST_VARIABLES + 1], usage[MOST_ROWS * MOST_SPANS];
    int8_t skip[MOST_VARIABLES];
};

static int64_t values_of(const struct net *net, int64_t v) {
    return net->start[v + 1] - net->start[v];
}

static void join(struct net *net, int64_t tail, int64_t head, int32_t forbidden, int32_t most) {
    const int64_t e = net->network.pairs++, cells = values_of(net, tail) * values_of(net, head);
    net->tail[e] = tail;
    net->head[e] = head;
    net->cell_start[e + 1] = net->cell_start[e] + cells;
    net->message_start[e + 1] = net->message_start[e] + values_of(net, tail) + values_of(net, head);
    for (int64_t c = net->cell_start[e]; c < net->cell_start[e + 1]; c++)
        net->cell[c] = draw(100) < forbidden ? FORBIDDEN : draw(most);
}

/* List the pairs of every variable, those with a lower variable first. */
static void connect(struct net *net) {
    int64_t arcs = 0;
    for (int64_t v = 0; v < net->network.variables; v++) {
        net->arc_start[v] = arcs;
        for (int64_t e = 0; e < net->network.pairs; e++)
            if (net->head[e] == v)
                net->arc[arcs++] = e;
        for (int64_t e = 0; e < net->network.pairs; e++)
            if (net->tail[e] == v)
                net->arc[arcs++] = e;
    }
    net->arc_start[net->network.variables] = arcs;
}

/* Few different costs and memory sizes, so that there are ties. */
static void make(struct net *net, int64_t variables, int kind) {
    memset(net, 0, sizeof *net);
    const int32_t share = draw(50), forbidden = draw(2) ? share : 0, most = 1 + draw(20), dense = draw(101);
    net->network =
        (struct shard_network){variables,       0,         net->start,         net->tail,      net->head,
                               net->cell_start, net->cell, net->message_start, net->arc_start, net->arc};
    for (int64_t v = 0; v < variables; v++) {
        const int64_t values = 1 + draw(MOST_VALUES), spans = draw(MOST_SPANS + 1);
        net->start[v + 1] = net->start[v] + values;
        net->usage_start[v + 1] = net->usage_start[v] + values * spans;
        net->skip[v] = draw(5) == 0;
    }
    const int32_t below = draw(2) ? most / 2 : 0;
    for (int64_t r = 0; r < net->start[variables]; r++)
        net->cost[r] = draw(most) - below;
    for (int64_t s = 0; s < net->usage_start[variables]; s++)
        net->usage[s] = draw(3);
    for (int64_t tail = 0; tail < variables; tail++)
        for (int64_t head = tail + 1; head < variables; head++)
            if (kind == CHAIN ? head == tail + 1 : draw(100) < dense)
                join(net, tail, head, forbidden, most);
    connect(net);
}

/* The next assignment, like an odometer; false after the last. */
static bool next(int64_t variables, const int64_t *size, int64_t *choice) {
    for (int64_t v = 0; v < variables; v++) {
        if (++choice[v] < size[v])
            return true;
        choice[v] = 0;
    }
    return false;
}

static bool next_choice(const struct net *net, int64_t *choice) {
    int64_t size[MOST_VARIABLES];
    for (int64_t v = 0; v < net->network.variables; v++)
        size[v] = values_of(net, v);
    return next(net->network.variables, size, choice);
}

/* The cell of a pair that an assignment is charged. */
static int64_t cell_of(const struct net *net, int64_t e, const int64_t *choice) {
    const int64_t tail = net->tail[e], head = net->head[e];
    return net->cell_start[e] + choice[tail] * values_of(net, head) + choice[head];
}

/* The total cost of an assignment; FORBIDDEN if it is not allowed. */
static int64_t cost_of(const struct net *net, const int64_t *choice) {
    int64_t sum = 0;
    for (int64_t v = 0; v < net->network.variables; v++)
        sum += net->cost[net->start[v] + choice[v]];
    for (int64_t e = 0; e < net->network.pairs; e++) {
        const int64_t cell = net->cell[cell_of(net, e, choice)];
        if (cell == FORBIDDEN)
            return FORBIDDEN;
        sum += cell;
    }
    return sum;
}

static int64_t least_cost(const struct net *net) {
    int64_t choice[MOST_VARIABLES] = {0}, least = FORBIDDEN;
    do {
        const int64_t cost = cost_of(net, choice);
        least = cost < least ? cost : least;
    } while (next_choice(net, choice));
    return least;
}

/* ---------------------------------------------------------------- messages */

struct trws {
    int64_t cost[MOST_ROWS], message[MOST_PAIRS * 2 * MOST_VALUES], bound, top;
};

static struct trws initial_messages(const struct net *net, int64_t top) {
    struct trws trws = {.bound = 0, .top = top};
    memcpy(trws.cost, net->cost, sizeof trws.cost);
    return trws;
}

static int pass_messages(const struct net *net, struct trws *trws, int64_t sweeps) {
    return shard_trws(&net->network, trws->top, sweeps, trws->cost, trws->message, &trws->bound);
}

/* The cost left in the cell of a pair after the messages. */
static int64_t rest_of(const struct net *net, const struct trws *trws, int64_t e, const int64_t *choice) {
    const int64_t *to_tail = trws->message + net->message_start[e],
                  *to_head = to_tail + values_of(net, net->tail[e]);
    return net->cell[cell_of(net, e, choice)] - to_tail[choice[net->tail[e]]] - to_head[choice[net->head[e]]];
}

/* An assignment below the top keeps its cost and its values, and no part of the cost is negative. */
static void check_cost_kept(const struct net *net, const struct trws *trws, const int64_t *choice) {
    int64_t sum = trws->bound;
    for (int64_t v = 0; v < net->network.variables; v++) {
        const int64_t part = trws->cost[net->start[v] + choice[v]];
        CHECK(part >= 0 && part < FORBIDDEN);
        sum += part;
    }
    for (int64_t e = 0; e < net->network.pairs; e++) {
        const int64_t part = rest_of(net, trws, e, choice);
        CHECK(part >= 0);
        sum += part;
    }
    CHECK(sum == cost_of(net, choice));
}

static void check_moves(const struct net *net, const struct trws *trws, int64_t least) {
    int64_t choice[MOST_VARIABLES] = {0};
    CHECK(trws->bound <= (least < trws->top ? least : trws->top));
    if (trws->bound == trws->top)
        return;
    do {
        if (cost_of(net, choice) < trws->top)
            check_cost_kept(net, trws, choice);
    } while (next_choice(net, choice));
}

/* Only values and cells without an assignment below the top are ruled out; all of them if `exact`. */
static void check_pruning(const struct net *net, const struct trws *trws, bool exact) {
    int64_t choice[MOST_VARIABLES] = {0};
    int8_t value[MOST_ROWS] = {0}, open[MOST_CELLS] = {0}, of_use[MOST_ROWS] = {0}, used[MOST_CELLS] = {0};
    CHECK(shard_trws_prune(&net->network, trws->top, trws->cost, trws->message, trws->bound, value, open) ==
          SHARD_OK);
    do {
        if (cost_of(net, choice) >= trws->top)
            continue;
        for (int64_t v = 0; v < net->network.variables; v++)
            of_use[net->start[v] + choice[v]] = 1;
        for (int64_t e = 0; e < net->network.pairs; e++)
            used[cell_of(net, e, choice)] = 1;
    } while (next_choice(net, choice));
    for (int64_t r = 0; r < net->start[net->network.variables]; r++)
        CHECK(value[r] == of_use[r] || (value[r] == 1 && !exact));
    for (int64_t c = 0; c < net->cell_start[net->network.pairs]; c++)
        CHECK(open[c] == used[c] || (open[c] == 1 && !exact));
}

/* Nothing is rounded on a chain, so the bound is the least cost after one sweep. */
static void check_messages(int kind) {
    struct net net;
    make(&net, kind == CHAIN ? 2 + draw(MOST_VARIABLES - 1) : draw(MOST_VARIABLES + 1), kind);
    const int64_t least = least_cost(&net), near = least < FORBIDDEN ? least : 10;
    const int64_t tops[] = {(int64_t)1 << 56, near + 1 + draw(10), near, near - draw(20)};
    for (size_t i = 0; i < sizeof tops / sizeof *tops; i++) {
        struct trws trws = initial_messages(&net, tops[i]);
        int64_t before = -COST_LIMIT;
        for (int64_t sweeps = 0; sweeps < 4; sweeps++) {
            CHECK(pass_messages(&net, &trws, sweeps) == SHARD_OK);
            CHECK(trws.bound >= before);
            before = trws.bound;
            check_moves(&net, &trws, least);
            if (trws.bound < trws.top)
                check_pruning(&net, &trws,
                              net.network.pairs == 1 && net.network.variables == 2 && trws.bound >= 0);
        }
        if (kind == CHAIN)
            CHECK(trws.bound == (least < trws.top ? least : trws.top));
    }
}

/* Two variables of two values: (0, 0) costs 1 + 2 + 4 = 7, (0, 1) 1 + 0 + 1 = 2, (1, 0) 0 + 2 + 3 = 5, and
 * (1, 1) is not allowed. Below 5 only (0, 1) and its cell are left. */
static void check_messages_by_hand(bool wrong) {
    struct net net;
    do
        make(&net, 2, CHAIN);
    while (values_of(&net, 0) != 2 || values_of(&net, 1) != 2);
    memcpy(net.cost, (int64_t[]){1, 0, 2, 0}, sizeof(int64_t[4]));
    memcpy(net.cell, (int64_t[]){4, 1, 3, FORBIDDEN}, sizeof(int64_t[4]));
    struct trws trws = initial_messages(&net, 5);
    int8_t value[4], open[4];
    CHECK(pass_messages(&net, &trws, 1) == SHARD_OK);
    CHECK(trws.bound == 2 + wrong);
    CHECK(shard_trws_prune(&net.network, 5, trws.cost, trws.message, trws.bound, value, open) == SHARD_OK);
    CHECK(memcmp(value, (int8_t[]){1, 0, 0, 1}, 4) == 0);
    CHECK(memcmp(open, (int8_t[]){0, 1, 0, 0}, 4) == 0);
}

/* Costs up to the maximum, 2^56, on a chain: no sum is rounded or wraps around. */
static void check_large_costs(void) {
    struct net net;
    make(&net, 4, CHAIN);
    const int64_t large = (int64_t)1 << 53;
    for (int64_t r = 0; r < net.start[4]; r++)
        net.cost[r] = large - draw(1000);
    for (int64_t c = 0; c < net.cell_start[3]; c++)
        net.cell[c] = large + draw(1000);
    struct trws trws = initial_messages(&net, (int64_t)1 << 56);
    CHECK(pass_messages(&net, &trws, 2) == SHARD_OK);
    CHECK(trws.bound == least_cost(&net));
    check_moves(&net, &trws, trws.bound);
}

/* ---------------------------------------------------------------- softened messages */

struct soft {
    int64_t slot[MOST_VARIABLES + 1];
    struct shard_soft_arc arc[2 * MOST_PAIRS];
    float table[2 * MOST_CELLS + SHARD_LANES], range[MOST_PAIRS * 4 * MOST_VALUES];
    struct shard_soft tables;
    float message[2 * MOST_PAIRS * SHARD_LANES];
    double softness, cost[MOST_ROWS], belief[MOST_ROWS];
    double with[MOST_ROWS], sent[MOST_PAIRS * 2 * MOST_VALUES]; /* after copy_messages */
};

/* True if some value of the other end of a pair is allowed with value k of v. */
static bool has_partner(const struct net *net, const double *cost, int64_t v, int64_t e, int64_t k) {
    const int64_t u = net->tail[e] == v ? net->head[e] : net->tail[e];
    for (int64_t b = 0; b < values_of(net, u); b++) {
        int64_t choice[MOST_VARIABLES] = {0};
        choice[u] = b;
        choice[v] = k;
        if (net->cell[cell_of(net, e, choice)] < FORBIDDEN && cost[net->start[u] + b] < (double)FORBIDDEN)
            return true;
    }
    return false;
}

/* Rule out values that are allowed with no other: next to 2^60, floats are too coarse. */
static void rule_out_lonely(const struct net *net, double *cost) {
    for (int64_t round = 0; round < MOST_ROWS; round++)
        for (int64_t e = 0; e < net->network.pairs; e++)
            for (int64_t side = 0; side < 2; side++) {
                const int64_t v = side ? net->head[e] : net->tail[e];
                for (int64_t k = 0; k < values_of(net, v); k++)
                    if (!has_partner(net, cost, v, e, k))
                        cost[net->start[v] + k] = (double)FORBIDDEN;
            }
}

/* The copy of a table that arc a, of v, reads, and its ranges. */
static void check_copy(const struct net *net, const struct soft *soft, int64_t v, int64_t a) {
    const int64_t e = net->arc[a], size = values_of(net, v);
    const int64_t u = net->tail[e] == v ? net->head[e] : net->tail[e];
    const struct shard_soft_arc *arc = soft->arc + a;
    CHECK(arc->rows == values_of(net, u));
    for (int64_t i = 0; i < arc->rows; i++) {
        const float *range = soft->range + 2 * (arc->range + i);
        bool least = false, most = false;
        for (int64_t j = 0; j < size; j++) {
            int64_t choice[MOST_VARIABLES] = {0};
            choice[u] = i;
            choice[v] = j;
            const float cell = (float)net->cell[cell_of(net, e, choice)];
            const float copy = soft->table[arc->table + i * size + j];
            CHECK(copy >= cell && copy <= cell && cell >= range[0] && cell <= range[1]);
            least = least || cell <= range[0];
            most = most || cell >= range[1];
        }
        CHECK(least && most);
    }
}

/* Copy every table both ways and check the copies. */
static void make_soft(const struct net *net, double softness, struct soft *soft) {
    memset(soft, 0, sizeof *soft);
    soft->softness = softness;
    for (int64_t r = 0; r < net->start[net->network.variables]; r++)
        soft->cost[r] = (double)net->cost[r];
    rule_out_lonely(net, soft->cost);
    CHECK(shard_soft_trws_tables(&net->network, soft->slot, soft->arc, soft->table, soft->range) == SHARD_OK);
    soft->tables = (struct shard_soft){soft->slot, soft->arc, soft->table, soft->range};
    for (int64_t v = 0; v < net->network.variables; v++)
        for (int64_t a = net->arc_start[v]; a < net->arc_start[v + 1]; a++)
            check_copy(net, soft, v, a);
}

/* Pass messages, 8 or 16 at a time. */
static int pass_softly(const struct net *net, struct soft *soft, int64_t lanes, int64_t sweeps) {
    return shard_soft_trws(&net->network, &soft->tables, lanes, sweeps, soft->softness, soft->cost,
                           soft->message, soft->belief);
}

/* The messages in the order of the network, and the costs with them. */
static void copy_messages(const struct net *net, struct soft *soft) {
    memcpy(soft->with, soft->cost, sizeof soft->cost);
    shard_soft_trws_messages(&net->network, &soft->tables, soft->message, soft->with, soft->sent);
}

/* The cost of an assignment after the messages. */
static double soft_cost(const struct net *net, const struct soft *soft, const int64_t *choice) {
    double sum = 0;
    for (int64_t v = 0; v < net->network.variables; v++)
        sum += soft->with[net->start[v] + choice[v]];
    for (int64_t e = 0; e < net->network.pairs; e++) {
        const double *to_tail = soft->sent + net->message_start[e];
        sum += (double)net->cell[cell_of(net, e, choice)] - to_tail[choice[net->tail[e]]] -
               to_tail[values_of(net, net->tail[e]) + choice[net->head[e]]];
    }
    return sum;
}

/* Every assignment costs what it did before. */
static void check_soft_cost(const struct net *net, const struct soft *soft) {
    int64_t choice[MOST_VARIABLES] = {0};
    do {
        const int64_t cost = cost_of(net, choice);
        CHECK(cost == FORBIDDEN || fabs(soft_cost(net, soft, choice) - (double)cost) < 1e-3);
    } while (next_choice(net, choice));
}

/* On a chain, the weights of values are sums over all assignments. */
static void check_weights(const struct net *net, const struct soft *soft, int64_t least) {
    int64_t choice[MOST_VARIABLES] = {0};
    double weight[MOST_ROWS] = {0}, total = 0;
    do {
        const int64_t cost = cost_of(net, choice);
        const double of_all = cost == FORBIDDEN ? 0 : exp((double)(least - cost) / soft->softness);
        total += of_all;
        for (int64_t v = 0; v < net->network.variables; v++)
            weight[net->start[v] + choice[v]] += of_all;
    } while (next_choice(net, choice));
    for (int64_t v = 0; v < net->network.variables; v++) {
        double sum = 0;
        for (int64_t r = net->start[v]; r < net->start[v + 1]; r++)
            sum += exp(-soft->belief[r] / soft->softness);
        for (int64_t r = net->start[v]; r < net->start[v + 1]; r++)
            CHECK(fabs(exp(-soft->belief[r] / soft->softness) / sum - weight[r] / total) < 1e-3);
    }
}

/* With harder and harder messages; once they are hard, rounding finds the best assignment of a chain. */
static void check_softened(int kind) {
    struct net net;
    struct soft soft;
    make(&net, kind == CHAIN ? 2 + draw(MOST_VARIABLES - 1) : draw(MOST_VARIABLES + 1), kind);
    const bool allowed = least_cost(&net) < FORBIDDEN;
    const double softness[] = {20, 3, 0.05};
    for (size_t i = 0; i < sizeof softness / sizeof *softness; i++) {
        int64_t value[MOST_VARIABLES];
        make_soft(&net, softness[i], &soft);
        const int64_t sweeps = 1 + draw(3);
        struct soft narrow = soft;
        CHECK(pass_softly(&net, &soft, 16, sweeps) == SHARD_OK);
        CHECK(pass_softly(&net, &narrow, 8, sweeps) == SHARD_OK);
        CHECK(memcmp(soft.belief, narrow.belief, sizeof soft.belief) == 0);
        copy_messages(&net, &soft);
        check_soft_cost(&net, &soft);
        if (kind == CHAIN && allowed)
            check_weights(&net, &soft, least_cost(&net));
        CHECK(shard_soft_trws_round(&net.network, soft.with, soft.sent, value) == SHARD_OK);
        for (int64_t v = 0; v < net.network.variables; v++)
            CHECK(value[v] >= 0 && value[v] < values_of(&net, v));
        if (kind == CHAIN && allowed && softness[i] < 0.1)
            CHECK(cost_of(&net, value) == least_cost(&net));
    }
}

/* Whatever the messages, allowed assignments keep their costs and no pair has a negative cost left. */
static void check_reparametrise(void) {
    struct net net;
    make(&net, draw(MOST_VARIABLES + 1), ANY);
    const int64_t top = (int64_t)1 << 56, constant = draw(100) - 50;
    const bool large = draw(4) == 0;
    struct trws trws = initial_messages(&net, top);
    int64_t choice[MOST_VARIABLES] = {0}, given = 0;
    trws.bound = constant;
    for (int64_t r = 0; r < net.start[net.network.variables]; r++)
        trws.cost[r] = draw(15) ? net.cost[r] : FORBIDDEN;
    for (int64_t m = 0; m < net.message_start[net.network.pairs]; m++)
        trws.message[m] = large ? (draw(1000) - 500) * ((int64_t)1 << 49) : draw(40) - 20;
    const struct trws before = trws;
    CHECK(shard_trws_reparametrise(&net.network, top, trws.cost, trws.message, &trws.bound) == SHARD_OK);
    do {
        bool allowed = cost_of(&net, choice) < FORBIDDEN;
        int64_t rest = -constant;
        for (int64_t v = 0; v < net.network.variables; v++) {
            allowed = allowed && before.cost[net.start[v] + choice[v]] < FORBIDDEN;
            rest += trws.cost[net.start[v] + choice[v]];
        }
        if (!allowed || trws.bound == INT64_MIN)
            continue;
        given++;
        for (int64_t e = 0; e < net.network.pairs; e++) {
            CHECK(rest_of(&net, &trws, e, choice) >= 0);
            rest += rest_of(&net, &trws, e, choice);
        }
        CHECK(trws.bound != top && trws.bound + rest == cost_of(&net, choice));
    } while (next_choice(&net, choice));
    CHECK(large || trws.bound == top || trws.bound > -2000);
    CHECK(trws.bound != top || given == 0);
}

/* Two values that cost 0 and 1 next to one that costs 2, with an all-zero table and softness 1: messages are relative to
 * their least, so they move nothing. */
static void check_softened_by_hand(void) {
    struct net net;
    struct soft soft;
    do
        make(&net, 2, CHAIN);
    while (values_of(&net, 0) != 2 || values_of(&net, 1) != 1);
    memcpy(net.cost, (int64_t[]){0, 1, 2}, sizeof(int64_t[3]));
    memcpy(net.cell, (int64_t[]){0, 0}, sizeof(int64_t[2]));
    make_soft(&net, 1, &soft);
    CHECK(pass_softly(&net, &soft, 16, 1) == SHARD_OK);
    copy_messages(&net, &soft);
    CHECK(fabs(soft.belief[0]) < 1e-4 && fabs(soft.belief[1] - 1) < 1e-4 && fabs(soft.belief[2]) < 1e-4);
    CHECK(fabs(soft.with[0]) < 1e-4 && fabs(soft.with[1] - 1) < 1e-4 && fabs(soft.with[2] - 2) < 1e-4);
}

/* ---------------------------------------------------------------- dominance */

/* True if value k of v never uses more memory than value old. */
static bool uses_no_more(const struct net *net, int64_t v, int64_t k, int64_t old) {
    const int64_t first = net->usage_start[v], spans = (net->usage_start[v + 1] - first) / values_of(net, v);
    for (int64_t s = 0; s < spans; s++)
        if (net->usage[first + k * spans + s] > net->usage[first + old * spans + s])
            return false;
    return true;
}

/* The cost of value k of v with value b of the other end of a pair. */
static int64_t cell_cost(const struct net *net, int64_t v, int64_t e, int64_t k, int64_t b) {
    int64_t choice[MOST_VARIABLES] = {0};
    choice[net->tail[e]] = choice[net->head[e]] = b;
    choice[v] = k;
    return net->cell[cell_of(net, e, choice)];
}

static int64_t other_end(const struct net *net, int64_t v, int64_t e) {
    return net->tail[e] == v ? net->head[e] : net->tail[e];
}

/* The least saving in a pair if value k of v replaces value old, over the remaining values that old is
 * allowed with; FORBIDDEN if there are none, -FORBIDDEN if k is not allowed with some of them. */
static int64_t saving(const struct net *net, int64_t v, int64_t e, int64_t k, int64_t old,
                      const int8_t *value) {
    const int64_t u = other_end(net, v, e);
    int64_t least = FORBIDDEN;
    for (int64_t b = 0; b < values_of(net, u); b++) {
        const int64_t now = cell_cost(net, v, e, old, b), then = cell_cost(net, v, e, k, b);
        if (value[net->start[u] + b] && now < FORBIDDEN)
            least = then == FORBIDDEN ? -FORBIDDEN : now - then < least ? now - then : least;
    }
    return least;
}

/* The definition: value old of v is allowed nowhere, or value k is as good with any neighbours. */
static bool replaced(const struct net *net, int64_t v, int64_t k, int64_t old, const int8_t *value) {
    int64_t gain = net->cost[net->start[v] + old] - net->cost[net->start[v] + k];
    bool allowed = true, fits = uses_no_more(net, v, k, old);
    for (int64_t e = 0; e < net->network.pairs; e++) {
        if (net->tail[e] != v && net->head[e] != v)
            continue;
        const int64_t least = saving(net, v, e, k, old, value);
        allowed = allowed && least != FORBIDDEN;
        fits = fits && least != -FORBIDDEN;
        gain += fits && allowed ? least : 0;
    }
    return !allowed || (fits && k != old && value[net->start[v] + k] && gain >= 0);
}

static void rule_out(const struct net *net, int8_t *value) {
    int8_t before[MOST_ROWS];
    do {
        memcpy(before, value, sizeof before);
        for (int64_t v = 0; v < net->network.variables; v++) {
            int8_t *mine = value + net->start[v];
            for (int64_t old = 0; old < values_of(net, v) && !net->skip[v]; old++)
                for (int64_t k = 0; k < values_of(net, v) && mine[old]; k++)
                    mine[old] = !replaced(net, v, k, old, value);
        }
    } while (memcmp(before, value, sizeof before) != 0);
}

static bool is_left(const struct net *net, const int8_t *value, const int64_t *choice) {
    for (int64_t v = 0; v < net->network.variables; v++)
        if (!value[net->start[v] + choice[v]])
            return false;
    return true;
}

/* True if a remaining assignment costs no more than this one and nowhere uses more memory. */
static bool has_substitute(const struct net *net, const int8_t *value, const int64_t *choice) {
    int64_t other[MOST_VARIABLES] = {0};
    do {
        bool fits = is_left(net, value, other) && cost_of(net, other) <= cost_of(net, choice);
        for (int64_t v = 0; v < net->network.variables && fits; v++)
            fits = uses_no_more(net, v, other[v], choice[v]);
        if (fits)
            return true;
    } while (next_choice(net, other));
    return false;
}

/* The log names each value that was ruled out once, with another value of its variable, or -1. */
static void check_log(const struct net *net, const int64_t *log, int64_t logged, const int8_t *before,
                      const int8_t *after) {
    int8_t left[MOST_ROWS];
    memcpy(left, before, sizeof left);
    for (int64_t i = 0; i < logged; i++) {
        const int64_t row = log[2 * i], by = log[2 * i + 1];
        CHECK(left[row]);
        left[row] = 0;
        if (by < 0)
            continue;
        int64_t v = 0;
        while (net->start[v + 1] <= row)
            v++;
        CHECK(by >= net->start[v] && by < net->start[v + 1] && left[by]);
    }
    CHECK(memcmp(left, after, sizeof left) == 0);
}

static void check_dead_end_elimination(void) {
    struct net net;
    int64_t choice[MOST_VARIABLES] = {0}, log[2 * MOST_ROWS], logged;
    int8_t before[MOST_ROWS] = {0}, value[MOST_ROWS], expected[MOST_ROWS];
    make(&net, draw(MOST_VARIABLES + 1), ANY);
    for (int64_t r = 0; r < net.start[net.network.variables]; r++)
        before[r] = draw(8) > 0;
    memcpy(value, before, sizeof value);
    memcpy(expected, before, sizeof expected);
    CHECK(shard_dead_end_elimination(&net.network, net.cost, net.usage_start, net.usage, net.skip, value, log,
                                     &logged) == SHARD_OK);
    rule_out(&net, expected);
    CHECK(memcmp(value, expected, sizeof value) == 0);
    check_log(&net, log, logged, before, value);
    do {
        if (is_left(&net, before, choice) && cost_of(&net, choice) < FORBIDDEN)
            CHECK(is_left(&net, value, choice) || has_substitute(&net, value, choice));
    } while (next_choice(&net, choice));
}

/* The number of living values of the other end that value k of v is allowed with in a pair. */
static int64_t supports(const struct net *net, int64_t v, int64_t e, int64_t k, const int8_t *alive) {
    const int64_t u = other_end(net, v, e);
    int64_t count = 0;
    for (int64_t b = 0; b < values_of(net, u); b++)
        count += alive[net->start[u] + b] && cell_cost(net, v, e, k, b) < FORBIDDEN;
    return count;
}

/* Remove values without support, one at a time, until there are none. */
static void remove_unsupported(const struct net *net, int8_t *alive) {
    for (bool again = true; again;) {
        again = false;
        for (int64_t e = 0; e < net->network.pairs; e++)
            for (int end = 0; end < 2; end++) {
                const int64_t v = end ? net->head[e] : net->tail[e];
                for (int64_t k = 0; k < values_of(net, v); k++)
                    if (alive[net->start[v] + k] && !supports(net, v, e, k, alive)) {
                        alive[net->start[v] + k] = 0;
                        again = true;
                    }
            }
    }
}

/* The map of a pair whose tail, or head, has one allowed value of the other end for each of its own. */
static void check_map(const struct net *net, const int8_t *alive, int64_t e, bool by_tail) {
    const int64_t v = by_tail ? net->tail[e] : net->head[e], u = other_end(net, v, e);
    const int8_t tail = by_tail;
    int64_t rank[MOST_VALUES + 1] = {-1, -1, -1, -1}, at = 0;
    CHECK(shard_function_maps(&net->network, FORBIDDEN, alive, 1, &e, &tail, rank) == SHARD_OK);
    for (int64_t k = 0; k < values_of(net, v); k++) {
        int64_t living = -1;
        for (int64_t b = 0; b < values_of(net, u) && alive[net->start[v] + k]; b++) {
            living += alive[net->start[u] + b];
            if (alive[net->start[u] + b] && cell_cost(net, v, e, k, b) < FORBIDDEN)
                CHECK(rank[at] == living);
        }
        at += alive[net->start[v] + k];
    }
    CHECK(rank[at] == -1);
}

static void check_arc_consistency(void) {
    struct net net;
    int8_t alive[MOST_ROWS], expected[MOST_ROWS], determines[2 * MOST_PAIRS];
    make(&net, draw(MOST_VARIABLES + 1), ANY);
    for (int64_t r = 0; r < MOST_ROWS; r++)
        alive[r] = expected[r] = draw(8) > 0;
    CHECK(shard_arc_consistency(&net.network, FORBIDDEN, alive, determines) == SHARD_OK);
    remove_unsupported(&net, expected);
    CHECK(memcmp(alive, expected, sizeof alive) == 0);
    for (int64_t e = 0; e < net.network.pairs; e++)
        for (int end = 0; end < 2; end++) {
            const int64_t v = end ? net.head[e] : net.tail[e];
            bool at_most_one = true;
            for (int64_t k = 0; k < values_of(&net, v); k++)
                at_most_one &= !alive[net.start[v] + k] || supports(&net, v, e, k, alive) <= 1;
            CHECK(determines[end * net.network.pairs + e] == at_most_one);
            if (at_most_one)
                check_map(&net, alive, e, !end);
        }
}

/* True if value k of v is allowed with value b in its pair and best there, by cost and by memory. */
static bool is_best(const struct net *net, int64_t v, int64_t e, int64_t k, int64_t b) {
    const int64_t *cost = net->cost + net->start[v], mine = cell_cost(net, v, e, k, b);
    for (int64_t other = 0; other < values_of(net, v); other++) {
        const int64_t theirs = cell_cost(net, v, e, other, b);
        if (theirs < FORBIDDEN && (cost[k] + mine > cost[other] + theirs || !uses_no_more(net, v, k, other)))
            return false;
    }
    return mine < FORBIDDEN;
}

static bool has_best(const struct net *net, int64_t v, int64_t e, int64_t b) {
    for (int64_t k = 0; k < values_of(net, v); k++)
        if (is_best(net, v, e, k, b))
            return true;
    return false;
}

static int64_t degree(const struct net *net, int64_t v) {
    return net->arc_start[v + 1] - net->arc_start[v];
}

/* The parent of v by definition, -1 for none; of two that could be each other's leaf, the greater is one. */
static int64_t expected_parent(const struct net *net, int64_t v) {
    if (net->skip[v] || degree(net, v) != 1)
        return -1;
    const int64_t e = net->arc[net->arc_start[v]], u = other_end(net, v, e);
    if (v < u && degree(net, u) == 1 && !net->skip[u])
        return -1;
    for (int64_t b = 0; b < values_of(net, u); b++)
        if (!has_best(net, v, e, b))
            return -1;
    return u;
}

static void check_leaf_elimination(void) {
    struct net net;
    int64_t parent[MOST_VARIABLES], choice[MOST_PAIRS * 2 * MOST_VALUES] = {0};
    make(&net, draw(MOST_VARIABLES + 1), ANY);
    CHECK(shard_leaf_elimination(&net.network, net.cost, net.usage_start, net.usage, net.skip, parent,
                                 choice) == SHARD_OK);
    for (int64_t v = 0; v < net.network.variables; v++) {
        CHECK(parent[v] == expected_parent(&net, v));
        if (parent[v] < 0)
            continue;
        CHECK(parent[parent[v]] < 0);
        const int64_t e = net.arc[net.arc_start[v]];
        const int64_t *taken = choice + net.message_start[e] + (net.tail[e] == v ? values_of(&net, v) : 0);
        for (int64_t b = 0; b < values_of(&net, parent[v]); b++)
            CHECK(taken[b] >= 0 && taken[b] < values_of(&net, v) && is_best(&net, v, e, taken[b], b));
    }
}

/* With 0, value 0 of variable 1 costs 1 and value 1 costs 2; with 1, both cost 1. Value 1 is dominated unless
 * it needs less memory; then no value is best with 0. */
static void check_dominance_by_hand(void) {
    struct net net;
    do
        make(&net, 2, CHAIN);
    while (values_of(&net, 0) != 2 || values_of(&net, 1) != 2);
    memcpy(net.cost, (int64_t[]){0, 9, 0, 0}, sizeof(int64_t[4]));
    memcpy(net.cell, (int64_t[]){1, 2, 1, 1}, sizeof(int64_t[4]));
    memcpy(net.usage_start, (int64_t[]){0, 0, 2}, sizeof(int64_t[3]));
    memcpy(net.skip, (int8_t[]){1, 0}, 2);
    for (int64_t memory = 0; memory < 2; memory++) {
        int8_t value[4] = {1, 1, 1, 1};
        int64_t parent[2], choice[4] = {9, 9, 9, 9}, log[8], logged;
        net.usage[0] = memory;
        net.usage[1] = 0;
        CHECK(shard_dead_end_elimination(&net.network, net.cost, net.usage_start, net.usage, net.skip, value,
                                         log, &logged) == SHARD_OK);
        CHECK(value[0] && value[1] && value[2] && value[3] == memory);
        shard_leaf_elimination(&net.network, net.cost, net.usage_start, net.usage, net.skip, parent, choice);
        CHECK(parent[0] == -1 && parent[1] == (memory ? -1 : 0));
        CHECK(memory || choice[0] == 0);
    }
}

/* ---------------------------------------------------------------- contraction */

#define LARGEST_COST 1000

/* Old variables, their roots, and the tables before and after. */
struct merger {
    int64_t variables, size[MOST_VARIABLES], root[MOST_VARIABLES];
    int64_t value_start[MOST_VARIABLES], value[MOST_ROWS];
    int64_t pairs, tail[MOST_PAIRS], head[MOST_PAIRS], cell_start[MOST_PAIRS + 1], cell[MOST_CELLS],
        target[MOST_PAIRS];
    int64_t roots, new_size[MOST_VARIABLES], new_start[MOST_VARIABLES];
    int64_t new_cells,
        table[MOST_VARIABLES][MOST_VARIABLES]; /* first cell of two roots, the lower one first */
    int64_t new_cell[MOST_CELLS], row[MOST_ROWS];
};

static int64_t some_cost(void) {
    return draw(12) ? draw(20) - 5 : LARGEST_COST + draw(100) / 50 * 7;
}

static void make_variables(struct merger *merger) {
    int64_t values = 0, rows = 0;
    merger->roots = 1 + draw(MOST_VARIABLES);
    for (int64_t r = 0; r < merger->roots; r++) {
        merger->new_size[r] = 1 + draw(MOST_VALUES);
        merger->new_start[r] = rows;
        rows += merger->new_size[r];
    }
    merger->variables = 1 + draw(MOST_VARIABLES);
    for (int64_t x = 0; x < merger->variables; x++) {
        merger->size[x] = 1 + draw(MOST_VALUES);
        merger->root[x] = draw((int32_t)merger->roots);
        merger->value_start[x] = values;
        for (int64_t i = 0; i < merger->new_size[merger->root[x]]; i++)
            merger->value[values++] = draw((int32_t)merger->size[x]);
    }
}

static int64_t target_of(struct merger *merger, int64_t a, int64_t b) {
    const int64_t low = a < b ? a : b, high = a < b ? b : a,
                  cells = merger->new_size[a] * merger->new_size[b];
    if (a == b || merger->new_size[a] == 1 || merger->new_size[b] == 1)
        return -1;
    if (merger->table[low][high] < 0) {
        merger->table[low][high] = merger->new_cells;
        merger->new_cells += cells;
    }
    return merger->table[low][high];
}

static void make_pairs(struct merger *merger) {
    memset(merger->table, -1, sizeof merger->table);
    merger->pairs = draw(MOST_PAIRS + 1);
    for (int64_t e = 0; e < merger->pairs; e++) {
        const int64_t tail = draw((int32_t)merger->variables), head = draw((int32_t)merger->variables);
        merger->tail[e] = tail;
        merger->head[e] = head;
        merger->cell_start[e + 1] = merger->cell_start[e] + merger->size[tail] * merger->size[head];
        for (int64_t c = merger->cell_start[e]; c < merger->cell_start[e + 1]; c++)
            merger->cell[c] = some_cost();
        merger->target[e] = target_of(merger, merger->root[tail], merger->root[head]);
    }
    for (int64_t c = 0; c < merger->new_cells; c++)
        merger->new_cell[c] = some_cost();
    for (int64_t r = 0; r < MOST_ROWS; r++)
        merger->row[r] = some_cost();
}

static int64_t sum_of(int64_t sum, int64_t cost) {
    return sum >= LARGEST_COST || cost >= LARGEST_COST ? LARGEST_COST : sum + cost;
}

/* The cost of an assignment of the roots in the new tables and rows. */
static int64_t new_cost(const struct merger *merger, const int64_t *choice) {
    int64_t sum = 0;
    for (int64_t a = 0; a < merger->roots; a++) {
        sum = sum_of(sum, merger->row[merger->new_start[a] + choice[a]]);
        for (int64_t b = a + 1; b < merger->roots; b++)
            if (merger->table[a][b] >= 0)
                sum = sum_of(
                    sum, merger->new_cell[merger->table[a][b] + choice[a] * merger->new_size[b] + choice[b]]);
    }
    return sum;
}

/* The cost of the old variables, given the values of their roots, in the old tables. */
static int64_t old_cost(const struct merger *merger, const int64_t *choice) {
    int64_t sum = 0;
    for (int64_t e = 0; e < merger->pairs; e++) {
        const int64_t tail = merger->tail[e], head = merger->head[e];
        const int64_t i = merger->value[merger->value_start[tail] + choice[merger->root[tail]]];
        const int64_t j = merger->value[merger->value_start[head] + choice[merger->root[head]]];
        sum = sum_of(sum, merger->cell[merger->cell_start[e] + i * merger->size[head] + j]);
    }
    return sum;
}

static int contract(struct merger *merger, int64_t *new_cell, int64_t *row) {
    return shard_contract(merger->pairs, merger->tail, merger->head, merger->cell_start, merger->cell,
                          merger->size, merger->root, merger->value_start, merger->value, merger->new_size,
                          merger->new_start, merger->target, LARGEST_COST, new_cell, row);
}

/* The cost of every assignment of the roots grows by the cost of its old variables. */
static void check_contraction(void) {
    struct merger before = {0}, after;
    int64_t choice[MOST_VARIABLES] = {0};
    make_variables(&before);
    make_pairs(&before);
    after = before;
    CHECK(contract(&before, after.new_cell, after.row) == SHARD_OK);
    do
        CHECK(new_cost(&after, choice) == sum_of(new_cost(&before, choice), old_cost(&before, choice)));
    while (next(before.roots, before.new_size, choice));
}

/* ---------------------------------------------------------------- memory */

/* Every allocation fails once; then nothing has been written. */
static void check_no_memory(void) {
    struct net net;
    make(&net, MOST_VARIABLES, ANY);
    for (int call = 0; call < 7; call++) {
        int status = SHARD_NO_MEMORY, allocations = 0;
        for (; status == SHARD_NO_MEMORY && allocations < 10; allocations++) {
            struct trws trws = initial_messages(&net, (int64_t)1 << 56), before = trws;
            int8_t value[MOST_ROWS], open[MOST_CELLS], all[MOST_ROWS], determines[2 * MOST_PAIRS];
            memset(all, 1, sizeof all);
            memcpy(value, all, sizeof value);
            struct soft soft;
            int64_t choice[MOST_VARIABLES] = {-1}, log[2 * MOST_ROWS], logged;
            make_soft(&net, 1, &soft);
            const struct soft soft_before = soft;
            WITH_MEMORY_FOR(allocations,
                            call == 0   ? pass_messages(&net, &trws, 1)
                            : call == 1 ? shard_trws_prune(&net.network, trws.top, trws.cost, trws.message, 0,
                                                           value, open)
                            : call == 2 ? shard_dead_end_elimination(&net.network, net.cost, net.usage_start,
                                                                     net.usage, net.skip, value, log, &logged)
                            : call == 3 ? shard_arc_consistency(&net.network, FORBIDDEN, value, determines)
                            : call == 4 ? pass_softly(&net, &soft, 16, 1)
                            : call == 5 ? shard_soft_trws_tables(&net.network, soft.slot, soft.arc,
                                                                 soft.table, soft.range)
                                        : shard_soft_trws_round(&net.network, soft.cost, soft.sent, choice));
            if (status == SHARD_NO_MEMORY)
                CHECK(memcmp(&trws, &before, sizeof trws) == 0 && memcmp(value, all, sizeof value) == 0 &&
                      memcmp(&soft, &soft_before, sizeof soft) == 0 && choice[0] == -1);
        }
        CHECK(status == SHARD_OK && allocations > 1);
    }
}

static void check_all(bool wrong) {
    check_messages_by_hand(wrong);
    if (wrong)
        return;
    check_dominance_by_hand();
    check_softened_by_hand();
    check_large_costs();
    for (int32_t round = 0; round < ROUNDS; round++) {
        check_messages(ANY);
        check_messages(CHAIN);
        check_softened(ANY);
        check_softened(CHAIN);
        check_reparametrise();
        check_dead_end_elimination();
        check_arc_consistency();
        check_leaf_elimination();
        check_contraction();
    }
    check_no_memory();
}
