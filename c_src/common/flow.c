/* Dinic's algorithm on the residual network, from vertices with an excess to vertices with a deficit. */
#include "common/flow.h"

void flow_allocate(struct flow *flow, struct arena *arena, int32_t vertices, int64_t arcs) {
    *flow = (struct flow){.vertices = vertices};
    ARENA_ARRAYS(arena, vertices, flow->level, flow->current, flow->queue);
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

/* Queue all vertices with an excess (sign 1) or a deficit (-1), at level 0; return their number. */
static int32_t queue_terminals(struct flow *flow, int sign) {
    int32_t queued = 0;
    for (int32_t v = 0; v < flow->vertices; v++) {
        flow->level[v] = -1;
        if (sign > 0 ? flow->excess[v] > 0 : flow->excess[v] < 0) {
            flow->level[v] = 0;
            flow->queue[queued++] = v;
        }
    }
    return queued;
}

/* Set breadth-first levels from the excesses, which lead the queue, along residual arcs, up to the nearest
 * deficits; return true if a deficit is reached. */
static bool set_levels(struct flow *flow, int32_t sources) {
    int32_t queued = sources, last = INT32_MAX;
    for (int32_t at = 0; at < queued; at++) {
        const int32_t v = flow->queue[at];
        flow->current[v] = flow->start[v];
        if (flow->level[v] == last)
            continue;
        for (int32_t e = flow->start[v], end = flow->start[v + 1]; e < end; e++) {
            const int32_t w = flow->tip[e];
            if (flow->left[e] == 0 || flow->level[w] >= 0)
                continue;
            flow->level[w] = flow->level[v] + 1;
            flow->queue[queued++] = w;
            if (flow->excess[w] < 0)
                last = flow->level[w];
        }
    }
    return last < INT32_MAX;
}

/* Push as much as fits along a path from `from` to a vertex with a deficit; return how many arcs of the path,
 * from its start, still have capacity. */
static int32_t augment(struct flow *flow, int32_t from, const int32_t *path, int32_t length, int32_t to) {
    int64_t amount = flow->excess[from] < -flow->excess[to] ? flow->excess[from] : -flow->excess[to];
    int32_t open = length;
    for (int32_t i = 0; i < length; i++)
        if (flow->left[path[i]] < amount)
            amount = flow->left[path[i]];
    flow->excess[from] -= amount;
    flow->excess[to] += amount;
    for (int32_t i = length - 1; i >= 0; i--) {
        const int32_t e = path[i];
        flow->left[e] -= amount;
        flow->left[flow->reverse[e]] += amount;
        if (flow->left[e] == 0)
            open = i;
    }
    return open;
}

/* Advance the current arc of a vertex to one that leads a level up; false if none is left. */
static bool advance(struct flow *flow, int32_t v) {
    const int32_t end = flow->start[v + 1], up = flow->level[v] + 1;
    int32_t e = flow->current[v];
    while (e < end && (flow->left[e] == 0 || flow->level[flow->tip[e]] != up))
        e++;
    flow->current[v] = e;
    return e < end;
}

/* Push the excess of a vertex up the levels until none is left or nothing more fits. */
static void push(struct flow *flow, int32_t from, int32_t *path) {
    int32_t length = 0, v = from;
    while (flow->excess[from] > 0) {
        if (flow->excess[v] < 0) {
            length = augment(flow, from, path, length, v);
        } else if (advance(flow, v)) {
            path[length++] = flow->current[v];
        } else if (length == 0) {
            return;
        } else {
            length--; /* a dead end: its level keeps it from being tried again */
            flow->level[v] = -1;
        }
        v = length > 0 ? flow->tip[path[length - 1]] : from;
    }
}

/* The excess of the vertices that lead the queue, less the capacity of those that are tied to the source. */
static int64_t surplus(const struct flow *flow, int32_t sources) {
    int64_t sum = 0;
    for (int32_t at = 0; at < sources; at++) {
        const int64_t excess = flow->excess[flow->queue[at]];
        sum += excess > FLOW_INFINITE / 2 ? excess - FLOW_INFINITE : excess;
    }
    return sum;
}

bool flow_run_until(struct flow *flow, int64_t enough) {
    for (;;) {
        const int32_t sources = queue_terminals(flow, 1);
        if (surplus(flow, sources) <= enough)
            return false;
        if (!set_levels(flow, sources))
            return true;
        for (int32_t at = 0; at < sources; at++)
            push(flow, flow->queue[at], flow->queue + sources);
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
    int32_t queued = queue_terminals(flow, -1);
    for (int32_t at = 0; at < queued; at++) {
        const int32_t v = flow->queue[at];
        for (int32_t e = flow->start[v]; e < flow->start[v + 1]; e++) {
            const int32_t w = flow->tip[e];
            if (flow->level[w] < 0 && flow->left[flow->reverse[e]] > 0) {
                flow->level[w] = 0;
                flow->queue[queued++] = w;
            }
        }
    }
    for (int32_t v = 0; v < flow->vertices; v++)
        side[v] = flow->level[v] < 0;
}
