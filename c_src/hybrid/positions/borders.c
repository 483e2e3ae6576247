/* An edge counts only if its other end is certainly in the stage. */
#include "hybrid/positions/borders.h"

#include "common/flow.h"

#define WHOLE 0x1p50      /* capacity of all edges of a cut */
#define SMALLEST 0x1p-900 /* seconds: cuts of less count as 0 */

struct border {
    const struct shard_cells *cells;
    int32_t edges;
    const int32_t *tail, *head;
    int32_t *place;    /* nodes: number of an open node */
    int32_t *crossing; /* edges that may cross the border, and that have a weight */
    double *weight;    /* of these */
};

enum { SETTLED = -1, OUTSIDE = -2 };

/* Capacity of the least cut by crossing edges, in seconds, rounded down. */
static double least_cut(const struct border *border, struct arena *arena, int32_t open, int32_t crossing,
                        double sum) {
    struct flow flow;
    const double scale = WHOLE / sum;
    int64_t cut = 0;
    flow_allocate(&flow, arena, open, 2 * (int64_t)crossing);
    if (arena->failed)
        return 0;
    for (int32_t i = 0; i < crossing; i++) {
        const int32_t e = border->crossing[i];
        const int32_t from = border->place[border->tail[e]], to = border->place[border->head[e]];
        if (from >= 0 && to >= 0)
            flow_join(&flow, from, to, (int64_t)(border->weight[i] * scale), FLOW_INFINITE);
    }
    flow_sort(&flow);
    int64_t *to_sink = arena_take(arena, (size_t)open, sizeof *to_sink, true);
    if (arena->failed)
        return 0;
    for (int32_t i = 0; i < crossing; i++) {
        const int32_t e = border->crossing[i];
        const int32_t from = border->place[border->tail[e]], to = border->place[border->head[e]];
        const int64_t capacity = (int64_t)(border->weight[i] * scale);
        if (from == SETTLED && to == OUTSIDE)
            cut += capacity;
        else if (from == SETTLED && to >= 0)
            flow.excess[to] += capacity;
        else if (from >= 0 && to == OUTSIDE)
            to_sink[from] += capacity;
    }
    for (int32_t v = 0; v < open; v++) {
        cut += flow.excess[v] < to_sink[v] ? flow.excess[v] : to_sink[v];
        flow.excess[v] -= to_sink[v];
        cut += flow.excess[v] > 0 ? flow.excess[v] : 0;
    }
    flow_run(&flow);
    for (int32_t v = 0; v < open; v++)
        cut -= flow.excess[v] > 0 ? flow.excess[v] : 0;
    return (double)cut / scale * (1 - 0x1p-40);
}

static double least_transfers(struct border *border, struct arena *arena, int32_t open, const double *seconds,
                              const int64_t *certain, int64_t least, int64_t most, bool of_head) {
    int32_t crossing = 0;
    double sum = 0;
    for (int32_t e = 0; e < border->edges; e++) {
        const int32_t from = border->place[border->tail[e]], to = border->place[border->head[e]];
        if (from == OUTSIDE || to == SETTLED)
            continue;
        const int64_t position = certain[of_head ? border->head[e] : border->tail[e]];
        border->crossing[crossing] = e;
        border->weight[crossing] = position < least || position > most ? 0 : seconds[e];
        sum += border->weight[crossing++];
    }
    return sum > SMALLEST ? least_cut(border, arena, open, crossing, sum) : 0;
}

/* Number the open nodes of a cell; return how many. If an ideal must have all of them to be in the cell, they are settled.
 */
static int32_t place_nodes(struct border *border, int32_t cell) {
    const struct shard_cells *cells = border->cells;
    const int64_t start = cells->open_start[cell], end = cells->open_start[cell + 1];
    int64_t price = 0;
    for (int32_t i = 0; i < cells->nodes; i++) {
        const bool settled = i < cells->settled[cell];
        border->place[cells->order[i]] = settled ? SETTLED : OUTSIDE;
        price += settled ? cells->price[cells->order[i]] : 0;
    }
    for (int64_t i = start; i < end; i++)
        price += cells->price[cells->open[i]];
    const bool all = price <= cells->low[cell];
    for (int64_t i = start; i < end; i++)
        border->place[cells->open[i]] = all ? SETTLED : (int32_t)(i - start);
    return all ? 0 : (int32_t)(end - start);
}

int shard_hybrid_borders(const struct shard_cells *cells, int32_t edges, const int32_t *tail,
                         const int32_t *head, const int64_t *certain_from, const int64_t *certain_until,
                         const double *leaving_seconds, const double *entering_seconds, double *leaving,
                         double *entering) {
    struct arena arena = {0};
    struct border border = {.cells = cells, .edges = edges, .tail = tail, .head = head};
    bool failed = false;
    ARENA_ARRAYS(&arena, cells->nodes, border.place);
    ARENA_ARRAYS(&arena, edges, border.crossing, border.weight);
    for (int32_t c = 0; c < cells->cells && !arena.failed && !failed; c++) {
        const int32_t open = place_nodes(&border, c);
        for (int32_t k = 0; k < cells->spans && !failed; k++) {
            const int64_t at = (int64_t)k * cells->cells + c, span = cells->span[k];
            struct arena of_cut = {0};
            leaving[at] = least_transfers(&border, &of_cut, open, leaving_seconds, certain_from, INT64_MIN,
                                          cells->high[c] + span, true);
            entering[at] = least_transfers(&border, &of_cut, open, entering_seconds, certain_until,
                                           cells->low[c] - span, INT64_MAX, false);
            failed = of_cut.failed;
            arena_free(&of_cut);
        }
    }
    const int status = failed ? SHARD_NO_MEMORY : arena_status(&arena);
    arena_free(&arena);
    return status;
}
