/* Only the position of an ideal counts: the rest of its cell's open nodes costs as much as the cheapest, or the dearest,
 * fractions of them with the right sum of prices. */
#include "hybrid/positions/reach.h"

#define FEW 24 /* so many open nodes are sorted by insertion */

struct work {
    const struct shard_cells *cells;
    const struct shard_stage_type *type;
    const double *leaving, *entering;
    struct ranking ranking;
    double *least_entering; /* [span * cells + cell] */
    int64_t *cost;          /* nodes: at the present rate */
    int32_t *members;       /* nodes: open nodes by rank */
    int32_t *stamp;         /* nodes: by rank, the last cell that had it open */
    int64_t *least;         /* [rate * cells + cell]: least cost of an ideal in this cell or after it */
    int64_t *most;          /* the same: greatest cost of an ideal in the cell */
    int32_t refuting;       /* rate */
};

/* Put the open nodes of a cell into `members`, by rank; return their number. */
static int32_t take_open(struct work *work, int32_t cell) {
    const struct shard_cells *cells = work->cells;
    const int32_t *open = cells->open + cells->open_start[cell], *rank = work->ranking.rank;
    const int32_t count = (int32_t)(cells->open_start[cell + 1] - cells->open_start[cell]);
    int32_t *members = work->members, found = 0;
    if (count <= FEW) {
        for (int32_t i = 0; i < count; i++) {
            int32_t at = i;
            for (; at > 0 && rank[members[at - 1]] > rank[open[i]]; at--)
                members[at] = members[at - 1];
            members[at] = open[i];
        }
        return count;
    }
    for (int32_t i = 0; i < count; i++)
        work->stamp[rank[open[i]]] = cell;
    for (int32_t i = 0; found < count; i++)
        if (work->stamp[i] == cell)
            members[found++] = work->ranking.sorted[i];
    return count;
}

/* Least cost of fractions of the members of total price `amount`, rounded down. */
static int64_t fill_cheaply(const struct work *work, int32_t count, int64_t amount) {
    int64_t cost = 0;
    for (int32_t i = 0; i < count && amount > 0; i++) {
        const int32_t v = work->members[i];
        const int64_t price = work->cells->price[v];
        cost += price <= amount ? work->cost[v] : work->cost[v] * amount / price;
        amount -= price;
    }
    return cost;
}

/* Greatest cost of fractions of the members of total price `amount`, rounded up. */
static int64_t fill_dearly(const struct work *work, int32_t count, int64_t amount) {
    int64_t cost = 0;
    for (int32_t i = count - 1; i >= 0 && amount > 0; i--) {
        const int32_t v = work->members[i];
        const int64_t price = work->cells->price[v];
        cost += price <= amount ? work->cost[v] : work->cost[v] * amount / price + 1;
        amount -= price;
    }
    return cost;
}

static void fill_cells(struct work *work, int32_t rate) {
    const struct shard_cells *cells = work->cells;
    int64_t *least = work->least + (int64_t)rate * cells->cells,
            *most = work->most + (int64_t)rate * cells->cells;
    int64_t price = 0, cost = 0;
    int32_t settled = 0;
    for (int32_t v = 0; v < cells->nodes; v++)
        work->stamp[v] = -1;
    for (int32_t c = 0; c < cells->cells; c++) {
        for (; settled < cells->settled[c]; settled++) {
            price += cells->price[cells->order[settled]];
            cost += work->cost[cells->order[settled]];
        }
        const int64_t *start = cells->open_start + c;
        int64_t price_of_all = price, cost_of_all = cost;
        for (int64_t i = start[0]; i < start[1]; i++) {
            price_of_all += cells->price[cells->open[i]];
            cost_of_all += work->cost[cells->open[i]];
        }
        if (price_of_all <= cells->low[c]) {
            least[c] = most[c] = cost_of_all;
            continue;
        }
        const int32_t count = take_open(work, c);
        least[c] = cost + fill_cheaply(work, count, cells->low[c] - price);
        most[c] = cost + fill_dearly(work, count, cells->high[c] - price);
    }
    for (int32_t c = cells->cells - 2; c >= 0; c--)
        least[c] = least[c] < least[c + 1] ? least[c] : least[c + 1];
}

/* True if no rate refutes a stage that begins in cell a, ends in cell b, and has some seconds of transfers. The rate that
 * refuted the last one is tried first. */
static bool may_hold(struct work *work, int32_t a, int32_t b, double transfers) {
    const int64_t count = work->cells->cells;
    for (int32_t i = 0; i < work->type->rates; i++) {
        const int32_t rate = (work->refuting + i) % work->type->rates;
        const int64_t border = transfers > 0 ? cost_of_seconds(work->type, rate, transfers) : 0;
        if (work->least[rate * count + b] - work->most[rate * count + a] + border > WORTH) {
            work->refuting = rate;
            return false;
        }
    }
    return true;
}

/* Index of the greatest span within the distance of two cells. */
static int32_t span_of(const struct shard_cells *cells, int32_t a, int32_t b) {
    int32_t k = cells->spans - 1;
    while (k > 0 && cells->span[k] > cells->low[b] - cells->high[a])
        k--;
    return k;
}

static double transfers_of(const struct work *work, int32_t a, int32_t b) {
    const int64_t at = (int64_t)span_of(work->cells, a, b) * work->cells->cells;
    return work->leaving[at + a] + work->entering[at + b];
}

/* The last cell after `first` in which a stage may end that begins in cell a, if it always has the least transfers: what
 * fits is then monotone. Cells from `end` on are too far. */
static int32_t last_with_least_transfers(struct work *work, int32_t a, int32_t first, int32_t end) {
    int32_t fits = first, over = end;
    if (first + 1 >= end)
        return first;
    const int64_t at = (int64_t)span_of(work->cells, a, first + 1) * work->cells->cells;
    const double transfers = work->leaving[at + a] + work->least_entering[at + first + 1];
    for (int32_t jump = 1; fits + jump < over; jump *= 2)
        if (may_hold(work, a, fits + jump, transfers))
            fits += jump;
        else
            over = fits + jump;
    while (over - fits > 1) {
        const int32_t middle = fits + (over - fits) / 2;
        if (may_hold(work, a, middle, transfers))
            fits = middle;
        else
            over = middle;
    }
    return fits;
}

static void fill_reach(struct work *work, int64_t distance, int32_t *reach) {
    const struct shard_cells *cells = work->cells;
    int32_t best = 0, end = 0;
    for (int32_t a = 0; a < cells->cells; a++) {
        best = best < a ? a : best;
        while (end < cells->cells && cells->low[end] - cells->high[a] <= distance)
            end++;
        int32_t fits = last_with_least_transfers(work, a, best, end);
        while (fits > best && !may_hold(work, a, fits, transfers_of(work, a, fits)))
            fits--;
        reach[a] = best = fits;
    }
}

/* For every span, the least transfers of stages that end in each cell or after it. */
static void fill_least_entering(struct work *work) {
    const int64_t count = work->cells->cells;
    for (int64_t at = work->cells->spans * count - 1; at >= 0; at--) {
        const double here = work->entering[at];
        const bool last = at % count == count - 1;
        work->least_entering[at] =
            last || here < work->least_entering[at + 1] ? here : work->least_entering[at + 1];
    }
}

int shard_hybrid_reach(const struct shard_cells *cells, const struct shard_stage_type *type,
                       const double *leaving, const double *entering, int64_t distance, int32_t *reach) {
    struct arena arena = {0};
    struct work work = {.cells = cells, .type = type, .leaving = leaving, .entering = entering};
    ranking_init(&work.ranking, &arena, cells->nodes);
    ARENA_ARRAYS(&arena, cells->nodes, work.cost, work.members, work.stamp);
    ARENA_ARRAYS(&arena, (int64_t)type->rates * cells->cells, work.least, work.most);
    ARENA_ARRAYS(&arena, (int64_t)cells->spans * cells->cells, work.least_entering);
    if (!arena.failed) {
        fill_least_entering(&work);
        for (int32_t rate = 0; rate < type->rates; rate++) {
            price_nodes(type, rate, cells->nodes, work.cost);
            rank_nodes(&work.ranking, cells, work.cost);
            fill_cells(&work, rate);
        }
        fill_reach(&work, distance, reach);
    }
    const int status = arena_status(&arena);
    arena_free(&arena);
    return status;
}
