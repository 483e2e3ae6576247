#include "hybrid/positions/node_costs.h"

void price_nodes(const struct shard_stage_type *type, int32_t rate, int32_t nodes, int64_t *cost) {
    const double share = type->share[rate];
    for (int32_t v = 0; v < nodes; v++) {
        double least = INFINITY;
        for (int64_t c = type->menu_start[v]; c < type->menu_start[v + 1]; c++) {
            const double seconds = type->time[c] / type->limit, bytes = type->memory[c] / type->room;
            const double both = share * seconds + (1 - share) * bytes;
            if (isfinite(type->time[c]) && both < least)
                least = both;
        }
        cost[v] = to_cost(least);
    }
}

void ranking_init(struct ranking *ranking, struct arena *arena, int32_t nodes) {
    ARENA_ARRAYS(arena, nodes, ranking->sorted, ranking->rank, ranking->buffer, ranking->ratio);
}

/* True if node a costs less per price than b. Quotients are rounded monotonously, so only equal ones need a second
 * look. */
static bool cheaper(const double *ratio, const int64_t *price, const int64_t *cost, int32_t a, int32_t b) {
    if (ratio[a] < ratio[b] || ratio[a] > ratio[b])
        return ratio[a] < ratio[b];
    return (int128)cost[a] * price[b] < (int128)cost[b] * price[a];
}

void rank_nodes(struct ranking *ranking, const struct shard_cells *cells, const int64_t *cost) {
    const int32_t n = cells->nodes;
    int32_t *from = ranking->sorted, *to = ranking->buffer;
    for (int32_t v = 0; v < n; v++) {
        from[v] = v;
        ranking->ratio[v] = (double)cost[v] / (double)cells->price[v];
    }
    for (int32_t width = 1; width < n; width *= 2) {
        for (int32_t a = 0; a < n; a += 2 * width) {
            const int32_t middle = a + width < n ? a + width : n, end = a + 2 * width < n ? a + 2 * width : n;
            int32_t i = a, j = middle;
            for (int32_t at = a; at < end; at++) {
                const bool second =
                    j < end && (i == middle || cheaper(ranking->ratio, cells->price, cost, from[j], from[i]));
                to[at] = second ? from[j++] : from[i++];
            }
        }
        int32_t *swapped = from;
        from = to;
        to = swapped;
    }
    ranking->sorted = from;
    ranking->buffer = to;
    for (int32_t i = 0; i < n; i++)
        ranking->rank[from[i]] = i;
}
