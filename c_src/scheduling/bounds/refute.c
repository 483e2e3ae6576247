/* A node of the search has heads and tails by device. A device on which a vertex would make the schedule too long is
 * ruled out, which raises heads and tails of others. Then the unit with fewest devices left is tried on each. Once
 * each unit has its device, two vertices of one device run one after the other: if one order is too long, the other
 * holds; if neither is, both are tried. The time is refuted if every branch ends. */
#include "scheduling/bounds/refute.h"

#include "scheduling/bounds/head_bounds.h"
#include "scheduling/bounds/heads_tails.h"

/* A choice is ruled out if it exceeds the time by more than this share of it: far above the rounding of sums. */
static const double EXCESS = 1e-9;

/* Most pairs of vertices on a branch whose order is chosen: each takes 6 KiB of the stack, as does each unit whose
 * device is chosen. */
enum { MOST_CHOSEN = 128 };

/* A bit for each vertex. */
__extension__ typedef unsigned __int128 vertex_set;

static vertex_set only(size_t v) {
    return (vertex_set)1 << v;
}

static int size_of(vertex_set set) {
    return __builtin_popcountll((uint64_t)set) + __builtin_popcountll((uint64_t)(set >> 64));
}

/* Heads, tails and orders of vertices whose devices are known. */
struct sequence {
    double head[SHARD_MOST_REFUTED];
    double tail[SHARD_MOST_REFUTED];
    vertex_set before[SHARD_MOST_REFUTED]; /* vertices that end before each starts, transitively */
    vertex_set after[SHARD_MOST_REFUTED];
};

struct search {
    const struct shard_system *system;
    const struct shard_units *units;
    size_t n, k;
    double longest;
    int64_t nodes;  /* nodes that are left */
    double *start;  /* nodes * devices elements: heads at this node, then those at the nodes above */
    double *behind; /* likewise */
    struct heads_tails *ends;
    bool *changed[2]; /* nodes elements: heads and tails that have changed since they were raised */
    size_t device[SHARD_MOST_REFUTED];
    double time[SHARD_MOST_REFUTED];
};

/* True for a device that stands for itself alone; false for `k`, a device that is not known yet. */
static bool is_single(const struct search *search, size_t device) {
    return device < search->k && isinf(search->system->bandwidth[device * search->k + device]);
}

static double time_on(const struct search *search, size_t v, size_t device) {
    return search->system->complexity[v] / search->system->speed[device];
}

/* Rule a device out for all vertices of a unit. */
static void exclude(const struct search *search, int32_t unit, size_t device) {
    for (size_t v = 0; v < search->n; v++) {
        if (search->units->unit[v] != unit)
            continue;
        search->start[v * search->k + device] = search->behind[v * search->k + device] = INFINITY;
        search->changed[0][v] = search->changed[1][v] = true;
    }
}

/* Rule out the devices on which a vertex makes a schedule too long; true if there was one. */
static bool exclude_late(const struct search *search) {
    const double *start = search->start, *behind = search->behind;
    bool any = false;
    for (size_t v = 0; v < search->n; v++)
        for (size_t d = 0; d < search->k; d++) {
            const double head = start[v * search->k + d], tail = behind[v * search->k + d];
            if ((isinf(head) && isinf(tail)) || head + time_on(search, v, d) + tail <= search->longest)
                continue;
            exclude(search, search->units->unit[v], d);
            any = true;
        }
    return any;
}

/* Rule out for each unit the devices that one of its vertices may not use. */
static void exclude_forbidden(const struct search *search) {
    for (size_t v = 0; v < search->n; v++)
        for (size_t d = 0; d < search->k; d++)
            if (isinf(search->start[v * search->k + d]))
                exclude(search, search->units->unit[v], d);
}

static int32_t count_devices(const struct search *search, size_t v) {
    int32_t count = 0;
    for (size_t d = 0; d < search->k; d++)
        count += !isinf(search->start[v * search->k + d]);
    return count;
}

/* Raise heads and tails until no further device is ruled out; true if a vertex has none left. */
static bool propagate(struct search *search) {
    do
        heads_tails_raise(search->ends, search->changed[0], search->changed[1]);
    while (exclude_late(search));
    for (size_t v = 0; v < search->n; v++)
        if (!count_devices(search, v))
            return true;
    return false;
}

/* Note that u ends before w starts. */
static void add_order(struct sequence *sequence, size_t n, size_t u, size_t w) {
    const vertex_set first = sequence->before[u] | only(u), second = sequence->after[w] | only(w);
    for (size_t x = 0; x < n; x++) {
        if (second >> x & 1)
            sequence->before[x] |= first;
        if (first >> x & 1)
            sequence->after[x] |= second;
    }
}

/* The least end of the vertices of a set that run in sequence on the device of v, given their heads (or tails)
 * `ends`. */
static double end_in_sequence(const struct search *search, const double *ends, vertex_set set, size_t v) {
    size_t sorted[SHARD_MOST_REFUTED], count = 0;
    for (size_t u = 0; u < search->n; u++) {
        if (!(set >> u & 1) || search->device[u] != search->device[v] ||
            !is_single(search, search->device[v]))
            continue;
        size_t at = count++;
        for (; at && ends[sorted[at - 1]] < ends[u]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = u;
    }
    double sum = 0, most = 0;
    for (size_t i = 0; i < count; i++) {
        sum += search->time[sorted[i]];
        most = greater(most, ends[sorted[i]] + sum);
    }
    return most;
}

static double transfer(const struct search *search, double size, size_t from, size_t to) {
    const bool known = from < search->k && to < search->k;
    return size > 0 && known && from != to ? size / search->system->bandwidth[from * search->k + to] : 0;
}

static void raise_head(const struct search *search, struct sequence *sequence, size_t v) {
    const struct shard_units *units = search->units;
    double head = greater(sequence->head[v], end_in_sequence(search, sequence->head, sequence->before[v], v));
    for (int64_t e = units->in_start[v]; e < units->in_start[v + 1]; e++) {
        const size_t u = (size_t)units->in_tail[e];
        head = greater(head, sequence->head[u] + search->time[u] +
                                 transfer(search, units->in_size[e], search->device[u], search->device[v]));
    }
    sequence->head[v] = head;
}

static void raise_tail(const struct search *search, struct sequence *sequence, size_t v) {
    const struct shard_system *system = search->system;
    double tail = greater(sequence->tail[v], end_in_sequence(search, sequence->tail, sequence->after[v], v));
    for (int64_t e = system->out_start[v]; e < system->out_start[v + 1]; e++) {
        const size_t w = (size_t)system->out_head[e];
        tail = greater(tail, sequence->tail[w] + search->time[w] +
                                 transfer(search, system->size[e], search->device[v], search->device[w]));
    }
    sequence->tail[v] = tail;
}

/* Sort all vertices so that each comes after those before it. */
static void sort_by_order(const struct sequence *sequence, size_t n, size_t *sorted) {
    for (size_t v = 0; v < n; v++) {
        size_t at = v;
        const int count = size_of(sequence->before[v]);
        for (; at && size_of(sequence->before[sorted[at - 1]]) > count; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = v;
    }
}

/* Raise heads and tails by the orders that are known; true if the schedule gets too long. */
static bool raise_ends(const struct search *search, struct sequence *sequence) {
    size_t sorted[SHARD_MOST_REFUTED];
    sort_by_order(sequence, search->n, sorted);
    for (size_t i = 0; i < search->n; i++)
        raise_head(search, sequence, sorted[i]);
    for (size_t i = search->n; i-- > 0;)
        raise_tail(search, sequence, sorted[i]);
    for (size_t v = 0; v < search->n; v++)
        if (sequence->head[v] + search->time[v] + sequence->tail[v] > search->longest)
            return true;
    return false;
}

/* A lower bound on the makespan if u runs before w. */
static double length(const struct search *search, const struct sequence *sequence, size_t u, size_t w) {
    return sequence->head[u] + search->time[u] + search->time[w] + sequence->tail[w];
}

static bool in_open_order(const struct search *search, const struct sequence *sequence, size_t u, size_t w) {
    return search->device[u] == search->device[w] && is_single(search, search->device[u]) &&
           !((sequence->before[u] | sequence->after[u]) >> w & 1);
}

/* A pair of vertices that share a device, and the lesser length of the two orders. */
struct pair {
    size_t first, second;
    double least;
};

/* Order the pairs of which one order is too long; true if there was one. pair, out: of the others, the one whose
 * shorter order is longest; `least` is negative if there is none. */
static bool order_pairs(const struct search *search, struct sequence *sequence, struct pair *pair) {
    bool any = false;
    pair->least = -1;
    for (size_t u = 0; u < search->n; u++)
        for (size_t w = 0; w < u; w++) {
            if (!in_open_order(search, sequence, u, w))
                continue;
            const double forth = length(search, sequence, u, w), back = length(search, sequence, w, u);
            if (forth > search->longest || back > search->longest) {
                add_order(sequence, search->n, forth > back ? w : u, forth > back ? u : w);
                any = true;
            } else if (lesser(forth, back) > pair->least) {
                *pair = (struct pair){u, w, lesser(forth, back)};
            }
        }
    return any;
}

/* Order all pairs that can be ordered without a choice; true if a schedule gets too long. */
static bool order_all(const struct search *search, struct sequence *sequence, struct pair *pair) {
    do
        if (raise_ends(search, sequence))
            return true;
    while (order_pairs(search, sequence, pair));
    return false;
}

/* True if every order is too long; the order of `chosen` pairs was a choice. */
static bool refute_orders(struct search *search, struct sequence *sequence, int32_t chosen) {
    struct pair pair;
    if (search->nodes-- <= 0 || chosen == MOST_CHOSEN)
        return false;
    if (order_all(search, sequence, &pair))
        return true;
    if (pair.least < 0)
        return false;
    for (int i = 0; i < 2; i++) {
        struct sequence branch = *sequence;
        add_order(&branch, search->n, i ? pair.first : pair.second, i ? pair.second : pair.first);
        if (!refute_orders(search, &branch, chosen + 1))
            return false;
    }
    return true;
}

/* Begin with the order of the graph; a vertex with several devices left gets its least time, head and tail, and no
 * device. */
static void begin_sequence(struct search *search, struct sequence *sequence) {
    const double *start = search->start, *behind = search->behind;
    memset(sequence, 0, sizeof *sequence);
    for (size_t v = 0; v < search->n; v++) {
        double time = INFINITY, head = INFINITY, tail = INFINITY;
        for (size_t d = 0; d < search->k; d++) {
            if (isinf(start[v * search->k + d]))
                continue;
            search->device[v] = isinf(time) ? d : search->k;
            time = lesser(time, time_on(search, v, d));
            head = lesser(head, start[v * search->k + d]);
            tail = lesser(tail, behind[v * search->k + d]);
        }
        search->time[v] = time;
        sequence->head[v] = head;
        sequence->tail[v] = tail;
    }
    for (size_t v = 0; v < search->n; v++)
        for (int64_t e = search->units->in_start[v]; e < search->units->in_start[v + 1]; e++)
            add_order(sequence, search->n, (size_t)search->units->in_tail[e], v);
}

/* The vertex with fewest devices of those that have several, and of these the latest; n if there is none. */
static size_t fewest_devices(const struct search *search) {
    const double *start = search->start, *behind = search->behind;
    int32_t least = INT32_MAX;
    double latest = 0;
    size_t found = search->n;
    for (size_t v = 0; v < search->n; v++) {
        const int32_t count = count_devices(search, v);
        if (count < 2 || count > least)
            continue;
        double sum = 0;
        for (size_t d = 0; d < search->k; d++)
            if (!isinf(start[v * search->k + d]))
                sum += start[v * search->k + d] + time_on(search, v, d) + behind[v * search->k + d];
        if (count < least || sum > latest) {
            least = count;
            latest = sum;
            found = v;
        }
    }
    return found;
}

/* Save the heads and tails of this node as those of a depth, or restore them. */
static void copy_ends(const struct search *search, size_t depth, bool back) {
    const size_t cells = search->n * search->k, at = (depth + 1) * cells;
    double *ends[] = {search->start, search->behind};
    for (int i = 0; i < 2; i++)
        memcpy(ends[i] + (back ? 0 : at), ends[i] + (back ? at : 0), cells * sizeof *ends[i]);
}

/* Give a unit a device, and raise heads and tails; true if a vertex has no device left. */
static bool give_device(struct search *search, int32_t unit, size_t device) {
    for (size_t other = 0; other < search->k; other++)
        if (other != device)
            exclude(search, unit, other);
    return propagate(search);
}

/* True if every choice of devices is too long at the node of the current heads and tails. */
static bool refute_devices(struct search *search, size_t depth) {
    const size_t v = fewest_devices(search);
    struct sequence sequence;
    struct pair pair;
    begin_sequence(search, &sequence);
    if (v == search->n)
        return refute_orders(search, &sequence, 0);
    if (order_all(search, &sequence, &pair))
        return true;
    copy_ends(search, depth, false);
    for (size_t d = 0; d < search->k; d++) {
        copy_ends(search, depth, true);
        if (isinf(search->start[v * search->k + d]))
            continue;
        if (search->nodes-- <= 0)
            return false;
        if (!give_device(search, search->units->unit[v], d) && !refute_devices(search, depth + 1))
            return false;
    }
    return true;
}

/* Allocate; the arena fails if there is no memory. All heads and tails count as changed. */
static void begin(struct search *search, struct arena *arena, const int32_t *order, const int32_t *back,
                  int32_t ancestors, const double *start, const double *behind) {
    const size_t cells = search->n * search->k;
    ARENA_ARRAYS(arena, (search->n + 2) * cells, search->start, search->behind);
    ARENA_ARRAYS(arena, search->n, search->changed[0], search->changed[1]);
    if (arena->failed)
        return;
    memcpy(search->start, start, cells * sizeof *start);
    memcpy(search->behind, behind, cells * sizeof *behind);
    for (int i = 0; i < 2; i++)
        memset(search->changed[i], true, search->n * sizeof *search->changed[i]);
    search->ends = heads_tails_new(arena, search->system, search->units, order, back, ancestors,
                                   search->start, search->behind);
}

int shard_refute(const struct shard_system *system, const struct shard_units *units, const int32_t *order,
                 const int32_t *back, int32_t ancestors, const double *start, const double *behind,
                 double longest, int64_t *nodes, int32_t *refuted) {
    struct search search = {.system = system,
                            .units = units,
                            .n = (size_t)system->nodes,
                            .k = (size_t)system->devices,
                            .longest = longest * (1 + EXCESS),
                            .nodes = *nodes};
    struct arena arena = {0};
    *refuted = 0;
    if (search.n > SHARD_MOST_REFUTED)
        return SHARD_OK;
    begin(&search, &arena, order, back, ancestors, start, behind);
    if (!arena.failed) {
        exclude_forbidden(&search);
        *refuted = propagate(&search) || refute_devices(&search, 0);
        *nodes = search.nodes > 0 ? search.nodes : 0;
    }
    const int status = arena_status(&arena);
    arena_free(&arena);
    return status;
}
