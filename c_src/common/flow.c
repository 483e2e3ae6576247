/* Dinic's algorithm on the residual network: levels start at vertices with an excess, paths are traced back from
 * those with a deficit. */
#include "common/flow.h"

void flow_allocate(struct flow *flow, struct arena *arena, int32_t vertices, int64_t arcs) {
    *flow = (struct flow){.vertices = vertices};
    ARENA_ARRAYS(arena, vertices, flow->level, flow->current);
    ARENA_ARRAYS(arena, (int64_t)vertices + 1, flow->queue);
    ARENA_ARRAYS(arena, arcs, flow->place, flow->reverse, flow->tip, flow->left);
    ARENA_ZEROS(arena, vertices, flow->excess);
    ARENA_ZEROS(arena, (int64_t)vertices + 1, flow->start);
    if (arcs >= INT32_MAX)
        arena->failed = true;
}

static void add_arc(struct flow *flow, int32_t tail, int32_t head, int64_t capacity) {
    const int32_t e = flow->arcs++;
    flow->reverse[e] = tail;
    flow->tip[e] = head;
    flow->left[e] = capacity;
}

void flow_join(struct flow *flow, int32_t tail, int32_t head, int64_t forwards, int64_t backwards) {
    add_arc(flow, tail, head, forwards);
    add_arc(flow, head, tail, backwards);
}

static void swap_arcs(struct flow *flow, int32_t a, int32_t b) {
    const int32_t tip = flow->tip[a];
    const int64_t left = flow->left[a];
    flow->tip[a] = flow->tip[b];
    flow->left[a] = flow->left[b];
    flow->tip[b] = tip;
    flow->left[b] = left;
}

void flow_sort(struct flow *flow) {
    int32_t *tail = flow->reverse, *to = flow->reverse;
    for (int32_t i = 0; i < flow->arcs; i++)
        flow->start[tail[i]]++;
    for (int32_t v = 0; v < flow->vertices; v++)
        flow->start[v + 1] += flow->start[v];
    for (int32_t i = 0; i < flow->arcs; i++)
        to[i] = flow->place[i] = --flow->start[tail[i]];
    for (int32_t i = 0; i < flow->arcs; i++) {
        while (to[i] != i) {
            const int32_t at = to[i];
            swap_arcs(flow, i, at);
            to[i] = to[at];
            to[at] = at;
        }
    }
    for (int32_t i = 0; i < flow->arcs; i++)
        flow->reverse[flow->place[i]] = flow->place[i ^ 1];
}

/* Queue all vertices with an excess at level 0; return their number. As in `set_levels`, each vertex is written to the
 * end of the queue, which grows if it belongs there: branches on capacities are mispredicted. */
static int32_t queue_excesses(struct flow *flow) {
    const int64_t *excess = flow->excess;
    int32_t *restrict level = flow->level, *restrict queue = flow->queue;
    int32_t queued = 0;
    for (int32_t v = 0; v < flow->vertices; v++) {
        const bool source = excess[v] > 0;
        level[v] = (int32_t)source - 1;
        queue[queued] = v;
        queued += source;
    }
    return queued;
}

/* The total excess of the first vertices of the queue, less FLOW_INFINITE for each that is tied to the source. */
static int64_t surplus(const struct flow *flow, int32_t sources) {
    int64_t sum = 0;
    for (int32_t at = 0; at < sources; at++) {
        const int64_t excess = flow->excess[flow->queue[at]];
        sum += excess > FLOW_INFINITE / 2 ? excess - FLOW_INFINITE : excess;
    }
    return sum;
}

/* Set breadth-first levels along residual arcs, from the excesses, which are first in the queue, up to the nearest
 * deficits; return the length of the queue. nearest: out, where the level with deficits begins in the queue; its
 * length if no deficit is reached. */
static int32_t set_levels(struct flow *flow, int32_t sources, int32_t *nearest) {
    const int32_t *start = flow->start, *tip = flow->tip;
    const int64_t *left = flow->left, *excess = flow->excess;
    int32_t *restrict level = flow->level, *restrict queue = flow->queue;
    int32_t queued = sources, at = 0;
    int64_t any = 0; /* negative once a deficit is reached */
    for (int32_t up = 1; at < queued && any >= 0; up++) {
        for (const int32_t end_level = queued; at < end_level; at++) {
            const int32_t v = queue[at];
            flow->current[v] = start[v];
            for (int32_t e = start[v], end = start[v + 1]; e < end; e++) {
                const int32_t w = tip[e];
                const bool fresh = (level[w] < 0) & (left[e] != 0);
                queue[queued] = w;
                queued += fresh;
                level[w] = fresh ? up : level[w];
                any |= fresh ? excess[w] : 0;
            }
        }
    }
    *nearest = any < 0 ? at : queued;
    return queued;
}

/* Push as much as fits from `from` to `to`, along the reverse of a path from `to`; return how many arcs of the path,
 * from its start, still have capacity. */
static int32_t augment(struct flow *flow, int32_t from, const int32_t *path, int32_t length, int32_t to) {
    int64_t amount = flow->excess[from] < -flow->excess[to] ? flow->excess[from] : -flow->excess[to];
    int32_t open = length;
    for (int32_t i = 0; i < length; i++)
        if (flow->left[flow->reverse[path[i]]] < amount)
            amount = flow->left[flow->reverse[path[i]]];
    flow->excess[from] -= amount;
    flow->excess[to] += amount;
    for (int32_t i = length - 1; i >= 0; i--) {
        const int32_t e = flow->reverse[path[i]];
        flow->left[e] -= amount;
        flow->left[path[i]] += amount;
        if (flow->left[e] == 0)
            open = i;
    }
    return open;
}

/* Advance the current arc of a vertex to one whose reverse leads here from a level below; false if none is left. */
static bool advance(struct flow *flow, int32_t v) {
    const int32_t end = flow->start[v + 1], down = flow->level[v] - 1;
    int32_t e = flow->current[v];
    while (e < end && (flow->level[flow->tip[e]] != down || flow->left[flow->reverse[e]] == 0))
        e++;
    flow->current[v] = e;
    return e < end;
}

/* Pull flow down the levels to a vertex until it has no deficit or nothing more fits; return the amount. */
static int64_t pull(struct flow *flow, int32_t to, int32_t *path) {
    const int64_t before = flow->excess[to];
    int32_t length = 0, v = to;
    flow->current[to] = flow->start[to];
    while (flow->excess[to] < 0) {
        if (flow->level[v] == 0 && flow->excess[v] > 0) {
            length = augment(flow, v, path, length, to);
        } else if (flow->level[v] > 0 && advance(flow, v)) {
            path[length++] = flow->current[v];
        } else if (length == 0) {
            break;
        } else {
            length--; /* a dead end: its level keeps it from being tried again */
            flow->level[v] = -1;
        }
        v = length > 0 ? flow->tip[path[length - 1]] : to;
    }
    return flow->excess[to] - before;
}

bool flow_run_until(struct flow *flow, int64_t enough) {
    for (;;) {
        const int32_t sources = queue_excesses(flow);
        int64_t sum = surplus(flow, sources);
        if (sum <= enough)
            return false;
        int32_t nearest;
        const int32_t queued = set_levels(flow, sources, &nearest);
        if (nearest == queued)
            return true;
        for (int32_t at = nearest; at < queued; at++) {
            /* The path is at most as long as the queue before the level of `nearest`, which is no longer needed. */
            sum -= pull(flow, flow->queue[at], flow->queue);
            if (sum <= enough)
                return false;
        }
    }
}

void flow_run(struct flow *flow) {
    flow_run_until(flow, INT64_MIN);
}

void flow_least_side(const struct flow *flow, bool *side) {
    for (int32_t v = 0; v < flow->vertices; v++)
        side[v] = flow->level[v] >= 0;
}

void flow_greatest_side(struct flow *flow, bool *side) {
    int32_t queued = 0;
    for (int32_t v = 0; v < flow->vertices; v++) {
        side[v] = flow->excess[v] >= 0;
        flow->queue[queued] = v;
        queued += !side[v];
    }
    for (int32_t at = 0; at < queued; at++) {
        const int32_t v = flow->queue[at];
        for (int32_t e = flow->start[v], end = flow->start[v + 1]; e < end; e++) {
            const int32_t w = flow->tip[e];
            const bool fresh = side[w] & (flow->left[flow->reverse[e]] != 0);
            flow->queue[queued] = w;
            queued += fresh;
            side[w] ^= fresh;
        }
    }
}
