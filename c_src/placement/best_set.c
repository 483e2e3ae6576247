/* Labels move forwards through the diagram, layer by layer. A Lagrangian relaxation of the limit bounds what later
 * items can add to a label: at a price of load, the best path from each state to the end. */
#include "placement/best_set.h"

#include "common/arena.h"
#include "common/stop.h"

/* Prices of load are multiples of 2^-PRICE_BITS. */
#define PRICE_BITS 20
/* Prices that bound labels: the best for the whole diagram, times these. */
static const double PRICES[] = {1.0, 0.9, 1.1, 0.75, 1.3, 0.5, 2.0, 0.0};
enum { PRICE_COUNT = sizeof PRICES / sizeof *PRICES };
/* The highest price: times a load it is at most 2^59. */
#define HIGHEST_PRICE 0x1p19
/* A first width of thinning, as a share of the limit: 2^-THIN_BITS. */
#define THIN_BITS 18

struct label {
    int64_t load, profit;
    uint32_t origin; /* 2 * index in its layer of the label before it, + 1 if the item is in the set */
};

struct layer {
    struct label *label;
    int64_t count, room;
    int64_t *start; /* states of the layer + 1 elements: labels of each, by ascending load and profit */
};

struct label_search {
    struct arena arena;
    const struct shard_set_diagram *diagram;
    const int64_t *profit;
    int64_t limit, floor, most;
    bool relaxed;
    int64_t price[PRICE_COUNT];
    int64_t *value[PRICE_COUNT]; /* states elements: the best of scaled profit less priced load to the end */
    struct layer now, later;
    struct layer merge[2]; /* of one state: so far, and with the labels of one more arc */
    uint32_t *origin;      /* of all labels so far, layer by layer */
    int64_t *origin_start; /* items + 2 elements: the first of each layer */
    int64_t origin_room;
};

/* Find the best path to the end from every state at a price; return the value for the first state. */
static int64_t price_states(const struct label_search *d, int64_t price, int64_t *value) {
    const struct shard_set_diagram *g = d->diagram;
    value[g->layer[g->items]] = 0;
    for (int32_t i = g->items - 1; i >= 0; i--) {
        const bool allowed = g->work[i] >= 0;
        const int64_t gain = allowed ? d->profit[i] * ((int64_t)1 << PRICE_BITS) - price * g->work[i] : 0;
        for (int64_t s = g->layer[i]; s < g->layer[i + 1]; s++) {
            const int64_t without = value[g->next[2 * s]] - price * g->pay[2 * s];
            const int64_t with = value[g->next[2 * s + 1]] - price * g->pay[2 * s + 1] + gain;
            value[s] = allowed && with > without ? with : without;
        }
    }
    return value[0];
}

/* The price with the least bound, to within a step: the bound is convex, its slope the limit less the load. */
static int64_t best_price(const struct label_search *d, int64_t highest) {
    int64_t low = 0, high = highest;
    int64_t *value = d->value[0];
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        const int64_t here = price_states(d, middle, value) + middle * d->limit;
        const int64_t there = price_states(d, middle + 1, value) + (middle + 1) * d->limit;
        if (there < here)
            low = middle + 1;
        else
            high = middle;
    }
    return high;
}

static void set_prices(struct label_search *d) {
    const struct shard_set_diagram *g = d->diagram;
    int64_t gains = 1;
    for (int32_t i = 0; i < g->items; i++)
        gains += d->profit[i] > 0 ? d->profit[i] : 0;
    const double all = ldexp((double)gains, PRICE_BITS) / (double)(d->limit > 0 ? d->limit : 1);
    const int64_t best = best_price(d, (int64_t)fmin(ceil(4.0 * all), HIGHEST_PRICE));
    for (int32_t j = 0; j < PRICE_COUNT; j++) {
        d->price[j] = (int64_t)fmin(PRICES[j] * (double)best, HIGHEST_PRICE);
        price_states(d, d->price[j], d->value[j]);
    }
}

/* True if no path from the state takes the label above the floor. */
static bool cannot_beat_floor(const struct label_search *d, const struct label *label, int64_t state) {
    const int64_t needed = (d->floor + 1 - label->profit) * ((int64_t)1 << PRICE_BITS);
    for (int32_t j = 0; j < PRICE_COUNT; j++)
        if (d->value[j][state] + d->price[j] * (d->limit - label->load) < needed)
            return true;
    return false;
}

static bool reserve(struct label **label, int64_t *room, int64_t needed) {
    if (needed <= *room)
        return true;
    const int64_t grown = needed + needed / 2 + 64;
    struct label *moved = realloc(*label, (size_t)grown * sizeof *moved);
    if (!moved)
        return false;
    *label = moved;
    *room = grown;
    return true;
}

/* Append a label unless the one before it is as good; labels come by ascending load, then descending profit. */
static inline void append(struct layer *to, const struct label *label) {
    if (to->count == 0 || label->profit > to->label[to->count - 1].profit)
        to->label[to->count++] = *label;
}

/* Merge the labels that come along one arc into those of the state so far. */
static bool merge_arc(struct label_search *d, int32_t i, int32_t arc) {
    const struct shard_set_diagram *g = d->diagram;
    const int64_t source = arc / 2 - g->layer[i];
    const bool in = arc % 2 != 0;
    if (in && g->work[i] < 0)
        return true;
    const int64_t load = g->pay[arc] + (in ? g->work[i] : 0), profit = in ? d->profit[i] : 0;
    const struct layer *so_far = d->merge;
    struct layer *merged = d->merge + 1;
    int64_t a = 0, b = d->now.start[source];
    const int64_t end = d->now.start[source + 1];
    if (!reserve(&merged->label, &merged->room, so_far->count + end - b))
        return false;
    merged->count = 0;
    while (a < so_far->count || b < end) {
        struct label there = {0};
        if (b < end) {
            there = d->now.label[b];
            there.load += load;
            there.profit += profit;
            there.origin = (uint32_t)(2 * b + in);
            if (there.load > d->limit) {
                b = end;
                continue;
            }
        }
        if (b >= end || (a < so_far->count &&
                         (so_far->label[a].load < there.load || (so_far->label[a].load == there.load &&
                                                                 so_far->label[a].profit >= there.profit)))) {
            append(merged, so_far->label + a++);
        } else {
            append(merged, &there);
            b++;
        }
    }
    const struct layer other = d->merge[0];
    d->merge[0] = d->merge[1];
    d->merge[1] = other;
    return true;
}

/* Merge close labels of a state until the layer has at most the allowed number. */
static void merge_close_labels(struct label_search *d, int64_t states) {
    struct layer *layer = &d->later;
    for (int64_t width = (d->limit >> THIN_BITS) + 1; layer->count > d->most; width *= 2) {
        int64_t kept = 0, at = 0;
        for (int64_t s = 0; s < states; s++) {
            const int64_t end = layer->start[s + 1];
            layer->start[s] = kept;
            while (at < end) {
                int64_t last = at;
                while (last + 1 < end && layer->label[last + 1].load - layer->label[at].load <= width)
                    last++;
                struct label one = layer->label[last];
                if (d->relaxed)
                    one.load = layer->label[at].load;
                layer->label[kept++] = one;
                at = last + 1;
            }
        }
        layer->start[states] = kept;
        layer->count = kept;
        if (width > d->limit)
            break;
    }
}

static bool keep_origins(struct label_search *d, int32_t layer) {
    const int64_t first = d->origin_start[layer], needed = first + d->later.count;
    if (needed > d->origin_room) {
        const int64_t grown = needed + needed / 2 + 1024;
        uint32_t *moved = realloc(d->origin, (size_t)grown * sizeof *moved);
        if (!moved)
            return false;
        d->origin = moved;
        d->origin_room = grown;
    }
    for (int64_t at = 0; at < d->later.count; at++)
        d->origin[first + at] = d->later.label[at].origin;
    d->origin_start[layer + 1] = needed;
    return true;
}

/* Make the labels of layer i + 1 from those of layer i. */
static bool advance(struct label_search *d, int32_t i) {
    const struct shard_set_diagram *g = d->diagram;
    const int64_t first = g->layer[i + 1], states = g->layer[i + 2] - first;
    struct layer *later = &d->later;
    later->count = 0;
    for (int64_t s = 0; s < states; s++) {
        later->start[s] = later->count;
        d->merge[0].count = 0;
        for (int64_t at = g->start[first + s]; at < g->start[first + s + 1]; at++)
            if (!merge_arc(d, i, g->of[at]))
                return false;
        if (!reserve(&later->label, &later->room, later->count + d->merge[0].count))
            return false;
        for (int64_t at = 0; at < d->merge[0].count; at++)
            if (!cannot_beat_floor(d, d->merge[0].label + at, first + s))
                later->label[later->count++] = d->merge[0].label[at];
    }
    later->start[states] = later->count;
    if (later->count > d->most)
        merge_close_labels(d, states);
    return keep_origins(d, i + 1);
}

/* Follow the origins of a label of the last layer. */
static void trace(const struct label_search *d, uint32_t origin, int8_t *chosen) {
    for (int32_t i = d->diagram->items - 1; i >= 0; i--) {
        chosen[i] = (int8_t)(origin % 2);
        origin = d->origin[d->origin_start[i] + origin / 2];
    }
}

/* False without memory. */
static bool search(struct label_search *d, const int32_t *stop, int8_t *chosen, int64_t *bound) {
    *bound = -1;
    d->later.count = 1; /* the empty set */
    if (!reserve(&d->later.label, &d->later.room, 1))
        return false;
    d->later.label[0] = (struct label){0, 0, 0};
    d->later.start[0] = 0;
    d->later.start[1] = 1;
    if (!keep_origins(d, 0))
        return false;
    for (int32_t i = 0; i < d->diagram->items; i++) {
        const struct layer other = d->now;
        d->now = d->later;
        d->later = other;
        if (is_stopped(stop))
            return true;
        if (!advance(d, i))
            return false;
    }
    *bound = d->floor;
    if (d->later.count > 0 && d->later.label[d->later.count - 1].profit > d->floor) {
        const struct label *best = d->later.label + d->later.count - 1;
        *bound = best->profit;
        trace(d, best->origin, chosen);
    }
    return true;
}

int shard_best_set(const struct shard_set_diagram *diagram, const int64_t *profit, int64_t limit,
                   int64_t floor, int64_t most, int32_t relaxed, const int32_t *stop, int8_t *chosen,
                   int64_t *bound) {
    struct label_search d = {
        .diagram = diagram, .profit = profit, .limit = limit, .floor = floor, .most = most};
    const int64_t *layer = diagram->layer, states = layer[diagram->items + 1];
    int64_t widest = 1;
    d.relaxed = relaxed != 0;
    for (int32_t i = 0; i <= diagram->items; i++)
        widest = layer[i + 1] - layer[i] > widest ? layer[i + 1] - layer[i] : widest;
    for (int32_t j = 0; j < PRICE_COUNT; j++)
        ARENA_ARRAYS(&d.arena, states, d.value[j]);
    ARENA_ARRAYS(&d.arena, widest + 1, d.now.start, d.later.start);
    ARENA_ZEROS(&d.arena, diagram->items + 2, d.origin_start);
    int status = arena_status(&d.arena);
    memset(chosen, 0, (size_t)diagram->items);
    if (status == SHARD_OK) {
        set_prices(&d);
        status = search(&d, stop, chosen, bound) ? SHARD_OK : SHARD_NO_MEMORY;
    }
    free(d.now.label);
    free(d.later.label);
    free(d.merge[0].label);
    free(d.merge[1].label);
    free(d.origin);
    arena_free(&d.arena);
    return status;
}
