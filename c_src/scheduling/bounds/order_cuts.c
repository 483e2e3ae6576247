/* The flow of a set that has started is kept for all that may start next: each adds sources to it. */
#include "scheduling/bounds/order_cuts.h"

#include "common/stop.h"

enum { WORD = 64, WORDS = SHARD_MOST_CHOSEN / WORD };

/* A set of chosen vertices: vertex i is bit i % WORD of word i / WORD. */
struct set {
    uint64_t word[WORDS];
};

/* Sets, each once; the empty set is never among them. */
struct table {
    struct set *slot; /* room elements, a power of 2; empty ones are empty sets */
    size_t count, room;
};

struct search {
    struct arena arena;
    const struct shard_system *system;
    const struct shard_held *held;
    int32_t chosen;
    const int32_t *vertex;
    const int64_t *first;
    const int32_t *ready;
    double end;
    struct flow flow;
    int64_t *capacity;               /* arcs elements; those between layers of the cut at hand */
    int64_t *base_left;              /* arcs elements: residual capacities of the set at hand */
    int64_t *base_excess;            /* vertices elements: likewise */
    int32_t *cut;                    /* cuts elements: the order in which they are tried */
    int32_t next[SHARD_MOST_CHOSEN]; /* vertices that may start next and are not refuted */
    struct table known;
    struct set *stack;
    size_t depth, room;
};

static bool has(const struct set *set, int32_t i) {
    return set->word[i / WORD] >> i % WORD & 1;
}

static void add(struct set *set, int32_t i) {
    set->word[i / WORD] |= UINT64_C(1) << i % WORD;
}

static bool is_empty(const struct set *set) {
    uint64_t any = 0;
    for (int w = 0; w < WORDS; w++)
        any |= set->word[w];
    return !any;
}

/* The slot of a set, or the empty slot where it belongs. */
static struct set *find(const struct table *table, const struct set *set) {
    uint64_t hash = 0;
    for (int w = 0; w < WORDS; w++)
        hash = ((hash ^ hash >> 32) + set->word[w]) * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (size_t)(hash >> 20) & (table->room - 1);
    while (!is_empty(&table->slot[at]) && memcmp(&table->slot[at], set, sizeof *set) != 0)
        at = (at + 1) & (table->room - 1);
    return &table->slot[at];
}

/* Note a set and stack it; false if there is no memory. */
static bool note(struct search *s, const struct set *set) {
    struct table *known = &s->known;
    if (2 * known->count >= known->room) {
        struct table grown = {.count = known->count, .room = 2 * known->room};
        if (!ARENA_ZEROS(&s->arena, grown.room, grown.slot))
            return false;
        for (size_t i = 0; i < known->room; i++)
            if (!is_empty(&known->slot[i]))
                *find(&grown, &known->slot[i]) = known->slot[i];
        *known = grown;
    }
    if (s->depth == s->room) {
        s->stack = arena_grow(&s->arena, s->stack, s->depth, 2 * s->room, sizeof *s->stack);
        s->room *= 2;
    }
    if (s->arena.failed)
        return false;
    *find(known, set) = *set;
    known->count++;
    s->stack[s->depth++] = *set;
    return true;
}

/* The vertex of the network that says whether v has started. */
static int32_t started(const struct search *s, int32_t v) {
    return held_started(s->system, s->held, v);
}

/* Tie what must be ready for a chosen vertex to the source; false if some of it has not started. */
static bool tie_ready(struct search *s, int32_t i) {
    for (int64_t at = s->first[i]; at < s->first[i + 1]; at++) {
        int64_t *excess = s->flow.excess + started(s, s->ready[at]);
        if (*excess < 0)
            return false;
        if (*excess <= FLOW_INFINITE / 2)
            *excess += FLOW_INFINITE;
    }
    return true;
}

/* Find the flow of a cut for a set that has started and keep it; false if memory overflows whatever starts next. */
static bool begin_cut(struct search *s, int32_t cut, const struct set *set) {
    const size_t arcs = (size_t)s->flow.arcs, vertices = (size_t)s->flow.vertices;
    held_set_prices(&s->flow, s->system, s->held, cut, s->capacity);
    memcpy(s->flow.left, s->capacity, arcs * sizeof *s->capacity);
    memset(s->flow.excess, 0, vertices * sizeof *s->flow.excess);
    for (int32_t i = 0; i < s->chosen; i++)
        if (!has(set, i))
            s->flow.excess[started(s, s->vertex[i])] = -FLOW_INFINITE;
    for (int32_t i = 0; i < s->chosen; i++)
        if (has(set, i) && !tie_ready(s, i))
            return false;
    if (!flow_run_until(&s->flow, -s->held->enough[cut]))
        return false;
    memcpy(s->base_left, s->flow.left, arcs * sizeof *s->base_left);
    memcpy(s->base_excess, s->flow.excess, vertices * sizeof *s->base_excess);
    return true;
}

/* True if a cut shows that memory overflows when a vertex starts next; begin_cut was true. */
static bool overflows(struct search *s, int32_t cut, int32_t i) {
    memcpy(s->flow.left, s->base_left, (size_t)s->flow.arcs * sizeof *s->base_left);
    memcpy(s->flow.excess, s->base_excess, (size_t)s->flow.vertices * sizeof *s->base_excess);
    return !tie_ready(s, i) || !flow_run_until(&s->flow, -s->held->enough[cut]);
}

/* Note the set and a vertex that starts next; false if there is no memory. */
static bool note_with(struct search *s, const struct set *set, int32_t i) {
    struct set then = *set;
    add(&then, i);
    return note(s, &then);
}

/* Move to the end of `next` the vertices for which a cut shows an overflow, and return how many others there are. */
static int32_t split_by_cut(struct search *s, int32_t cut, const struct set *set, int32_t count) {
    const bool some_fit = begin_cut(s, cut, set);
    int32_t fit = 0;
    for (int32_t at = 0; at < count && monotonic_seconds() < s->end; at++) {
        const int32_t i = s->next[at];
        if (some_fit && !overflows(s, cut, i)) {
            s->next[at] = s->next[fit];
            s->next[fit++] = i;
        }
    }
    return fit;
}

/* Note all sets with one vertex more in which no cut shows that memory overflows. */
static void expand(struct search *s, const struct set *set) {
    int32_t count = 0;
    for (int32_t i = 0; i < s->chosen; i++) {
        struct set then = *set;
        add(&then, i);
        if (!has(set, i) && is_empty(find(&s->known, &then)))
            s->next[count++] = i;
    }
    const bool filter = s->held->layers == 2;
    if (filter) { /* what fits by the first cut is not shown by the others */
        const int32_t fit = split_by_cut(s, 0, set, count);
        for (int32_t at = 0; at < fit; at++)
            note_with(s, set, s->next[at]);
        count -= fit;
        memmove(s->next, s->next + fit, (size_t)count * sizeof *s->next);
    }
    for (int32_t at = filter; at < s->held->cuts && count > 0; at++) {
        const int32_t cut = s->cut[at], fit = split_by_cut(s, cut, set, count);
        if (fit < count) { /* it shows the next ones, too */
            memmove(s->cut + filter + 1, s->cut + filter, (size_t)(at - filter) * sizeof *s->cut);
            s->cut[filter] = cut;
        }
        count = fit;
    }
    for (int32_t at = 0; at < count; at++)
        note_with(s, set, s->next[at]);
}

static int allocate(struct search *s) {
    struct arena *arena = &s->arena;
    const int64_t arcs = held_arcs(s->system, s->held);
    flow_allocate(&s->flow, arena, held_vertices(s->system, s->held), arcs);
    ARENA_ARRAYS(arena, arcs, s->capacity, s->base_left);
    ARENA_ARRAYS(arena, held_vertices(s->system, s->held), s->base_excess);
    ARENA_ARRAYS(arena, s->held->cuts, s->cut);
    s->room = s->known.room = 1024;
    ARENA_ARRAYS(arena, s->room, s->stack);
    ARENA_ZEROS(arena, s->known.room, s->known.slot);
    return arena_status(arena);
}

int shard_order_cuts(const struct shard_system *system, const struct shard_held *held, int32_t chosen,
                     const int32_t *vertex, const int64_t *first, const int32_t *ready, double seconds,
                     int32_t *refuted) {
    struct search s = {.system = system, .held = held, .chosen = chosen, .vertex = vertex, .first = first};
    s.ready = ready;
    s.end = monotonic_seconds() + seconds;
    int status = allocate(&s);
    *refuted = 0;
    if (status == SHARD_OK) {
        held_lay_out(&s.flow, system, held, s.capacity);
        for (int32_t cut = 0; cut < held->cuts; cut++)
            s.cut[cut] = cut;
        struct set all = {{0}};
        for (int32_t i = 0; i < chosen; i++)
            add(&all, i);
        bool reached = chosen == 0;
        s.stack[s.depth++] = (struct set){{0}};
        while (s.depth > 0 && !reached && !s.arena.failed && monotonic_seconds() < s.end) {
            const struct set set = s.stack[--s.depth];
            reached = memcmp(&set, &all, sizeof all) == 0;
            if (!reached)
                expand(&s, &set);
        }
        *refuted = !reached && s.depth == 0 && !s.arena.failed && monotonic_seconds() < s.end;
        status = arena_status(&s.arena);
    }
    arena_free(&s.arena);
    return status;
}
