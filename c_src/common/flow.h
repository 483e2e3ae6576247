/* Minimum cuts of a network whose terminals change between cuts; each cut starts from the previous flow. */
#pragma once

#include "common/arena.h"

/* More than twice any sum of finite capacities. */
#define FLOW_INFINITE ((int64_t)1 << 60)

/* After flow_sort, arcs start[v] .. start[v + 1] - 1 leave vertex v. The `excess` of a vertex is its capacity from
 * the source less its capacity to the sink, less its net outflow; adding to it changes the terminals. */
struct flow {
    int32_t vertices, arcs;
    int32_t *start;   /* vertices + 1 */
    int32_t *place;   /* arcs: index, after flow_sort, of the arc that was added as number i */
    int32_t *reverse; /* arcs: index of the reverse arc; before flow_sort, the tail */
    int32_t *tip;     /* arcs */
    int64_t *left;    /* arcs: residual capacity */
    int64_t *excess;  /* vertices */
    int32_t *level;   /* vertices: arcs from the nearest vertex with an excess, -1 if not reached */
    int32_t *current; /* vertices: arc to try next */
    int32_t *queue;   /* vertices + 1 */
};

/* Allocate from an arena for at most `vertices` and `arcs`, including reverse arcs; the arena fails if there is no
 * memory or if there are 2^31 - 1 arcs or more. */
void flow_allocate(struct flow *flow, struct arena *arena, int32_t vertices, int64_t arcs);

/* Add an arc and its reverse with their capacities, which get the next two numbers. */
void flow_join(struct flow *flow, int32_t tail, int32_t head, int64_t forwards, int64_t backwards);

/* Sort the arcs by the vertices that they leave, once: after the last one was added, before the first cut. */
void flow_sort(struct flow *flow);

/* Augment to a maximum flow. */
void flow_run(struct flow *flow);

/* The same, but stop and return false as soon as the positive excesses add up to `enough` or less. A vertex with more
 * than half of FLOW_INFINITE is tied to the source and counts with its excess less FLOW_INFINITE. The capacity of a
 * minimum cut, less that of all arcs from the source, is at least minus this sum: its source side gains no more. */
bool flow_run_until(struct flow *flow, int64_t enough);

/* After flow_run, or flow_run_until that returned true: mark the smallest or the largest source side of a minimum cut.
 * side, out, vertices elements. */
void flow_least_side(const struct flow *flow, bool *side);
void flow_greatest_side(struct flow *flow, bool *side);
