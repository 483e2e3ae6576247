/* Linked lists keep the nodes of a subgraph; the number of edges into it is updated with every move. */
#include "placement/latency/subgraphs.h"

/* Exchange a subgraph with the one at an index of the list. */
static void list_subgraph(struct subgraphs *now, int32_t subgraph, int32_t index) {
    const int32_t other = now->listed[index], there = now->place[subgraph];
    now->listed[there] = other;
    now->place[other] = there;
    now->listed[index] = subgraph;
    now->place[subgraph] = index;
}

static void join(struct subgraphs *now, int32_t v, int32_t subgraph) {
    now->placement->subgraph[v] = subgraph;
    if (subgraph < 0) {
        now->pooled++;
        return;
    }
    if (now->count[subgraph]++ == 0)
        list_subgraph(now, subgraph, now->active++);
    now->next[v] = now->first[subgraph];
    now->previous[v] = -1;
    if (now->first[subgraph] >= 0)
        now->previous[now->first[subgraph]] = v;
    now->first[subgraph] = v;
}

static void leave(struct subgraphs *now, int32_t v) {
    const int32_t subgraph = now->placement->subgraph[v];
    if (subgraph < 0) {
        now->pooled--;
        return;
    }
    if (now->next[v] >= 0)
        now->previous[now->next[v]] = now->previous[v];
    if (now->previous[v] >= 0)
        now->next[now->previous[v]] = now->next[v];
    else
        now->first[subgraph] = now->next[v];
    if (--now->count[subgraph] == 0)
        list_subgraph(now, subgraph, --now->active);
}

void move_to_subgraph(struct subgraphs *now, int32_t v, int32_t to) {
    const struct shard_latency_problem *problem = now->problem;
    const int32_t *subgraph = now->placement->subgraph, from = subgraph[v];
    for (int64_t i = problem->in_start[v]; i < problem->in_start[v + 1]; i++) {
        const int32_t other = subgraph[problem->in[i]];
        if (from >= 0 && other != from)
            now->incoming[from]--;
        if (to >= 0 && other != to)
            now->incoming[to]++;
    }
    for (int64_t i = problem->out_start[v]; i < problem->out_start[v + 1]; i++) {
        const int32_t other = subgraph[problem->out[i]];
        if (other >= 0 && other == from)
            now->incoming[from]++;
        else if (other >= 0 && other == to)
            now->incoming[to]--;
    }
    leave(now, v);
    join(now, v, to);
}

double duration_of(struct subgraphs *now, int32_t subgraph) {
    const struct shard_latency_problem *problem = now->problem;
    const int32_t *of = now->placement->subgraph;
    double sum = 0.0;
    now->mark++;
    for (int32_t v = now->first[subgraph]; v >= 0; v = now->next[v]) {
        sum += problem->accelerator_time[v];
        for (int64_t net = problem->made_start[v]; net < problem->made_start[v + 1]; net++) {
            int64_t i = problem->reader_start[net];
            while (i < problem->reader_start[net + 1] && of[problem->reader[i]] == subgraph)
                i++;
            sum += i < problem->reader_start[net + 1] ? problem->transfer[net] : 0.0;
            now->net_mark[net] = now->mark;
        }
    }
    for (int32_t v = now->first[subgraph]; v >= 0; v = now->next[v]) {
        for (int64_t i = problem->read_start[v]; i < problem->read_start[v + 1]; i++) {
            const int32_t net = problem->read[i];
            sum += now->net_mark[net] == now->mark ? 0.0 : problem->transfer[net];
            now->net_mark[net] = now->mark;
        }
    }
    return sum;
}

static void use_memory(struct subgraphs *now, int32_t accelerator, double size) {
    if (accelerator < 0)
        return;
    now->overfull -= now->room[accelerator] < 0.0;
    now->room[accelerator] -= size;
    now->overfull += now->room[accelerator] < 0.0;
}

void move_unit(struct subgraphs *now, int32_t unit, int32_t device) {
    use_memory(now, now->device[unit], -now->problem->size[unit]);
    now->device[unit] = device;
    use_memory(now, device, now->problem->size[unit]);
}

void subgraphs_begin(struct subgraphs *now, const struct shard_latency_problem *problem,
                     struct shard_latency_placement *placement, struct arena *arena) {
    now->problem = problem;
    now->placement = placement;
    ARENA_ZEROS(arena, problem->subgraphs, now->first, now->count, now->incoming, now->listed, now->place,
                now->duration);
    ARENA_ZEROS(arena, problem->nodes, now->next, now->previous);
    ARENA_ZEROS(arena, problem->units, now->device);
    ARENA_ZEROS(arena, problem->accelerators, now->room);
    ARENA_ZEROS(arena, problem->nets, now->net_mark);
    if (arena->failed)
        return;
    for (int32_t i = 0; i < problem->subgraphs; i++) {
        now->first[i] = -1;
        now->listed[i] = now->place[i] = i;
    }
    for (int32_t a = 0; a < problem->accelerators; a++)
        now->room[a] = problem->memory;
    for (int32_t unit = 0; unit < problem->units; unit++) {
        now->device[unit] = POOL;
        move_unit(now, unit, owner_of(now, placement->subgraph[problem->member[problem->unit_start[unit]]]));
    }
    for (int32_t v = 0; v < problem->nodes; v++) {
        const int32_t own = placement->subgraph[v];
        join(now, v, own);
        for (int64_t i = problem->in_start[v]; i < problem->in_start[v + 1] && own >= 0; i++)
            now->incoming[own] += placement->subgraph[problem->in[i]] != own;
    }
    for (int32_t i = 0; i < now->active; i++)
        now->duration[now->listed[i]] = duration_of(now, now->listed[i]);
}
