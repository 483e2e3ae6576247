/* Sets of ancestors as bits, for a batch of the nodes at a time; the work of a set is looked up byte by byte. */
#include "pipeline/windows/closure_work.h"

#include "common/arena.h"
#include "common/stop.h"

enum { BITS = 64, BYTES = 8, VALUES = 256 };

struct closure {
    int32_t nodes;
    const int32_t *order;
    const int64_t *start;
    const int32_t *tail;
    const int64_t *work;
    uint64_t *reached;          /* nodes elements: which nodes of the batch lead to each node */
    int64_t sum[BYTES][VALUES]; /* work of the nodes of the batch that each value of a byte stands for */
};

/* Add up the work of each set of eight nodes of the batch that begins at a position of the order. */
static void tabulate(struct closure *c, int32_t first) {
    for (int32_t byte = 0; byte < BYTES; byte++) {
        c->sum[byte][0] = 0;
        for (int32_t value = 1; value < VALUES; value++) {
            int32_t bit = 0;
            while (!(value >> bit & 1))
                bit++;
            const int32_t at = first + 8 * byte + bit;
            const int64_t work = at < c->nodes ? c->work[c->order[at]] : 0;
            c->sum[byte][value] = c->sum[byte][value & (value - 1)] + work;
        }
    }
}

/* Add the work of the batch to all nodes that it leads to. */
static void add_batch(struct closure *c, int32_t first, int64_t *closure) {
    for (int32_t at = first; at < c->nodes; at++) {
        const int32_t v = c->order[at];
        uint64_t set = at < first + BITS ? UINT64_C(1) << (at - first) : 0;
        for (int64_t e = c->start[v]; e < c->start[v + 1]; e++)
            set |= c->reached[c->tail[e]];
        c->reached[v] = set;
        for (int32_t byte = 0; set; byte++, set >>= 8)
            closure[v] += c->sum[byte][set & (VALUES - 1)];
    }
}

int shard_closure_work(int32_t nodes, const int32_t *order, const int64_t *start, const int32_t *tail,
                       const int64_t *work, const int32_t *stop, int64_t *closure) {
    struct arena arena = {0};
    struct closure c = {.nodes = nodes, .order = order, .start = start, .tail = tail, .work = work};
    ARENA_ZEROS(&arena, nodes, c.reached);
    const int status = arena_status(&arena);
    if (status == SHARD_OK) {
        memset(closure, 0, (size_t)nodes * sizeof *closure);
        for (int32_t first = 0; first < nodes && !is_stopped(stop); first += BITS) {
            for (int32_t at = 0; at < first; at++)
                c.reached[order[at]] = 0;
            tabulate(&c, first);
            add_batch(&c, first, closure);
        }
    }
    arena_free(&arena);
    return status;
}
