/* AC-3: a queue of pairs; a variable that loses a value puts its pairs into the queue again. */
#include "intraop/arc_consistency.h"

/* A ring of pairs that wait for a visit, each at most once. */
struct queue {
    int64_t *pair, first, count, capacity;
    int8_t *waits;
};

static void put(struct queue *queue, int64_t e) {
    if (queue->waits[e])
        return;
    queue->waits[e] = 1;
    queue->pair[(queue->first + queue->count++) % queue->capacity] = e;
}

static int64_t take(struct queue *queue) {
    const int64_t e = queue->pair[queue->first];
    queue->first = (queue->first + 1) % queue->capacity;
    queue->count--;
    queue->waits[e] = 0;
    return e;
}

/* Count the supports of each value in pair e over remaining values of the other end: `rows` of the tail, `columns`
 * of the head. */
static void count_supports(const struct shard_network *network, int64_t e, int64_t forbidden,
                           const int8_t *alive, int64_t *rows, int64_t *columns) {
    const int64_t tail = network->tail[e], head = network->head[e], width = size_of(network, head);
    const int8_t *of_tail = alive + network->start[tail], *of_head = alive + network->start[head];
    const int64_t *cell = network->cell + network->cell_start[e];
    memset(columns, 0, (size_t)width * sizeof *columns);
    for (int64_t i = 0; i < size_of(network, tail); i++, cell += width) {
        rows[i] = 0;
        for (int64_t j = 0; of_tail[i] && j < width; j++) {
            const int64_t open = (cell[j] < forbidden) & of_head[j];
            rows[i] += open;
            columns[j] += open;
        }
    }
}

/* Remove the remaining values without support; true if there were any. */
static bool remove_unsupported(int64_t size, const int64_t *supports, int8_t *alive) {
    bool any = false;
    for (int64_t i = 0; i < size; i++) {
        any |= alive[i] && !supports[i];
        alive[i] = alive[i] && supports[i];
    }
    return any;
}

static int8_t at_most_one(int64_t size, const int64_t *supports) {
    bool all = true;
    for (int64_t i = 0; i < size; i++)
        all &= supports[i] <= 1;
    return all;
}

static void put_pairs_of(const struct shard_network *network, int64_t v, struct queue *queue) {
    for (int64_t a = network->arc_start[v]; a < network->arc_start[v + 1]; a++)
        put(queue, network->arc[a]);
}

/* The last visit of a pair follows the last removal of a value at its ends, so its entry in `determines` is final.
 * */
static void visit(const struct shard_network *network, int64_t e, int64_t forbidden, int8_t *alive,
                  int8_t *determines, int64_t *supports, struct queue *queue) {
    const int64_t tail = network->tail[e], head = network->head[e];
    const int64_t height = size_of(network, tail), width = size_of(network, head);
    count_supports(network, e, forbidden, alive, supports, supports + height);
    determines[e] = at_most_one(height, supports);
    determines[network->pairs + e] = at_most_one(width, supports + height);
    if (remove_unsupported(height, supports, alive + network->start[tail]))
        put_pairs_of(network, tail, queue);
    if (remove_unsupported(width, supports + height, alive + network->start[head]))
        put_pairs_of(network, head, queue);
}

int shard_arc_consistency(const struct shard_network *network, int64_t forbidden, int8_t *alive,
                          int8_t *determines) {
    const int64_t pairs = network->pairs;
    int64_t largest = 1;
    for (int64_t v = 0; v < network->variables; v++)
        largest = size_of(network, v) > largest ? size_of(network, v) : largest;
    struct queue queue = {.capacity = pairs ? pairs : 1};
    queue.pair = malloc((size_t)queue.capacity * sizeof *queue.pair);
    queue.waits = calloc((size_t)queue.capacity, sizeof *queue.waits);
    int64_t *supports = malloc(2 * (size_t)largest * sizeof *supports);
    const bool enough = queue.pair && queue.waits && supports;
    for (int64_t e = 0; enough && e < pairs; e++)
        put(&queue, e);
    while (enough && queue.count)
        visit(network, take(&queue), forbidden, alive, determines, supports, &queue);
    free(supports);
    free(queue.waits);
    free(queue.pair);
    return enough ? SHARD_OK : SHARD_NO_MEMORY;
}

/* Rank, among the remaining values, of the first one whose cell is allowed. `cell` is that of the first value. */
static int64_t first_allowed(int64_t size, const int64_t *cell, int64_t stride, int64_t forbidden,
                             const int8_t *alive) {
    int64_t rank = 0;
    for (int64_t k = 0; k < size; k++) {
        if (alive[k] && cell[k * stride] < forbidden)
            return rank;
        rank += alive[k];
    }
    return 0;
}

int shard_function_maps(const struct shard_network *network, int64_t forbidden, const int8_t *alive,
                        int64_t count, const int64_t *pair, const int8_t *by_tail, int64_t *rank) {
    for (int64_t m = 0; m < count; m++) {
        const int64_t e = pair[m], width = size_of(network, network->head[e]);
        const int64_t parent = by_tail[m] ? network->tail[e] : network->head[e];
        const int64_t child = by_tail[m] ? network->head[e] : network->tail[e];
        const int64_t across = by_tail[m] ? width : 1, along = by_tail[m] ? 1 : width;
        const int64_t *cell = network->cell + network->cell_start[e];
        for (int64_t i = 0; i < size_of(network, parent); i++)
            if (alive[network->start[parent] + i])
                *rank++ = first_allowed(size_of(network, child), cell + i * across, along, forbidden,
                                        alive + network->start[child]);
    }
    return SHARD_OK;
}
