/* Archer et al. (ICML 2024), Algorithms 1, 4 and 5, word for word: what the slicing of the C core is measured
 * against.
 *
 * A table holds what every segment moves. It is filled by a two-dimensional difference array: every tensor
 * subtracts its size from rectangles of segments at their corners, and one pass sums up. Three loops then go
 * over numbers of stages, right ends and left ends. Without memory limits, as in the paper's experiments. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct table {
    int32_t nodes;
    double *moved; /* (nodes + 2)^2 elements: of the segment of positions left .. right at [left][right] */
    double *work;  /* nodes + 1 elements: summed work of the first positions */
};

static double *cell(const struct table *table, int32_t left, int32_t right) {
    return &table->moved[(size_t)left * (size_t)(table->nodes + 2) + (size_t)right];
}

/* Add to all segments with first <= left <= last and low <= right <= high. */
static void update(const struct table *table, int32_t first, int32_t last, int32_t low, int32_t high,
                   double size) {
    if (first > last || low > high)
        return;
    *cell(table, first, low) += size;
    *cell(table, last + 1, low) -= size;
    *cell(table, first, high + 1) -= size;
    *cell(table, last + 1, high + 1) += size;
}

static int by_value(const void *a, const void *b) {
    return (*(const int32_t *)a > *(const int32_t *)b) - (*(const int32_t *)a < *(const int32_t *)b);
}

/* InitIOStruct of Algorithm 5; positions count from 1. */
static void fill(const struct table *table, const int64_t *start, const int32_t *head, const double *size,
                 const int32_t *order, int32_t *position, int32_t *touched) {
    const int32_t n = table->nodes;
    double total = 0.0;
    for (int32_t p = 0; p < n; p++)
        position[order[p]] = p + 1;
    for (int32_t u = 0; u < n; u++) {
        int32_t count = 0;
        total += size[u];
        touched[count++] = position[u];
        for (int64_t e = start[u]; e < start[u + 1]; e++)
            touched[count++] = position[head[e]];
        qsort(touched, (size_t)count, sizeof *touched, by_value);
        update(table, 1, touched[0] - 1, 1, touched[0] - 1, -size[u]);
        for (int32_t i = 0; i + 1 < count; i++)
            update(table, touched[i] + 1, touched[i + 1] - 1, touched[i] + 1, touched[i + 1] - 1, -size[u]);
        update(table, touched[count - 1] + 1, n, touched[count - 1] + 1, n, -size[u]);
        update(table, 1, touched[0], touched[count - 1], n, -size[u]);
    }
    *cell(table, 1, 1) += total;
    for (int32_t left = 1; left <= n; left++) {
        for (int32_t right = 1; right <= n; right++) {
            *cell(table, left, right) += *cell(table, left - 1, right) + *cell(table, left, right - 1) -
                                         *cell(table, left - 1, right - 1);
        }
    }
}

static double query(const struct table *table, int32_t left, int32_t right, double bandwidth) {
    return table->work[right] - table->work[left - 1] + *cell(table, left, right) / bandwidth;
}

/* DP of Algorithm 1, stage after stage instead of by recursion; `before` and `after` have nodes + 1 elements.
 */
static double slice(const struct table *table, int32_t stages, double bandwidth, double *before,
                    double *after) {
    const int32_t n = table->nodes;
    before[0] = 0.0;
    for (int32_t right = 1; right <= n; right++)
        before[right] = query(table, 1, right, bandwidth);
    for (int32_t stage = 2; stage <= stages; stage++) {
        double *swap = before;
        after[0] = 0.0;
        for (int32_t right = 1; right <= n; right++) {
            double best = before[right]; /* an empty last stage */
            for (int32_t left = 0; left < right; left++) {
                const double rest = query(table, left + 1, right, bandwidth);
                const double greater = before[left] > rest ? before[left] : rest;
                best = greater < best ? greater : best;
            }
            after[right] = best;
        }
        before = after;
        after = swap;
    }
    return before[n];
}

/* Least bottleneck of an order cut into at most `stages` stages; negative where memory does not suffice.
 *
 *   start, head  in, nodes + 1 and start[nodes] elements: the consumers of each node
 *   work, size   in, nodes elements each
 *   order        in, nodes elements: a topological order */
double algorithm1(int32_t nodes, int32_t stages, const int64_t *start, const int32_t *head,
                  const double *work, const double *size, double bandwidth, const int32_t *order) {
    const size_t n = (size_t)nodes;
    struct table table = {nodes, calloc((n + 2) * (n + 2), sizeof(double)), calloc(n + 1, sizeof(double))};
    int32_t *scratch = malloc((2 * n + 1) * sizeof *scratch);
    double *cost = malloc(2 * (n + 1) * sizeof *cost);
    double best = -1.0;
    if (table.moved && table.work && scratch && cost) {
        for (int32_t p = 0; p < nodes; p++)
            table.work[p + 1] = table.work[p] + work[order[p]];
        fill(&table, start, head, size, order, scratch, scratch + n);
        best = slice(&table, stages, bandwidth, cost, cost + n + 1);
    }
    free(table.moved);
    free(table.work);
    free(scratch);
    free(cost);
    return best;
}
