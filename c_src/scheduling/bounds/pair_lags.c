/* The nearest descendants of a vertex v form a subproblem: v has run on a known device, the others start at time 0
 * or later, and their starts are bounded as in the whole graph. So two paths that part at v and meet again begin on
 * the same device, whereas in the bounds of the whole graph each path begins on the device that suits it best. */
#include "scheduling/bounds/pair_lags.h"

#include "scheduling/bounds/head_bounds.h"

struct subproblem {
    struct arena *arena;
    const struct shard_system *system;
    const struct shard_units *units;
    struct pair_lags *lags;
    size_t k;
    int32_t reach;
    int32_t *position; /* nodes elements: place in the order */
    int32_t *local;    /* nodes elements: number in the subproblem, or -1 */
    int32_t *members;  /* reach elements, count in use: the vertices of the subproblem */
    int32_t count;
    struct shard_system system_of_members;
    struct shard_units units_of_members;
    int64_t *in_start; /* arrays of units_of_members */
    int32_t *in_tail;
    double *in_size;
    int32_t *unit;
    double *complexity;
    double *start; /* reach * devices elements: bounds in the subproblem */
    struct head_bounds *heads;
};

/* Add a vertex at its place in the order; if there are too many, drop the last one. */
static void add_member(struct subproblem *sub, int32_t v) {
    const struct shard_units *units = sub->units;
    if (sub->local[v] >= 0 || units->in_start[v + 1] - units->in_start[v] > MOST_INPUTS)
        return;
    int32_t at = sub->count;
    while (at > 1 && sub->position[sub->members[at - 1]] > sub->position[v])
        at--;
    if (at == sub->reach)
        return;
    if (sub->count == sub->reach)
        sub->local[sub->members[--sub->count]] = -1;
    memmove(sub->members + at + 1, sub->members + at, (size_t)(sub->count - at) * sizeof *sub->members);
    sub->members[at] = v;
    sub->local[v] = 0;
    sub->count++;
}

static void drop(struct subproblem *sub, int32_t from) {
    while (sub->count > from)
        sub->local[sub->members[--sub->count]] = -1;
}

/* Build the edges between the members, and drop what comes after the last vertex where paths meet. */
static void connect(struct subproblem *sub) {
    const struct shard_units *units = sub->units;
    int64_t edges = 0;
    int32_t last = 0;
    for (int32_t i = 0; i < sub->count; i++) {
        const int32_t v = sub->members[i];
        sub->local[v] = i;
        sub->unit[i] = units->unit[v];
        sub->complexity[i] = i ? sub->system->complexity[v] : 0;
        sub->in_start[i] = edges;
        for (int64_t e = units->in_start[v]; i && e < units->in_start[v + 1]; e++) {
            const int32_t tail = sub->local[units->in_tail[e]];
            if (tail < 0)
                continue;
            sub->in_tail[edges] = tail;
            sub->in_size[edges++] = units->in_size[e];
        }
        sub->in_start[i + 1] = edges;
        if (edges > sub->in_start[i] + 1 || (i && sub->unit[i] == sub->unit[0]))
            last = i;
    }
    drop(sub, last + 1);
}

/* Choose the first followers of v in the order; none beyond a vertex of more than MOST_INPUTS readers. */
static void choose_followers(struct subproblem *sub, int32_t v) {
    const struct shard_system *system = sub->system;
    drop(sub, 0);
    sub->members[0] = v;
    sub->local[v] = 0;
    sub->count = 1;
    if (system->out_start[v + 1] - system->out_start[v] < 2)
        return;
    for (int32_t i = 0; i < sub->count; i++) {
        const int32_t u = sub->members[i];
        if (system->out_start[u + 1] - system->out_start[u] <= MOST_INPUTS)
            for (int64_t e = system->out_start[u]; e < system->out_start[u + 1]; e++)
                add_member(sub, system->out_head[e]);
    }
    connect(sub);
}

/* Bound the starts of the members if the first has run on `device` and ended at time 0. */
static void solve_on(struct subproblem *sub, size_t device) {
    const size_t k = sub->k;
    for (int32_t i = 0; i < sub->count; i++)
        for (size_t d = 0; d < k; d++)
            sub->start[(size_t)i * k + d] = d != device && sub->unit[i] == sub->unit[0] ? INFINITY : 0;
    head_bounds_keep(sub->heads, 0);
    for (int32_t i = 1; i < sub->count; i++)
        head_bounds_raise(sub->heads, i);
}

static void fill_lags_of(struct subproblem *sub, int32_t v) {
    const size_t k = sub->k;
    const struct pair_lags *lags = sub->lags;
    choose_followers(sub, v);
    for (size_t d = 0; d < k && sub->count > 1; d++) {
        solve_on(sub, d);
        for (int32_t i = 1; i < sub->count; i++) {
            const size_t at = (size_t)lags->first[v] + (size_t)i - 1;
            lags->follower[at] = sub->members[i];
            memcpy(lags->lag + (at * k + d) * k, sub->start + (size_t)i * k, k * sizeof *sub->start);
        }
    }
}

/* Count the followers of each vertex and allocate their lags. */
static void allocate_lags(struct subproblem *sub) {
    struct pair_lags *lags = sub->lags;
    const int32_t n = sub->system->nodes;
    lags->first[0] = 0;
    for (int32_t v = 0; v < n; v++) {
        choose_followers(sub, v);
        lags->first[v + 1] = lags->first[v] + sub->count - 1;
    }
    const int64_t all = lags->first[n], k = (int64_t)sub->k;
    ARENA_ARRAYS(sub->arena, all, lags->follower);
    ARENA_ARRAYS(sub->arena, all * k * k, lags->lag);
}

static void allocate(struct subproblem *sub) {
    const int64_t n = sub->system->nodes, r = sub->reach, k = (int64_t)sub->k;
    ARENA_ARRAYS(sub->arena, n + 1, sub->lags->first);
    ARENA_ARRAYS(sub->arena, n, sub->position, sub->local);
    ARENA_ARRAYS(sub->arena, r, sub->members, sub->unit, sub->complexity);
    ARENA_ARRAYS(sub->arena, r + 1, sub->in_start);
    ARENA_ARRAYS(sub->arena, r * MOST_INPUTS, sub->in_tail, sub->in_size);
    ARENA_ARRAYS(sub->arena, r * k, sub->start);
}

/* Prepare the system of the members, which are in topological order. */
static void prepare_members(struct subproblem *sub, int32_t ancestors, int32_t branches) {
    sub->system_of_members = *sub->system;
    sub->system_of_members.nodes = sub->reach;
    sub->system_of_members.complexity = sub->complexity;
    sub->units_of_members = *sub->units;
    sub->units_of_members.in_start = sub->in_start;
    sub->units_of_members.in_tail = sub->in_tail;
    sub->units_of_members.in_size = sub->in_size;
    sub->units_of_members.unit = sub->unit;
    sub->heads = head_bounds_new(sub->arena, &sub->system_of_members, &sub->units_of_members, ancestors,
                                 MOST_INPUTS, branches, sub->start);
    if (sub->arena->failed)
        return;
    for (int32_t i = 0; i < sub->reach; i++)
        sub->members[i] = i;
    head_bounds_set_order(sub->heads, sub->members, sub->reach);
}

void pair_lags_fill(struct pair_lags *lags, struct arena *arena, const struct shard_system *system,
                    const struct shard_units *units, const int32_t *order, int32_t ancestors, int32_t reach,
                    int32_t branches) {
    struct subproblem sub = {.arena = arena, .system = system, .units = units, .lags = lags};
    if (reach == 0) {
        ARENA_ZEROS(arena, (int64_t)system->nodes + 1, lags->first);
        return;
    }
    sub.k = (size_t)system->devices;
    sub.reach = reach;
    allocate(&sub);
    prepare_members(&sub, ancestors, branches);
    if (arena->failed)
        return;
    for (int32_t i = 0; i < system->nodes; i++) {
        sub.position[order[i]] = i;
        sub.local[i] = -1;
    }
    allocate_lags(&sub);
    for (int32_t i = 0; i < system->nodes && !arena->failed; i++)
        fill_lags_of(&sub, order[i]);
}
