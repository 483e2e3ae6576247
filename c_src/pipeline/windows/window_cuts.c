/* One network per window. All nodes that its ideals must hold are one vertex, and so are those that none can. */
#include "pipeline/windows/window_cuts.h"

#include "common/flow.h"
#include "common/stop.h"

enum { INSIDE = 0, OUTSIDE = 1, TERMINALS = 2 };

struct windows {
    int32_t nodes;
    const int64_t *start;
    const int32_t *head;
    const int64_t *before, *after;
    int64_t total, window;
    int64_t *left;   /* nodes elements: what is left of the size of each tensor */
    int32_t *vertex; /* nodes elements: INSIDE, OUTSIDE, or a vertex of its own */
    int32_t *arc;    /* nodes elements: number of the tensor's arc as added, -1 if it cannot cross */
    int32_t *forth; /* edges elements: number of the arc from the tensor to its reader, -1 if there is none */
    int32_t
        *back; /* edges elements: number of the arc from the reader to what it reads, -1 if there is none */
};

/* Give nodes their vertices in the window above `low`; return the number of vertices. */
static int32_t number_nodes(struct windows *w, int64_t low) {
    int32_t vertices = TERMINALS;
    for (int32_t v = 0; v < w->nodes; v++)
        if (w->total - w->after[v] <= low)
            w->vertex[v] = INSIDE;
        else if (w->before[v] > low + w->window)
            w->vertex[v] = OUTSIDE;
        else
            w->vertex[v] = vertices++;
    return vertices;
}

/* True if the tensor of u crosses the border of some ideal. */
static bool may_cross(const struct windows *w, int32_t u) {
    if (w->vertex[u] == OUTSIDE || w->left[u] == 0)
        return false;
    for (int64_t e = w->start[u]; e < w->start[u + 1]; e++)
        if (w->vertex[w->head[e]] != INSIDE)
            return true;
    return false;
}

/* Count the helper vertices, one per tensor that may cross, and the arcs. */
static void count(const struct windows *w, int32_t *helpers, int64_t *arcs) {
    for (int32_t u = 0; u < w->nodes; u++) {
        if (w->vertex[u] == OUTSIDE)
            continue;
        *helpers += may_cross(w, u);
        *arcs += 2 + 4 * (w->start[u + 1] - w->start[u]);
    }
}

/* A node of the set brings along what it reads; a tensor is cut if its node is in the set, but not all readers. */
static void join(struct windows *w, struct flow *flow, int32_t helper) {
    for (int32_t u = 0; u < w->nodes; u++) {
        const int32_t vertex = w->vertex[u];
        const bool crosses = may_cross(w, u);
        w->arc[u] = crosses ? flow->arcs : -1;
        if (crosses)
            flow_join(flow, vertex, helper, w->left[u], 0);
        for (int64_t e = w->start[u]; e < w->start[u + 1] && vertex != OUTSIDE; e++) {
            const int32_t reader = w->vertex[w->head[e]];
            w->forth[e] = crosses && reader != INSIDE ? flow->arcs : -1;
            if (w->forth[e] >= 0)
                flow_join(flow, helper, reader, FLOW_INFINITE, 0);
            w->back[e] = vertex != INSIDE && reader != OUTSIDE ? flow->arcs : -1;
            if (w->back[e] >= 0)
                flow_join(flow, reader, vertex, FLOW_INFINITE, 0);
        }
        helper += crosses;
    }
}

/* Take the flow of the tensors from what is left of them; return all of it. */
static int64_t take(struct windows *w, const struct flow *flow) {
    for (int32_t u = 0; u < w->nodes; u++)
        if (w->arc[u] >= 0)
            w->left[u] = flow->left[flow->place[w->arc[u]]];
    return FLOW_INFINITE - flow->excess[INSIDE];
}

/* The flow of an arc by its number as added. */
static int64_t flow_of(const struct flow *flow, int32_t arc) {
    return arc < 0 ? 0 : flow->left[flow->reverse[flow->place[arc]]];
}

/* Write how much flow goes from each tensor to each reader, less what comes back. */
static void write_moved(const struct windows *w, const struct flow *flow, int64_t *moved) {
    for (int32_t u = 0; u < w->nodes; u++)
        for (int64_t e = w->start[u]; e < w->start[u + 1]; e++)
            moved[e] = w->vertex[u] == OUTSIDE ? 0 : flow_of(flow, w->forth[e]) - flow_of(flow, w->back[e]);
}

/* Add the minimum cut of the window above `low` to the bound; write its flow to `moved` unless that is NULL. */
static int cut(struct windows *w, int64_t low, int64_t *bound, int64_t *moved) {
    struct arena arena = {0};
    struct flow flow;
    int32_t helpers = 0;
    int64_t arcs = 0;
    const int32_t vertices = number_nodes(w, low);
    count(w, &helpers, &arcs);
    flow_allocate(&flow, &arena, vertices + helpers, arcs);
    const int status = arena_status(&arena);
    if (status == SHARD_OK) {
        join(w, &flow, vertices);
        flow_sort(&flow);
        flow.excess[INSIDE] = FLOW_INFINITE;
        flow.excess[OUTSIDE] = -FLOW_INFINITE;
        flow_run(&flow);
        *bound += take(w, &flow);
        if (moved)
            write_moved(w, &flow, moved);
    }
    arena_free(&arena);
    return status;
}

int shard_window_cuts(int32_t nodes, const int64_t *start, const int32_t *head, const int64_t *size,
                      const int64_t *before, const int64_t *after, int64_t total, int64_t window,
                      const int32_t *stop, int64_t *bound, int64_t *moved) {
    struct arena arena = {0};
    struct windows w = {nodes, start, head, before, after, total, window, NULL, NULL, NULL, NULL, NULL};
    ARENA_ARRAYS(&arena, nodes, w.left, w.vertex, w.arc);
    ARENA_ARRAYS(&arena, start[nodes], w.forth, w.back);
    int status = arena_status(&arena);
    if (status == SHARD_OK) {
        memcpy(w.left, size, (size_t)nodes * sizeof *size);
        *bound = 0;
        for (int64_t low = 0; status == SHARD_OK && low + window < total && !is_stopped(stop);
             low += window) {
            status = cut(&w, low, bound, moved);
            moved = moved ? moved + start[nodes] : NULL;
        }
    }
    arena_free(&arena);
    return status;
}
