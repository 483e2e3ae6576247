/* A move is abandoned as soon as a node must end too late for any energy that would be accepted. */
#include "placement/latency/anneal_latency.h"

#include "common/anneal.h"
#include "placement/latency/latency_moves.h"
#include "placement/latency/simulate_latency.h"

struct annealing {
    struct arena arena;
    struct subgraphs now;
    struct simulation simulation;
    struct latency_moves moves;
    struct shard_latency_placement *best; /* the caller's */
    double *cost;                         /* 1 element, the caller's */
};

static void save_best(struct annealing *annealing) {
    const struct shard_latency_problem *problem = annealing->now.problem;
    const struct shard_latency_placement *now = annealing->now.placement, *best = annealing->best;
    const size_t subgraphs = (size_t)problem->subgraphs;
    *annealing->cost = annealing->simulation.last;
    memcpy(best->subgraph, now->subgraph, (size_t)problem->nodes * sizeof *best->subgraph);
    memcpy(best->owner, now->owner, subgraphs * sizeof *best->owner);
    memcpy(best->delay, now->delay, subgraphs * sizeof *best->delay);
    memcpy(best->merged, now->merged, (size_t)problem->accelerators * sizeof *best->merged);
}

/* Make a move and keep it if the energy is at most a limit; otherwise undo it. */
static bool try_move(struct annealing *annealing, double *energy, double limit) {
    struct subgraphs *now = &annealing->now;
    const struct latency_moves *moves = &annealing->moves;
    if (make_move(&annealing->moves, *energy)) {
        for (int32_t i = 0; i < moves->dirtied; i++)
            if (now->count[moves->dirty[i]] > 0)
                now->duration[moves->dirty[i]] = duration_of(now, moves->dirty[i]);
        const double found = simulate(&annealing->simulation, limit);
        if (found <= limit) {
            *energy = found;
            return true;
        }
    }
    undo_move(&annealing->moves);
    return false;
}

static void anneal(struct annealing *annealing, const struct shard_latency_cooling *cooling, double energy) {
    double temperature = cooling->hot;
    for (int64_t i = 0; i < cooling->moves; i++) {
        if (i % COOLING_INTERVAL == 0)
            temperature = cooling->hot * anneal_cooling(cooling->hot, cooling->cold, i, cooling->moves);
        const double limit = energy + anneal_allowance(&annealing->moves.random, temperature);
        if (try_move(annealing, &energy, limit) &&
            annealing->simulation.last < *annealing->cost * (1.0 - COST_TOLERANCE))
            save_best(annealing);
    }
}

int shard_anneal_latency(const struct shard_latency_problem *problem,
                         const struct shard_latency_cooling *cooling, uint64_t *random,
                         struct shard_latency_placement *now, struct shard_latency_placement *best,
                         double *cost) {
    struct annealing annealing = {
        .simulation = {.mean_weight = cooling->mean_weight},
        .moves = {.random = {*random}},
        .best = best,
        .cost = cost,
    };
    subgraphs_begin(&annealing.now, problem, now, &annealing.arena);
    simulation_begin(&annealing.simulation, &annealing.now, &annealing.arena);
    latency_moves_begin(&annealing.moves, &annealing.now, &annealing.arena);
    int status = arena_status(&annealing.arena);
    if (status == SHARD_OK) {
        const double energy = simulate(&annealing.simulation, (double)INFINITY);
        if (isinf(energy)) {
            status = SHARD_CYCLE;
        } else {
            if (annealing.simulation.last < *cost)
                save_best(&annealing);
            if (problem->nodes > 0)
                anneal(&annealing, cooling, energy);
            *random = annealing.moves.random.state;
        }
    }
    arena_free(&annealing.arena);
    return status;
}
