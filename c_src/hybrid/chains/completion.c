#include "hybrid/chains/completion.h"

/* Prices per octave, and their number beyond the least useful one, batch / devices. */
#define PER_OCTAVE 4
#define MOST_PRICES 96

/* Every sum is off by less than this, relatively. */
#define SAFE (1 - 1e-9)

/* Time per byte of a node. */
struct piece {
    double time, bytes;
};

static int by_density(const void *a, const void *b) {
    const struct piece *x = a, *y = b;
    const double left = x->time * y->bytes, right = y->time * x->bytes;
    return left > right ? -1 : left < right;
}

/* Least time of a node with a degree, infinite if it has none; and its least bytes with two microbatches in flight. */
static struct piece piece_of(const struct costs *costs, int32_t v, int32_t t) {
    const struct menu menu = menu_of(costs, v, t);
    struct piece piece = {INFINITY, INFINITY};
    for (int64_t i = 0; i < menu.count; i++) {
        const int32_t c = menu.configuration[i];
        const double time = (double)costs->time[c];
        const double bytes =
            (double)(2 * costs->stashed[c] + costs->kept[(int64_t)(c + 1) * costs->counts - 1]);
        piece.time = time < piece.time ? time : piece.time;
        piece.bytes = bytes < piece.bytes ? bytes : piece.bytes;
    }
    return piece;
}

/* The most time of nodes, in parts, that fit a device together. */
static double longest_of(const struct costs *costs, int32_t t, struct piece *pieces) {
    int64_t count = 0;
    for (int32_t v = 0; v < costs->problem->dag.nodes; v++) {
        const struct piece piece = piece_of(costs, v, t);
        if (isfinite(piece.time))
            pieces[count++] = piece;
    }
    qsort(pieces, (size_t)count, sizeof *pieces, by_density);
    double left = (double)costs->room, time = 0;
    for (int64_t i = 0; i < count; i++) {
        if (pieces[i].bytes > left)
            return time + pieces[i].time * left / pieces[i].bytes;
        left -= pieces[i].bytes;
        time += pieces[i].time;
    }
    return time;
}

void completion_init(struct completion *completion, struct arena *arena, const struct costs *costs,
                     const struct suffixes *suffixes) {
    const struct shard_hybrid *problem = costs->problem;
    const int64_t n = problem->dag.nodes, count = suffixes->ideals.count;
    const double least = (double)problem->batch / (double)problem->devices;
    struct piece *pieces;
    double *each;
    *completion = (struct completion){.problem = problem};
    completion->prices = 2 + (int32_t)(PER_OCTAVE * log2((double)problem->devices));
    if (completion->prices > MOST_PRICES)
        completion->prices = MOST_PRICES;
    const int64_t prices = completion->prices;
    ARENA_ARRAYS(arena, prices, completion->price);
    ARENA_ARRAYS(arena, count * prices, completion->priced);
    ARENA_ARRAYS(arena, n * prices, each);
    ARENA_ARRAYS(arena, n, pieces);
    if (arena->failed)
        return;
    for (int32_t t = 0; t < problem->degrees; t++)
        completion->longest = fmax(completion->longest, longest_of(costs, t, pieces) / SAFE);
    for (int32_t p = 0; p < prices; p++)
        completion->price[p] = least * exp2((double)p / PER_OCTAVE);
    for (int32_t v = 0; v < n; v++)
        for (int32_t p = 0; p < prices; p++) {
            double *priced = each + v * prices + p;
            *priced = INFINITY;
            for (int32_t t = 0; t < problem->degrees; t++)
                *priced = fmin(*priced, piece_of(costs, v, t).time *
                                            (1 + completion->price[p] * (double)problem->degree[t]));
        }
    for (int32_t p = 0; p < prices; p++)
        completion->priced[(count - 1) * prices + p] = 0;
    for (int64_t i = count - 2; i >= 0; i--) {
        const int64_t up = suffixes->up_start[i];
        for (int32_t p = 0; p < prices; p++)
            completion->priced[i * prices + p] = completion->priced[suffixes->up_ideal[up] * prices + p] +
                                                 each[suffixes->up_node[up] * prices + p];
    }
}

double least_completion(const struct completion *completion, int32_t ideal, int64_t devices,
                        double repeated) {
    const double batch = (double)completion->problem->batch, left = (double)devices;
    double best = 0;
    for (int32_t p = 0; p < completion->prices && completion->price[p] * left <= batch; p++) {
        const double used = completion->price[p] * left / batch;
        const double bound = completion->priced[(int64_t)ideal * completion->prices + p] * SAFE -
                             used * completion->longest + repeated * (1 - used);
        best = bound > best ? bound : best;
    }
    return best;
}
