#include "hybrid/choices/choice.h"

#include "common/stop.h"

/* A node's options: option[first] .. option[end - 1], by ascending time, each saving more than the last. The first one
 * is its fastest configuration. */
struct item {
    int32_t position; /* of the node in the stage */
    int64_t first, end;
    double price;  /* least time - multiplier * bytes saved */
    double second; /* that of the next best option, less the least; infinite if there is none */
};

/* A step along the convex hull of a node's options. */
struct increment {
    double ratio; /* time per byte */
    int32_t item;
    int64_t from, to; /* options */
};

/* Relative error of sums of at most 2^20 numbers in double precision, generously. */
#define LOOSE 1e-9

/* Partial choices of a question, beyond which it is left open: about 170 MB. */
#define MOST_PARTIALS ((int64_t)1 << 21)

void chooser_init(struct chooser *chooser, const struct stage *stage, const int32_t *stop) {
    const size_t n = (size_t)stage->problem->dag.nodes;
    *chooser = (struct chooser){
        .stage = stage, .stop = stop, .room = stage->costs->configurations + 1, .partial_room = 1024};
    chooser->option = malloc((size_t)chooser->room * sizeof *chooser->option);
    chooser->increment = malloc((size_t)chooser->room * sizeof *chooser->increment);
    chooser->item = malloc((n + 1) * sizeof *chooser->item);
    chooser->partial = malloc((size_t)chooser->partial_room * sizeof *chooser->partial);
    chooser->rest_price = malloc((n + 1) * sizeof *chooser->rest_price);
    chooser->rest_saved = malloc((n + 1) * sizeof *chooser->rest_saved);
    chooser->chosen = malloc((n + 1) * sizeof *chooser->chosen);
    chooser->best = malloc((n + 1) * sizeof *chooser->best);
    chooser->head = malloc((size_t)chooser->room * sizeof *chooser->head);
    chooser->failed = !chooser->option || !chooser->increment || !chooser->item || !chooser->partial ||
                      !chooser->rest_price || !chooser->rest_saved || !chooser->chosen || !chooser->best ||
                      !chooser->head;
}

void chooser_free(struct chooser *chooser) {
    free(chooser->option);
    free(chooser->increment);
    free(chooser->item);
    free(chooser->partial);
    free(chooser->rest_price);
    free(chooser->rest_saved);
    free(chooser->chosen);
    free(chooser->best);
    free(chooser->head);
}

/* What is asked, and sums of the fastest choice. */
struct question {
    int32_t t, d;
    int64_t y;
    int128 slack;        /* most time beyond the fastest */
    int128 excess;       /* bytes that must be saved */
    int128 synchronised; /* most beyond the least */
    bool bounded;        /* that matters */
    bool any;
};

static int128 time_of(const struct chooser *chooser, const struct question *q, int64_t c) {
    const struct stage *stage = chooser->stage;
    return stage->now[c] + stage->costs->extra[c * stage->costs->counts + q->d];
}

static int128 memory_of(const struct chooser *chooser, const struct question *q, int64_t c) {
    const struct costs *costs = chooser->stage->costs;
    return costs->stashed[c] * q->y + costs->kept[c * costs->counts + q->d];
}

static int128 synchronised_of(const struct chooser *chooser, const struct question *q, int64_t c) {
    const struct costs *costs = chooser->stage->costs;
    return costs->synchronised ? costs->synchronised[c * costs->counts + q->d] : 0;
}

static bool cheaper(const struct option *a, const struct option *b) {
    if (a->time != b->time)
        return a->time < b->time;
    return a->saved != b->saved ? a->saved > b->saved : a->synchronised < b->synchronised;
}

/* List the undominated options of a node, for now with their memory, negated, as `saved`. */
static void list_options(struct chooser *chooser, const struct question *q, int32_t position,
                         struct item *item) {
    const struct menu menu = menu_of(chooser->stage->costs, chooser->stage->node[position], q->t);
    struct option *all = chooser->option + chooser->options;
    int64_t count = 0, kept = 0;
    for (int64_t i = 0; i < menu.count; i++) {
        const int32_t c = menu.configuration[i];
        const struct option one = {time_of(chooser, q, c), -memory_of(chooser, q, c),
                                   synchronised_of(chooser, q, c), c};
        int64_t at = count++;
        for (; at > 0 && cheaper(&one, all + at - 1); at--)
            all[at] = all[at - 1];
        all[at] = one;
    }
    for (int64_t i = 0; i < count; i++) {
        bool dominated = false;
        for (int64_t k = kept - 1; k >= 0 && !dominated; k--)
            dominated =
                all[k].saved >= all[i].saved && (!q->bounded || all[k].synchronised <= all[i].synchronised);
        if (!dominated)
            all[kept++] = all[i];
    }
    *item = (struct item){position, chooser->options, chooser->options + kept, 0, INFINITY};
    chooser->options += kept;
}

/* List all items and count from the fastest choice; its time, or -1 if a limit is below the sum of least values. */
static int128 list_items(struct chooser *chooser, struct question *q, int128 limit) {
    int128 time = 0, memory = 0, least_synchronised = 0;
    chooser->options = 0;
    chooser->items = chooser->stage->size;
    for (int32_t p = 0; p < chooser->items; p++) {
        struct item *item = chooser->item + p;
        list_options(chooser, q, p, item);
        struct option *option = chooser->option;
        const struct option fastest = option[item->first];
        int128 least = fastest.synchronised;
        for (int64_t i = item->first; i < item->end; i++)
            least = option[i].synchronised < least ? option[i].synchronised : least;
        for (int64_t i = item->first; i < item->end; i++) {
            option[i].time -= fastest.time;
            option[i].saved -= fastest.saved;
            option[i].synchronised = q->bounded ? option[i].synchronised - least : 0;
        }
        time += fastest.time;
        memory -= fastest.saved;
        least_synchronised += least;
        chooser->chosen[p] = fastest.configuration;
    }
    q->slack = limit - time;
    q->excess = memory - chooser->stage->costs->room;
    q->synchronised = chooser->limit_synchronised - least_synchronised;
    return q->slack < 0 || (q->bounded && q->synchronised < 0) ? -1 : time;
}

/* Drop options that cost more than the slack; false if the others do not save enough. */
static bool drop_expensive(struct chooser *chooser, const struct question *q) {
    int128 saved = 0;
    for (int32_t i = 0; i < chooser->items; i++) {
        struct item *item = chooser->item + i;
        while (chooser->option[item->end - 1].time > q->slack)
            item->end--;
        int128 most = 0;
        for (int64_t o = item->first; o < item->end; o++)
            most = chooser->option[o].saved > most ? chooser->option[o].saved : most;
        saved += most;
    }
    return saved >= q->excess;
}

/* List the steps along an item's hull, of which each is steeper than the one before; the count of all steps. */
static int64_t list_increments(struct chooser *chooser, int32_t index, int64_t count) {
    const struct item *item = chooser->item + index;
    const struct option *option = chooser->option;
    struct increment *hull = chooser->increment + count;
    int64_t steps = 0;
    for (int64_t o = item->first + 1; o < item->end; o++) {
        int64_t from = steps ? hull[steps - 1].to : item->first;
        if (option[o].saved <= option[from].saved)
            continue;
        double ratio =
            (double)(option[o].time - option[from].time) / (double)(option[o].saved - option[from].saved);
        while (steps && ratio <= hull[steps - 1].ratio) {
            from = hull[--steps].from;
            ratio =
                (double)(option[o].time - option[from].time) / (double)(option[o].saved - option[from].saved);
        }
        hull[steps++] = (struct increment){ratio, index, from, o};
    }
    return count + steps;
}

static int by_ratio(const void *a, const void *b) {
    const struct increment *x = a, *y = b;
    if (x->ratio < y->ratio || x->ratio > y->ratio)
        return x->ratio < y->ratio ? -1 : 1;
    if (x->item != y->item)
        return x->item < y->item ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

static int less_decided(const void *a, const void *b) {
    const struct item *x = a, *y = b;
    const double gain_x = x->second - x->price, gain_y = y->second - y->price;
    if (gain_x < gain_y || gain_x > gain_y)
        return gain_x > gain_y ? -1 : 1;
    return x->position < y->position ? -1 : x->position > y->position;
}

/* The relaxation: its value, and its multiplier. `rounded` is the time if the last step is taken whole, -1 if that
 * exceeds a limit; `chosen` then has the choice. */
static double relax(struct chooser *chooser, const struct question *q, double *multiplier, int128 *rounded) {
    int64_t count = 0, at = 0;
    for (int32_t i = 0; i < chooser->items; i++)
        count = list_increments(chooser, i, count);
    qsort(chooser->increment, (size_t)count, sizeof *chooser->increment, by_ratio);
    const struct option *option = chooser->option;
    int128 saved = 0, time = 0, synchronised = 0;
    for (int32_t i = 0; i < chooser->items; i++)
        synchronised += option[chooser->item[i].first].synchronised;
    double value = 0;
    *multiplier = 0;
    for (; at < count && saved < q->excess; at++) {
        const struct increment *step = chooser->increment + at;
        const struct option *from = option + step->from, *to = option + step->to;
        *multiplier = step->ratio;
        value = (double)time + step->ratio * (double)(q->excess - saved);
        saved += to->saved - from->saved;
        time += to->time - from->time;
        synchronised += to->synchronised - from->synchronised;
        chooser->chosen[chooser->item[step->item].position] = to->configuration;
    }
    const bool good =
        saved >= q->excess && time <= q->slack && (!q->bounded || synchronised <= q->synchronised);
    *rounded = good ? time : -1;
    return value;
}

/* Price all items' options, and put those whose best option is clearest first. */
static void price_items(struct chooser *chooser, double multiplier) {
    for (int32_t i = 0; i < chooser->items; i++) {
        struct item *item = chooser->item + i;
        item->price = item->second = INFINITY;
        for (int64_t o = item->first; o < item->end; o++) {
            const double price =
                (double)chooser->option[o].time - multiplier * (double)chooser->option[o].saved;
            if (price < item->price) {
                item->second = item->price;
                item->price = price;
            } else if (price < item->second) {
                item->second = price;
            }
        }
    }
    qsort(chooser->item, (size_t)chooser->items, sizeof *chooser->item, less_decided);
    chooser->rest_price[chooser->items] = 0;
    chooser->rest_saved[chooser->items] = 0;
    for (int32_t i = chooser->items - 1; i >= 0; i--) {
        const struct item *item = chooser->item + i;
        int128 most = 0;
        for (int64_t o = item->first; o < item->end; o++)
            most = chooser->option[o].saved > most ? chooser->option[o].saved : most;
        chooser->rest_price[i] = chooser->rest_price[i + 1] + item->price;
        chooser->rest_saved[i] = chooser->rest_saved[i + 1] + most;
    }
}

/* Make room for a partial choice; false, and the question stays open, if there are too many. */
static bool reserve_partial(struct chooser *chooser) {
    if (chooser->partials < chooser->partial_room)
        return true;
    if (chooser->partials == MOST_PARTIALS) {
        chooser->undecided = true;
        return false;
    }
    const int64_t grown = chooser->partial_room * 2;
    struct partial *moved = realloc(chooser->partial, (size_t)grown * sizeof *moved);
    if (!moved) {
        chooser->failed = true;
        return false;
    }
    chooser->partial = moved;
    chooser->partial_room = grown;
    return true;
}

/* Whether a kept partial choice from `first` on is no worse than this one in everything; they ascend by time. */
static bool is_dominated(const struct chooser *chooser, const struct question *q, int64_t first,
                         struct partial one) {
    for (int64_t i = chooser->partials - 1; i >= first; i--) {
        const struct partial *kept = chooser->partial + i;
        if (kept->saved >= one.saved && kept->synchronised <= one.synchronised)
            return true;
        if (!q->bounded)
            return false;
    }
    return false;
}

/* Note the configurations of a partial choice of the first `count` items; the others keep their fastest. */
static void trace(struct chooser *chooser, int64_t at, int32_t count) {
    for (int32_t i = count; i < chooser->items; i++)
        chooser->chosen[chooser->item[i].position] = chooser->option[chooser->item[i].first].configuration;
    for (int32_t i = count - 1; i >= 0; i--) {
        chooser->chosen[chooser->item[i].position] =
            chooser->option[chooser->partial[at].option].configuration;
        at = chooser->partial[at].from;
    }
}

/* Where the extension of a layer of partial choices stands. */
struct layer {
    int64_t begin, end;
    double multiplier, tolerance;
    int128 best; /* least time found; -1: none */
};

/* The partial choice of least time that an option of an item adds next; false if there is none. */
static bool next_partial(struct chooser *chooser, const struct item *item, int64_t end,
                         struct partial *next) {
    int64_t from = -1;
    for (int64_t o = item->first; o < item->end; o++) {
        const int64_t at = chooser->head[o - item->first];
        if (at == end)
            continue;
        const struct partial *base = chooser->partial + at;
        const struct option *option = chooser->option + o;
        const int128 time = base->time + option->time, saved = base->saved + option->saved;
        if (from >= 0 && (time > next->time || (time == next->time && saved <= next->saved)))
            continue;
        from = at;
        *next = (struct partial){time, saved, base->synchronised + option->synchronised, at, (int32_t)o};
    }
    if (from >= 0)
        chooser->head[next->option - item->first]++;
    return from >= 0;
}

/* Extend a layer by an item; the new layer follows it. Complete choices are noted, and lower the slack. False if there
 * are too many. */
static bool extend(struct chooser *chooser, struct question *q, int32_t i, struct layer *layer) {
    const struct item *item = chooser->item + i;
    const int64_t first = chooser->partials;
    for (int64_t o = item->first; o < item->end; o++)
        chooser->head[o - item->first] = layer->begin;
    struct partial next = {0};
    while (next_partial(chooser, item, layer->end, &next)) {
        const int128 missing = q->excess - next.saved;
        if (next.time > q->slack)
            break;
        if (missing > chooser->rest_saved[i + 1] || (q->bounded && next.synchronised > q->synchronised) ||
            (double)next.time + layer->multiplier * (double)missing + chooser->rest_price[i + 1] >
                (double)q->slack + layer->tolerance ||
            is_dominated(chooser, q, first, next))
            continue;
        if (!reserve_partial(chooser))
            return false;
        chooser->partial[chooser->partials++] = next;
        if (missing <= 0 && (!q->bounded || i + 1 == chooser->items)) {
            trace(chooser, chooser->partials - 1, i + 1);
            layer->best = next.time;
            q->slack = q->any ? -1 : next.time - 1;
            break; /* all that follow take longer */
        }
    }
    layer->begin = first;
    layer->end = chooser->partials;
    return true;
}

/* The least time of at most the slack beyond the fastest choice, by dynamic program; -1 if there is none. */
static int128 decide(struct chooser *chooser, struct question *q, double multiplier) {
    price_items(chooser, multiplier);
    const double scale = (double)q->slack + multiplier * fabs((double)q->excess);
    struct layer layer = {0, 1, multiplier, LOOSE * scale, -1};
    chooser->partials = 1;
    chooser->partial[0] = (struct partial){.from = -1, .option = -1};
    for (int32_t i = 0; i < chooser->items && layer.begin < layer.end && q->slack >= 0; i++)
        if (!extend(chooser, q, i, &layer))
            break;
    return chooser->failed ? -1 : layer.best;
}

int128 choose(struct chooser *chooser, int32_t t, int32_t d, int64_t y, int128 limit, bool any) {
    if (is_stopped(chooser->stop)) {
        chooser->undecided = true;
        return -1;
    }
    const int64_t n = chooser->stage->size;
    struct question q = {.t = t, .d = d, .y = y, .any = any, .bounded = chooser->stage->costs->synchronised};
    for (int64_t i = 0; i < n && q.bounded; i++)
        if (!chooser->stage->costs
                 ->alike[(int64_t)chooser->stage->node[i] * chooser->stage->problem->degrees + t])
            break;
        else if (i == n - 1)
            q.bounded = false;
    const int128 fastest = list_items(chooser, &q, limit);
    if (fastest < 0 || !drop_expensive(chooser, &q))
        return -1;
    double multiplier = 0;
    int128 rounded;
    const double value = relax(chooser, &q, &multiplier, &rounded);
    if (value > (double)q.slack * (1 + LOOSE))
        return -1;
    if (rounded == 0 || (any && rounded > 0))
        return fastest + rounded;
    if (rounded > 0) {
        memcpy(chooser->best, chooser->chosen, (size_t)n * sizeof *chooser->best);
        q.slack = rounded - 1;
    }
    const int128 least = decide(chooser, &q, multiplier);
    if (chooser->failed)
        return -1;
    if (least < 0 && rounded > 0)
        memcpy(chooser->chosen, chooser->best, (size_t)n * sizeof *chooser->chosen);
    return least >= 0 ? fastest + least : rounded > 0 ? fastest + rounded : -1;
}
