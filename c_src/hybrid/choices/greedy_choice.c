#include "hybrid/choices/greedy_choice.h"

/* The change of a node's configuration. */
struct change {
    double ratio; /* time per byte saved */
    int32_t rank; /* of the node */
    int32_t position, configuration;
};

struct greedy {
    struct chooser *chooser;
    const struct stage *stage;
    int32_t t, d;
    int64_t y;
    int128 missing;        /* bytes still to save */
    struct change *change; /* owned, count used */
    int64_t count;
};

static int128 time_of(const struct greedy *greedy, int64_t c) {
    return greedy->stage->now[c] + greedy->stage->costs->extra[c * greedy->stage->costs->counts + greedy->d];
}

static int128 memory_of(const struct greedy *greedy, int64_t c) {
    const struct costs *costs = greedy->stage->costs;
    return costs->stashed[c] * greedy->y + costs->kept[c * costs->counts + greedy->d];
}

static int by_ratio(const void *a, const void *b) {
    const struct change *x = a, *y = b;
    if (x->ratio < y->ratio || x->ratio > y->ratio)
        return x->ratio < y->ratio ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->configuration < y->configuration ? -1 : x->configuration > y->configuration;
}

/* Choose the fastest configurations, and count the bytes that are missing; false if those of least memory do not fit. */
static bool choose_fastest(struct greedy *greedy) {
    const struct costs *costs = greedy->stage->costs;
    int128 fastest = 0, least = 0;
    for (int32_t p = 0; p < greedy->stage->size; p++) {
        const struct menu menu = menu_of(costs, greedy->stage->node[p], greedy->t);
        int32_t best = menu.configuration[0];
        int128 memory = memory_of(greedy, best);
        for (int64_t i = 1; i < menu.count; i++) {
            const int32_t c = menu.configuration[i];
            if (time_of(greedy, c) < time_of(greedy, best))
                best = c;
            if (memory_of(greedy, c) < memory)
                memory = memory_of(greedy, c);
        }
        greedy->chooser->chosen[p] = best;
        fastest += memory_of(greedy, best);
        least += memory;
    }
    greedy->missing = fastest - costs->room;
    return least <= costs->room;
}

/* List the changes that save bytes, with the ratio to these or, if `truncated`, to those of them that are missing. The
 * result is the greatest number of configurations of a node. */
static int64_t list_changes(struct greedy *greedy, bool truncated) {
    const struct costs *costs = greedy->stage->costs;
    int64_t largest = 0;
    greedy->count = 0;
    for (int32_t p = 0; p < greedy->stage->size; p++) {
        const struct menu menu = menu_of(costs, greedy->stage->node[p], greedy->t);
        const int32_t from = greedy->chooser->chosen[p];
        const int32_t rank = costs->problem->rank[greedy->stage->node[p]];
        largest = menu.count > largest ? menu.count : largest;
        for (int64_t i = 0; i < menu.count; i++) {
            const int32_t c = menu.configuration[i];
            int128 saved = memory_of(greedy, from) - memory_of(greedy, c);
            if (saved <= 0)
                continue;
            if (truncated && saved > greedy->missing)
                saved = greedy->missing;
            const double ratio = (double)(time_of(greedy, c) - time_of(greedy, from)) / (double)saved;
            greedy->change[greedy->count++] = (struct change){ratio, rank, p, c};
        }
    }
    return largest;
}

static void apply(struct greedy *greedy, const struct change *change) {
    int32_t *chosen = greedy->chooser->chosen + change->position;
    greedy->missing -= memory_of(greedy, *chosen) - memory_of(greedy, change->configuration);
    *chosen = change->configuration;
}

static void save(struct greedy *greedy) {
    if (list_changes(greedy, false) <= 2) {
        qsort(greedy->change, (size_t)greedy->count, sizeof *greedy->change, by_ratio);
        for (int64_t i = 0; i < greedy->count && greedy->missing > 0; i++)
            apply(greedy, greedy->change + i);
        return;
    }
    while (greedy->missing > 0) {
        (void)list_changes(greedy, true);
        const struct change *best = greedy->change;
        for (int64_t i = 1; i < greedy->count; i++)
            if (by_ratio(greedy->change + i, best) < 0)
                best = greedy->change + i;
        apply(greedy, best);
    }
}

int128 choose_greedily(struct chooser *chooser, int32_t t, int32_t d, int64_t y, int128 limit) {
    struct greedy greedy = {.chooser = chooser, .stage = chooser->stage, .t = t, .d = d, .y = y};
    if (!choose_fastest(&greedy))
        return -1;
    greedy.change = malloc((size_t)chooser->stage->costs->configurations * sizeof *greedy.change);
    if (!greedy.change) {
        chooser->failed = true;
        return -1;
    }
    save(&greedy);
    free(greedy.change);
    int128 time = 0;
    for (int32_t p = 0; p < chooser->stage->size; p++)
        time += time_of(&greedy, chooser->chosen[p]);
    return time <= limit ? time : -1;
}
