#include "hybrid/chains/completion_table.h"

#include <float.h>

/* The least price, relative to the least time over all devices, and the quotient of prices. The best price of instances
 * with scarce memory is 3 to 6 times that, and greater if devices are scarce as well. */
#define FIRST_PRICE 0.0625
#define NEXT_PRICE 1.5

/* Effort of a choice of configurations per node, and one more, in comparisons of entries. */
#define CHOICE 8

/* Bits of s, if the table then has at most so many entries. */
#define MOST_BITS 6
#define MOST_ENTRIES (1 << 23)

/* The range of s: numbers below 2^(bits + 1) by themselves, greater ones by their first bits. */
static int32_t range_of(int32_t bits, int64_t s) {
    const int32_t top = 63 - __builtin_clzll((unsigned long long)s | 1);
    const int32_t shift = top > bits ? top - bits : 0;
    return (shift << bits) + (int32_t)(s >> shift);
}

/* The least s of a range. */
static int64_t range_start(int32_t bits, int32_t range) {
    const int32_t shift = (range >> bits) > 1 ? (range >> bits) - 1 : 0;
    return (int64_t)(range - (shift << bits)) << shift;
}

static double *entries(const struct completion_table *table, int32_t ideal, int32_t range) {
    return table->least + ((int64_t)ideal * table->ranges + range) * COMPLETION_PRICES;
}

void completion_table_init(struct completion_table *table, struct arena *arena, struct stage *stage,
                           struct chooser *chooser, const struct suffixes *suffixes, double most_repeated) {
    const struct shard_hybrid *problem = stage->problem;
    const int64_t ideals = suffixes->ideals.count;
    const int64_t most = problem->devices < problem->batch ? problem->devices : problem->batch;
    *table = (struct completion_table){.stage = stage,
                                       .chooser = chooser,
                                       .suffixes = suffixes,
                                       .most_repeated = most_repeated,
                                       .bits = MOST_BITS + 1,
                                       .filled = (int32_t)(ideals - 1),
                                       .safe = 1 - 4 * DBL_EPSILON * (double)problem->dag.nodes};
    do
        table->ranges = range_of(--table->bits, most) + 1;
    while (table->bits && table->ranges * COMPLETION_PRICES * ideals > MOST_ENTRIES);
    if (table->ranges * COMPLETION_PRICES * ideals > MOST_ENTRIES)
        table->ranges = 0;
    const int64_t row = table->ranges * COMPLETION_PRICES;
    ARENA_ARRAYS(arena, COMPLETION_PRICES, table->price);
    ARENA_ARRAYS(arena, row * ideals, table->least);
    if (arena->failed)
        return;
    table->price[0] = FIRST_PRICE * (double)suffixes->time[0] / (double)problem->devices;
    for (int32_t p = 1; p < COMPLETION_PRICES; p++)
        table->price[p] = table->price[p - 1] * NEXT_PRICE;
    for (int64_t i = row * (ideals - 1); i < row * ideals; i++)
        table->least[i] = 0;
}

/* Least time of the stage with y microbatches in flight, negative if there is none. `same` is the most with which it
 * takes that time as well. */
static double stage_time(struct completion_table *table, int32_t t, int32_t d, int64_t y, int64_t *same) {
    const struct stage *stage = table->stage;
    const struct costs *costs = stage->costs;
    const int64_t replicas = stage->problem->replicas[d];
    table->effort += CHOICE * (1 + stage->size);
    table->chooser->limit_synchronised = costs->limit;
    const int128 time = choose(table->chooser, t, d, y, stage_limit(stage, replicas), false);
    if (time < 0 || (double)time * (double)(stage->problem->batch / replicas - 1) > table->most_repeated)
        return -1;
    int128 stashed = 0, left = costs->room;
    for (int32_t p = 0; p < stage->size; p++) {
        const int64_t c = table->chooser->chosen[p];
        stashed += costs->stashed[c];
        left -= costs->kept[c * costs->counts + d];
    }
    *same = stashed > left / INT32_MAX ? (int64_t)(left / stashed) : INT32_MAX;
    return (double)time;
}

/* Lower the entries of the base, the ideal being filled, by the stage with a pair of degrees. */
static void lower(struct completion_table *table, int32_t target, int32_t t, int32_t d) {
    const struct shard_hybrid *problem = table->stage->problem;
    const int64_t replicas = problem->replicas[d], devices = replicas * problem->degree[t];
    double time = 0, paid[COMPLETION_PRICES];
    int64_t same = 0; /* microbatches in flight */
    for (int32_t range = 0; range < table->ranges; range++) {
        const int64_t s = range_start(table->bits, range);
        if (s + devices > problem->devices || s + replicas > problem->batch)
            return;
        if (in_flight(s, replicas) > same) {
            time = stage_time(table, t, d, in_flight(s, replicas), &same);
            if (time < 0)
                return;
            for (int32_t p = 0; p < COMPLETION_PRICES; p++)
                paid[p] = time + table->price[p] * (double)devices;
        }
        double *restrict least = entries(table, table->filled, range);
        const double *restrict rest = entries(table, target, range_of(table->bits, s + replicas));
        for (int32_t p = 0; p < COMPLETION_PRICES; p++)
            least[p] = paid[p] + rest[p] < least[p] ? paid[p] + rest[p] : least[p];
        table->effort++;
    }
}

static bool lower_with_stage(void *context, int32_t target) {
    struct completion_table *table = context;
    const struct stage *stage = table->stage;
    for (int32_t t = 0; t < stage->problem->degrees; t++)
        for (int32_t d = 0; d < stage->costs->counts && stage_grown(stage, t)->alive; d++) {
            const int64_t replicas = stage->problem->replicas[d];
            if (replicas * stage->problem->degree[t] > stage->problem->devices)
                break;
            const double time = (double)stage_sums(stage, t, d)->time;
            if (time * (double)(stage->problem->batch / replicas - 1) <= table->most_repeated)
                lower(table, target, t, d);
        }
    return !table->chooser->failed;
}

bool completion_table_fill(struct completion_table *table, int64_t effort, const struct walk *search) {
    struct walk walk = *search;
    walk.visit = lower_with_stage;
    walk.context = table;
    table->stage->devices = table->stage->problem->devices;
    table->stage->least_after = 0;
    table->stage->limit = table->stage->costs->limit;
    while (table->ranges && table->filled && table->effort < effort && !walk.over) {
        table->filled--;
        for (double *entry = entries(table, table->filled, 0); entry < entries(table, table->filled + 1, 0);
             entry++)
            *entry = INFINITY;
        mark_after(walk.suffixes, walk.stage, table->filled);
        walk_from(&walk, table->filled, false);
    }
    return !walk.stopped;
}

double tabled_completion(const struct completion_table *table, int32_t ideal, int64_t s, int64_t devices) {
    double best = 0;
    if (ideal < table->filled)
        return best;
    const double *least = entries(table, ideal, range_of(table->bits, s));
    for (int32_t p = 0; p < COMPLETION_PRICES; p++) {
        const double bound = least[p] * table->safe - table->price[p] * (double)devices;
        best = bound > best ? bound : best;
    }
    return best;
}
