/* Shared by the test programs on bounds: small problems, drawn or made by hand, and when vertices are ready. */
#pragma once

#include "../check.h"
#include "scheduling/simulation/simulate.h"
#include "scheduling/units.h"

#define MOST_NODES 16
#define MOST_EDGES (2 * MOST_NODES * MOST_NODES)
#define MOST_DEVICES 4

/* All numbers are whole, speeds and bandwidths powers of 2: sums are exact. Edges go to greater numbers. */
struct problem {
    struct shard_system system;
    struct shard_units units;
    int64_t out_start[MOST_NODES + 1], in_start[MOST_NODES + 1], choice_start[2];
    int32_t out_head[MOST_EDGES], in_tail[MOST_EDGES];
    double size[MOST_EDGES], in_size[MOST_EDGES];
    double complexity[MOST_NODES], speed[MOST_DEVICES], bandwidth[MOST_DEVICES * MOST_DEVICES];
    int32_t unit[MOST_NODES], choice[MOST_NODES], choice_device[MOST_DEVICES];
    int32_t order[MOST_NODES], back[MOST_NODES];
};

static void connect(struct problem *p, int64_t count, const int32_t (*edge)[3]) {
    int64_t outs = 0, ins = 0;
    for (int32_t v = 0; v < p->system.nodes; v++) {
        for (int64_t e = 0; e < count; e++) {
            if (edge[e][0] == v) {
                p->out_head[outs] = edge[e][1];
                p->size[outs++] = edge[e][2];
            }
            if (edge[e][1] == v) {
                p->in_tail[ins] = edge[e][0];
                p->in_size[ins++] = edge[e][2];
            }
        }
        p->out_start[v + 1] = outs;
        p->in_start[v + 1] = ins;
    }
}

static void begin(struct problem *p, int32_t nodes, int32_t devices) {
    memset(p, 0, sizeof *p);
    p->system = (struct shard_system){nodes,         devices,  p->out_start, p->out_head,       p->size,
                                      p->complexity, p->speed, p->bandwidth, SHARD_INDEPENDENT, 1e-9};
    p->units = (struct shard_units){.in_start = p->in_start,
                                    .in_tail = p->in_tail,
                                    .in_size = p->in_size,
                                    .unit = p->unit,
                                    .choice = p->choice,
                                    .choice_start = p->choice_start,
                                    .choice_device = p->choice_device};
    for (int32_t v = 0; v < nodes; v++) {
        p->unit[v] = v;
        p->choice[v] = -1;
        p->order[v] = v;
        p->back[v] = nodes - 1 - v;
    }
    for (int32_t d = 0; d < devices; d++) {
        p->speed[d] = 1;
        for (int32_t to = 0; to < devices; to++)
            p->bandwidth[d * devices + to] = d == to ? (double)INFINITY : 1;
    }
}

/* Draw a problem of 2 to `nodes` nodes and 1 to `devices` devices. */
static void make(struct problem *p, int32_t nodes, int32_t devices) {
    int32_t edge[MOST_EDGES][3], count = 0;
    begin(p, 2 + draw(nodes - 1), 1 + draw(devices));
    const int32_t n = p->system.nodes, k = p->system.devices, dense = 2 + draw(4);
    for (int32_t v = 0; v < n; v++) {
        p->complexity[v] = draw(9);
        p->unit[v] = v > 0 && !draw(6) ? p->unit[draw(v)] : v;
        p->choice[v] = draw(5) ? -1 : 0;
        for (int32_t u = v > 5 ? v - 5 : 0; u < v; u++)
            for (int32_t twice = 0; twice < 2 && !draw(dense + 10 * twice); twice++) {
                const int32_t drawn[3] = {u, v, draw(9)};
                memcpy(edge[count++], drawn, sizeof drawn);
            }
    }
    connect(p, count, (const int32_t (*)[3])edge);
    for (int32_t d = 0; d < k; d++) {
        p->speed[d] = 1 << draw(3);
        for (int32_t to = 0; to < k; to++)
            p->bandwidth[d * k + to] = d == to ? (double)INFINITY : !draw(12) ? 0.0 : 1 << draw(3);
        if (d == 0 || draw(2))
            p->choice_device[p->choice_start[1]++] = d;
    }
}

/* The earliest start of a vertex, given those before it. */
static double ready(const struct problem *p, const int32_t *device, const double *end, int32_t v) {
    double time = 0;
    for (int64_t e = p->in_start[v]; e < p->in_start[v + 1]; e++) {
        const int32_t u = p->in_tail[e];
        const double width = p->bandwidth[device[u] * p->system.devices + device[v]];
        time =
            fmax(time, end[u] + (device[u] == device[v] || p->in_size[e] == 0 ? 0 : p->in_size[e] / width));
    }
    return time;
}
