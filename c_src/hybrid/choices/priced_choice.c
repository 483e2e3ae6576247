#include "hybrid/choices/priced_choice.h"

/* Passes per call; most calls need one or two. */
#define PASSES 6

/* Relative error of sums of at most 2^20 numbers in double precision, generously. */
#define LOOSE 1e-9

void prices_init(struct prices *prices, struct arena *arena, const struct costs *costs) {
    const int64_t count = costs->configurations;
    ARENA_ZEROS(arena, costs->problem->degrees, prices->price);
    ARENA_ARRAYS(arena, count, prices->stashed);
    ARENA_ARRAYS(arena, count * costs->counts, prices->kept);
    for (int64_t c = 0; !arena->failed && c < count; c++)
        prices->stashed[c] = (double)costs->stashed[c];
    for (int64_t i = 0; !arena->failed && i < count * costs->counts; i++)
        prices->kept[i] = (double)costs->kept[i];
}

/* A question about a stage with y microbatches in flight. */
struct stage_question {
    int32_t t, d;
    double y;
};

/* The sums of a choice. */
struct priced {
    double time, memory;
};

/* A number that is not negative, faster than the conversion of the compiler's library. */
static inline double to_double(int128 x) {
    return (double)(int64_t)(x >> 64) * 0x1p64 + (double)(uint64_t)x;
}

/* The choice of the least time + price * memory of each node. */
static struct priced choose_priced(const struct prices *prices, const struct stage *stage,
                                   struct stage_question q, double price) {
    const struct costs *costs = stage->costs;
    const int64_t counts = costs->counts, degrees = stage->problem->degrees;
    const int64_t *start = costs->menu_start + q.t;
    const int128 *extra = costs->extra + q.d;
    const double *kept = prices->kept + q.d, *stashed = prices->stashed;
    double time = 0, memory = 0;
    for (int32_t p = 0; p < stage->size; p++) {
        const int64_t *menu = start + stage->node[p] * degrees;
        double least = INFINITY, least_time = 0, least_memory = 0;
        for (int64_t i = menu[0]; i < menu[1]; i++) {
            const int64_t c = costs->menu[i];
            const double one = to_double(stage->now[c] + extra[c * counts]);
            const double bytes = stashed[c] * q.y + kept[c * counts], value = one + price * bytes;
            const bool less = value < least;
            least = less ? value : least;
            least_time = less ? one : least_time;
            least_memory = less ? bytes : least_memory;
        }
        time += least_time;
        memory += least_memory;
    }
    return (struct priced){time, memory};
}

/* A price at which both choices are worth the same, between theirs. */
static double middle(struct priced less, struct priced more) {
    return (more.time - less.time) / (less.memory - more.memory);
}

enum verdict decide_by_price(struct prices *prices, const struct stage *stage, int32_t t, int32_t d,
                             int64_t y, int128 limit) {
    const struct stage_question q = {t, d, (double)y};
    const double room = (double)stage->costs->room, most = (double)limit;
    struct priced over, under;
    bool some_over = false, some_under = false;
    double price = prices->price[t];
    for (int pass = 0; pass < PASSES; pass++) {
        const struct priced sum = choose_priced(prices, stage, q, price);
        const double value = sum.time + price * sum.memory, paid = price * room;
        const bool refuted = value - paid - LOOSE * (value + paid) > most;
        if (refuted || (sum.memory <= room * (1 - LOOSE) && sum.time <= most * (1 - LOOSE))) {
            prices->price[t] = price;
            return refuted ? DOES_NOT_FIT : FITS;
        }
        if (sum.memory > room) {
            over = sum;
            some_over = true;
        } else {
            under = sum;
            some_under = true;
        }
        if (some_over && some_under) {
            const double next = middle(over, under);
            if (!(next > 0) || !(fabs(next - price) > LOOSE * price))
                return UNDECIDED;
            price = next;
        } else if (some_over) {
            price = price > 0 ? price * 4 : most / (room + 1);
        } else {
            price = 0;
        }
    }
    return UNDECIDED;
}
