/* One pass over the old pairs in order. */
#include "intraop/contract.h"

static void add_cost(int64_t *sum, int64_t cost, int64_t forbidden) {
    *sum = *sum >= forbidden || cost >= forbidden ? forbidden : *sum + cost;
}

int shard_contract(int64_t pairs, const int64_t *tail, const int64_t *head, const int64_t *cell_start,
                   const int64_t *cell, const int64_t *size, const int64_t *root, const int64_t *value_start,
                   const int64_t *value, const int64_t *new_size, const int64_t *new_start,
                   const int64_t *target, int64_t forbidden, int64_t *new_cell, int64_t *row) {
    for (int64_t e = 0; e < pairs; e++) {
        const int64_t a = root[tail[e]], b = root[head[e]], columns = size[head[e]];
        const int64_t *of_tail = value + value_start[tail[e]], *of_head = value + value_start[head[e]];
        const int64_t *old = cell + cell_start[e];
        /* Strides in the new table, or in the rows, between consecutive values of each root. */
        const int64_t by_tail = target[e] < 0 ? new_size[a] > 1 : a < b ? new_size[b] : 1;
        const int64_t by_head = target[e] < 0 ? new_size[b] > 1 : a < b ? 1 : new_size[a];
        const int64_t fixed = new_size[a] > 1 ? a : new_size[b] > 1 ? b : a < b ? a : b;
        int64_t *sum = target[e] < 0 ? row + new_start[fixed] : new_cell + target[e];
        for (int64_t i = 0; i < new_size[a]; i++) {
            if (a == b) {
                add_cost(sum + i, old[of_tail[i] * columns + of_head[i]], forbidden);
                continue;
            }
            for (int64_t j = 0; j < new_size[b]; j++)
                add_cost(sum + i * by_tail + j * by_head, old[of_tail[i] * columns + of_head[j]], forbidden);
        }
    }
    return SHARD_OK;
}
