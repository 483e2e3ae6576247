/* Vertices close behind a vertex v make a small problem of their own: v has run on one device, the others
 * start at time 0 at the earliest, and bounds on their starts are found as for the whole. Two ways from v
 * that meet again then begin on the same device, whereas the bounds of the whole let each begin where it
 * suits it best. What is known so of the vertices behind v counts in its problem, too: the last come first.
 */
#include "scheduling/bounds/pair_lags.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "common/status.h"
#include "scheduling/bounds/head_bounds.h"

struct work {
    struct arena *arena;
    const struct shard_system *system;
    const struct shard_groups *groups;
    struct since *since;
    size_t k;
    int32_t reach;
    int32_t *place;  /* of each vertex in the order */
    int32_t *local;  /* of each vertex: its number in the small problem; -1: none */
    int32_t *chosen; /* vertices of the small problem */
    int32_t count;
    struct shard_system small;
    struct shard_groups part;
    int64_t *in_start; /* of `part`, as the following */
    int32_t *in_tail;
    double *in_size;
    int32_t *unit;
    double *complexity;
    double *start; /* in the small problem */
    double *time;  /* of its vertices on each device */
    double *least; /* of each device: a start under way */
    struct starts *starts;
};

/* A vertex behind the first: it takes its place among the chosen, and the last of too many goes. */
static void choose(struct work *work, int32_t v) {
    const struct shard_groups *groups = work->groups;
    if (work->local[v] >= 0 || groups->in_start[v + 1] - groups->in_start[v] > MOST_INPUTS)
        return;
    int32_t at = work->count;
    while (at > 1 && work->place[work->chosen[at - 1]] > work->place[v])
        at--;
    if (at == work->reach)
        return;
    if (work->count == work->reach)
        work->local[work->chosen[--work->count]] = -1;
    memmove(work->chosen + at + 1, work->chosen + at, (size_t)(work->count - at) * sizeof *work->chosen);
    work->chosen[at] = v;
    work->local[v] = 0;
    work->count++;
}

static void drop(struct work *work, int32_t from) {
    while (work->count > from)
        work->local[work->chosen[--work->count]] = -1;
}

/* Edges between the chosen, and none behind the last where ways meet. */
static void connect(struct work *work) {
    const struct shard_groups *groups = work->groups;
    int64_t edges = 0;
    int32_t last = 0;
    for (int32_t i = 0; i < work->count; i++) {
        const int32_t v = work->chosen[i];
        work->local[v] = i;
        work->unit[i] = groups->unit[v];
        work->complexity[i] = i ? work->system->complexity[v] : 0;
        for (size_t d = 0; d < work->k; d++)
            work->time[(size_t)i * work->k + d] = work->complexity[i] / work->system->speed[d];
        work->in_start[i] = edges;
        for (int64_t e = groups->in_start[v]; i && e < groups->in_start[v + 1]; e++) {
            const int32_t tail = work->local[groups->in_tail[e]];
            if (tail < 0)
                continue;
            work->in_tail[edges] = tail;
            work->in_size[edges++] = groups->in_size[e];
        }
        work->in_start[i + 1] = edges;
        if (edges > work->in_start[i] + 1 || (i && work->unit[i] == work->unit[0]))
            last = i;
    }
    drop(work, last + 1);
}

/* The first vertices behind v in the order; none is behind one of very many readers. */
static void choose_behind(struct work *work, int32_t v) {
    const struct shard_system *system = work->system;
    drop(work, 0);
    work->chosen[0] = v;
    work->local[v] = 0;
    work->count = 1;
    if (system->out_start[v + 1] - system->out_start[v] < 2)
        return;
    for (int32_t i = 0; i < work->count; i++) {
        const int32_t u = work->chosen[i];
        if (system->out_start[u + 1] - system->out_start[u] <= MOST_INPUTS)
            for (int64_t e = system->out_start[u]; e < system->out_start[u + 1]; e++)
                choose(work, system->out_head[e]);
    }
    connect(work);
}

/* What is known of vertices behind number i of the small problem. */
static void pass_on(struct work *work, int32_t i) {
    const struct since *since = work->since;
    const size_t k = work->k;
    const int32_t v = work->chosen[i];
    for (int64_t j = since->first[v]; j < since->first[v + 1]; j++) {
        const int32_t to = work->local[since->behind[j]];
        if (to < 0)
            continue;
        for (size_t d = 0; d < k; d++)
            work->least[d] = INFINITY;
        for (size_t from = 0; from < k; from++) {
            const double end = work->start[(size_t)i * k + from] + work->time[(size_t)i * k + from];
            const double *lag = since->lag + ((size_t)j * k + from) * k;
            for (size_t d = 0; d < k; d++)
                work->least[d] = lesser(work->least[d], end + lag[d]);
        }
        for (size_t d = 0; d < k; d++)
            work->start[(size_t)to * k + d] = greater(work->start[(size_t)to * k + d], work->least[d]);
    }
}

/* Bounds of the small problem if its first vertex has run on `device`, at time 0. */
static void begin_on(struct work *work, size_t device) {
    const size_t k = work->k;
    for (int32_t i = 0; i < work->count; i++)
        for (size_t d = 0; d < k; d++)
            work->start[(size_t)i * k + d] = d != device && work->unit[i] == work->unit[0] ? INFINITY : 0;
    for (int32_t i = 1; i < work->count; i++) {
        starts_vertex(work->starts, i);
        pass_on(work, i);
    }
}

static void fill(struct work *work, int32_t v) {
    const size_t k = work->k;
    const struct since *since = work->since;
    choose_behind(work, v);
    for (size_t d = 0; d < k && work->count > 1; d++) {
        begin_on(work, d);
        for (int32_t i = 1; i < work->count; i++) {
            const size_t at = (size_t)since->first[v] + (size_t)i - 1;
            since->behind[at] = work->chosen[i];
            memcpy(since->lag + (at * k + d) * k, work->start + (size_t)i * k, k * sizeof *work->start);
        }
    }
}

/* How many are behind each vertex, and memory for them. */
static void make_room(struct work *work) {
    struct since *since = work->since;
    const int32_t n = work->system->nodes;
    since->first[0] = 0;
    for (int32_t v = 0; v < n; v++) {
        choose_behind(work, v);
        since->first[v + 1] = since->first[v] + work->count - 1;
    }
    const int64_t all = since->first[n], k = (int64_t)work->k;
    ARENA_ARRAY(work->arena, since->behind, all);
    ARENA_ARRAY(work->arena, since->lag, all * k * k);
}

static void allocate(struct work *work) {
    const int64_t n = work->system->nodes, r = work->reach, k = (int64_t)work->k;
    ARENA_ARRAY(work->arena, work->since->first, n + 1);
    ARENA_ARRAY(work->arena, work->place, n);
    ARENA_ARRAY(work->arena, work->local, n);
    ARENA_ARRAY(work->arena, work->chosen, r);
    ARENA_ARRAY(work->arena, work->unit, r);
    ARENA_ARRAY(work->arena, work->in_start, r + 1);
    ARENA_ARRAY(work->arena, work->in_tail, r * MOST_INPUTS);
    ARENA_ARRAY(work->arena, work->in_size, r * MOST_INPUTS);
    ARENA_ARRAY(work->arena, work->start, r * k);
    ARENA_ARRAY(work->arena, work->time, r * k);
    ARENA_ARRAY(work->arena, work->least, k);
    ARENA_ARRAY(work->arena, work->complexity, r);
}

/* The small problem, whose vertices are in their order. */
static void make_small(struct work *work, int32_t window) {
    work->small = *work->system;
    work->small.nodes = work->reach;
    work->small.complexity = work->complexity;
    work->part = *work->groups;
    work->part.in_start = work->in_start;
    work->part.in_tail = work->in_tail;
    work->part.in_size = work->in_size;
    work->part.unit = work->unit;
    work->starts = starts_new(work->arena, &work->small, &work->part, window, MOST_INPUTS, work->start);
    if (work->arena->failed)
        return;
    for (int32_t i = 0; i < work->reach; i++)
        work->chosen[i] = i;
    starts_order(work->starts, work->chosen, work->reach);
}

void since_fill(struct since *since, struct arena *arena, const struct shard_system *system,
                const struct shard_groups *groups, const int32_t *order, int32_t window, int32_t reach) {
    struct work work = {.arena = arena, .system = system, .groups = groups, .since = since};
    work.k = (size_t)system->devices;
    work.reach = reach;
    allocate(&work);
    make_small(&work, window);
    if (arena->failed)
        return;
    for (int32_t i = 0; i < system->nodes; i++) {
        work.place[order[i]] = i;
        work.local[i] = -1;
    }
    make_room(&work);
    for (int32_t i = system->nodes; !arena->failed && i--;)
        fill(&work, order[i]);
}
