/* One pass in order of time: nodes of the pool as they become ready, subgraphs from a heap. */
#include "placement/latency/simulate_latency.h"

/* Queue a subgraph whose inputs have arrived for its accelerator. */
static void push(struct simulation *simulation, int32_t subgraph) {
    const double delay = simulation->now->placement->delay[subgraph];
    const struct ready_subgraph ready = {simulation->subgraph_ready[subgraph] + delay, subgraph};
    ready_heap_push(&simulation->heap, ready);
}

/* Release the successors of a node that ends. False if one of them, or the node, ends after a limit. */
static inline bool release(struct simulation *simulation, int32_t v, double end, double limit) {
    const struct shard_latency_problem *problem = simulation->now->problem;
    const int32_t *subgraph = simulation->now->placement->subgraph, own = subgraph[v];
    for (int64_t i = problem->out_start[v]; i < problem->out_start[v + 1]; i++) {
        const int32_t w = problem->out[i], of = subgraph[w];
        if (of < 0) {
            simulation->ready[w] = end > simulation->ready[w] ? end : simulation->ready[w];
            if (--simulation->left[w] == 0)
                simulation->queue[simulation->queued++] = w;
        } else if (of != own) {
            simulation->subgraph_ready[of] =
                end > simulation->subgraph_ready[of] ? end : simulation->subgraph_ready[of];
            if (--simulation->subgraph_left[of] == 0)
                push(simulation, of);
        }
        if (end + problem->tail[w] > limit && (of < 0 || of != own))
            return false;
    }
    return end <= limit;
}

static void restart(struct simulation *simulation) {
    const size_t n = (size_t)simulation->now->problem->nodes;
    memcpy(simulation->left, simulation->indegree, n * sizeof *simulation->left);
    memset(simulation->ready, 0, n * sizeof *simulation->ready);
    memset(simulation->free_at, 0,
           (size_t)simulation->now->problem->accelerators * sizeof *simulation->free_at);
    simulation->heap.count = 0;
    simulation->queued = 0;
    simulation->last = simulation->sum = 0.0;
    for (int32_t i = 0; i < simulation->sources; i++)
        if (simulation->now->placement->subgraph[simulation->source[i]] < 0)
            simulation->queue[simulation->queued++] = simulation->source[i];
    for (int32_t i = 0; i < simulation->now->active; i++) {
        const int32_t subgraph = simulation->now->listed[i];
        simulation->subgraph_ready[subgraph] = 0.0;
        simulation->subgraph_left[subgraph] = simulation->now->incoming[subgraph];
        if (simulation->now->incoming[subgraph] == 0)
            push(simulation, subgraph);
    }
}

static inline void write_end(struct simulation *simulation, int32_t v, double end, int32_t turn) {
    if (simulation->finish) {
        simulation->finish[v] = end;
        simulation->turn[v] = turn;
    }
}

/* Run a subgraph as soon as its accelerator is free; return its end, infinite if a node ends after a
 * limit. */
static double run_subgraph(struct simulation *simulation, int32_t subgraph, double limit, int32_t turn) {
    double *free_at = &simulation->free_at[simulation->now->placement->owner[subgraph]];
    const double start =
        simulation->subgraph_ready[subgraph] > *free_at ? simulation->subgraph_ready[subgraph] : *free_at;
    const double end = *free_at = start + simulation->now->duration[subgraph];
    for (int32_t v = simulation->now->first[subgraph]; v >= 0; v = simulation->now->next[v]) {
        write_end(simulation, v, end, turn);
        if (!release(simulation, v, end, limit))
            return (double)INFINITY;
    }
    return end;
}

static void add_ends(struct simulation *simulation, double end, int32_t nodes) {
    simulation->last = end > simulation->last ? end : simulation->last;
    simulation->sum += end * nodes;
}

double simulate(struct simulation *simulation, double limit) {
    const struct shard_latency_problem *problem = simulation->now->problem;
    const double penalties = problem->pool_penalty * simulation->now->pooled;
    const double each = problem->nodes > 0 ? simulation->mean_weight / problem->nodes : 0.0;
    int32_t head = 0, done = 0;
    restart(simulation);
    for (int32_t turn = 0;; turn++) {
        for (; head < simulation->queued; head++, done++) {
            const int32_t v = simulation->queue[head];
            const double end = simulation->ready[v] + problem->cpu_time[v];
            add_ends(simulation, end, 1);
            write_end(simulation, v, end, -1);
            if (!release(simulation, v, end, limit - penalties - each * simulation->sum))
                return (double)INFINITY;
        }
        if (simulation->heap.count == 0)
            break;
        const int32_t subgraph = ready_heap_pop(&simulation->heap).subgraph;
        const double end =
            run_subgraph(simulation, subgraph, limit - penalties - each * simulation->sum, turn);
        if (isinf(end))
            return end;
        add_ends(simulation, end, simulation->now->count[subgraph]);
        done += simulation->now->count[subgraph];
    }
    simulation->last += penalties;
    const double found = simulation->last + each * simulation->sum;
    return done == problem->nodes && found <= limit ? found : (double)INFINITY;
}

void simulation_begin(struct simulation *simulation, const struct subgraphs *now, struct arena *arena) {
    const struct shard_latency_problem *problem = now->problem;
    simulation->now = now;
    ARENA_ZEROS(arena, problem->nodes, simulation->indegree, simulation->source, simulation->left,
                simulation->ready, simulation->queue);
    ARENA_ZEROS(arena, problem->subgraphs, simulation->subgraph_left, simulation->subgraph_ready,
                simulation->heap.item);
    ARENA_ZEROS(arena, problem->accelerators, simulation->free_at);
    for (int32_t v = 0; v < problem->nodes && !arena->failed; v++) {
        simulation->indegree[v] = (int32_t)(problem->in_start[v + 1] - problem->in_start[v]);
        if (simulation->indegree[v] == 0)
            simulation->source[simulation->sources++] = v;
    }
}

int shard_latency_schedule(const struct shard_latency_problem *problem,
                           struct shard_latency_placement *placement, double *finish, int32_t *turn,
                           double *cost) {
    struct arena arena = {0};
    struct subgraphs now = {0};
    struct simulation simulation = {.finish = finish, .turn = turn};
    subgraphs_begin(&now, problem, placement, &arena);
    simulation_begin(&simulation, &now, &arena);
    int status = arena_status(&arena);
    if (status == SHARD_OK) {
        status = isinf(simulate(&simulation, (double)INFINITY)) ? SHARD_CYCLE : SHARD_OK;
        *cost = simulation.last;
    }
    arena_free(&arena);
    return status;
}
