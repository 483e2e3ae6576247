#include "hybrid/chains/chain.h"

#include "hybrid/chains/absorption.h"
#include "hybrid/choices/greedy_choice.h"
#include "hybrid/choices/priced_choice.h"
#include "hybrid/walk.h"

/* Stages of an ideal, the first of them on top of a state of a smaller ideal. */
struct state {
    int64_t devices, sum; /* used in total, and the sum of data-parallel degrees */
    int32_t ideal, from;  /* the smaller ideal and its state; -1 for the empty one */
    int32_t degree, replicas;
};

/* Undominated states, by ascending sum and descending devices. */
struct front {
    struct state *state; /* owned */
    int32_t count, room;
};

struct chain {
    const struct shard_hybrid *problem;
    struct costs costs;
    struct suffixes suffixes;
    struct stage stage;
    struct walk walk;
    struct chooser chooser;
    struct prices prices;
    struct absorption absorption;
    struct front *front;   /* one per ideal */
    int64_t *work_devices; /* one per ideal: least number for the nodes before */
    int32_t
        *pending; /* owned, pending_room elements: states that no number of replicas has extended so far */
    int32_t pending_room;
    int32_t last; /* the ideal of all nodes */
    int32_t base; /* the ideal that grows */
    bool greedy;  /* choose configurations as the published program does */
    bool failed, found;
    struct state first; /* the first stage of the pipeline, if found */
};

/* Position of the first state with a sum above s. */
static int32_t above(const struct front *front, int64_t s) {
    int32_t low = 0, high = front->count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (front->state[middle].sum > s)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static bool front_dominates(const struct front *front, int64_t devices, int64_t s) {
    const int32_t at = above(front, s);
    return at && front->state[at - 1].devices <= devices;
}

/* Insert an undominated state and drop those that it dominates; false if there is no memory. */
static bool front_insert(struct front *front, struct state one) {
    int32_t at = above(front, one.sum), end = at;
    while (at && front->state[at - 1].sum == one.sum)
        at--;
    while (end < front->count && front->state[end].devices >= one.devices)
        end++;
    if (front->count == front->room && at == end) {
        const int32_t room = 2 * front->room + 8;
        struct state *moved = realloc(front->state, (size_t)room * sizeof *moved);
        if (!moved)
            return false;
        front->state = moved;
        front->room = room;
    }
    memmove(front->state + at + 1, front->state + end, (size_t)(front->count - end) * sizeof one);
    front->state[at] = one;
    front->count += 1 - (end - at);
    return true;
}

/* Choose the configurations of the stage; see choose. */
static int128 choice(struct chain *chain, int32_t t, int32_t d, int64_t y, bool any) {
    const int128 limit = chain->problem->replicas[d] * chain->costs.limit;
    return chain->greedy ? choose_greedily(&chain->chooser, t, d, y, limit)
                         : choose(&chain->chooser, t, d, y, limit, any);
}

/* True if the stage fits with y microbatches in flight, within the limit. */
static bool fits(struct chain *chain, int32_t t, int32_t d, int64_t y) {
    const struct sums *sums = stage_sums(&chain->stage, t, d);
    if (sums->stashed * y + sums->kept <= chain->costs.room)
        return true;
    if (stage_grown(&chain->stage, t)->least_stashed * y + sums->least_kept > chain->costs.room)
        return false;
    if (!chain->greedy) {
        const int128 limit = chain->problem->replicas[d] * chain->costs.limit;
        const enum verdict verdict = decide_by_price(&chain->prices, &chain->stage, t, d, y, limit);
        if (verdict != UNDECIDED)
            return verdict == FITS;
    }
    return choice(chain, t, d, y, true) >= 0;
}

/* Drop the pending states that no number of replicas, from this one on, can extend to something new. */
static int32_t still_pending(struct chain *chain, int32_t target, int32_t count, int64_t devices,
                             int64_t replicas) {
    const struct front *front = chain->front + chain->base;
    int32_t kept = 0;
    for (int32_t i = 0; i < count; i++) {
        const struct state *state = front->state + chain->pending[i];
        const int64_t k = state->devices + devices, s = state->sum + replicas;
        if (may_complete(&chain->suffixes, chain->problem, target, k, s, chain->work_devices[target]) &&
            !front_dominates(chain->front + target, k, s))
            chain->pending[kept++] = chain->pending[i];
    }
    return kept;
}

/* Number of the first pending states on which the stage fits; more microbatches in flight never help. */
static int32_t fitting(struct chain *chain, int32_t t, int32_t d, int32_t count) {
    const struct front *front = chain->front + chain->base;
    const int64_t replicas = chain->problem->replicas[d];
    const struct sums *sums = stage_sums(&chain->stage, t, d);
    const int64_t most = in_flight(front->state[chain->pending[count - 1]].sum, replicas);
    if (sums->stashed * most + sums->kept <= chain->costs.room)
        return count;
    if (!fits(chain, t, d, in_flight(front->state[chain->pending[0]].sum, replicas)))
        return 0;
    int32_t low = 1, high = count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (fits(chain, t, d, in_flight(front->state[chain->pending[middle]].sum, replicas)))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Extend the states of the base by the stage with a tensor-parallel degree. */
static void extend_with(struct chain *chain, int32_t target, int32_t t) {
    const struct shard_hybrid *problem = chain->problem;
    const struct front *front = chain->front + chain->base;
    int32_t count = front->count;
    for (int32_t i = 0; i < count; i++)
        chain->pending[i] = i;
    for (int32_t d = 0; d < chain->costs.counts && count && !chain->failed; d++) {
        const int64_t replicas = problem->replicas[d], devices = replicas * problem->degree[t];
        if (devices > chain->stage.devices)
            return;
        if (stage_sums(&chain->stage, t, d)->time > replicas * chain->costs.limit)
            continue;
        count = still_pending(chain, target, count, devices, replicas);
        const int32_t good = count ? fitting(chain, t, d, count) : 0;
        for (int32_t i = 0; i < good; i++) {
            const int32_t from = chain->pending[i];
            const struct state one = {front->state[from].devices + devices,
                                      front->state[from].sum + replicas,
                                      chain->base,
                                      from,
                                      t,
                                      d};
            if (target == chain->last) {
                chain->first = one;
                chain->found = true;
                return;
            }
            if (!front_dominates(chain->front + target, one.devices, one.sum))
                chain->failed |= !front_insert(chain->front + target, one);
        }
        count -= good;
        memmove(chain->pending, chain->pending + good, (size_t)count * sizeof *chain->pending);
    }
}

static bool extend_states(void *context, int32_t target) {
    struct chain *chain = context;
    for (int32_t t = 0; t < chain->problem->degrees; t++)
        if (stage_grown(&chain->stage, t)->alive && !chain->found && !chain->failed)
            extend_with(chain, target, t);
    return !chain->found && !chain->failed && !chain->chooser.failed;
}

/* Extend the states of an ideal by stages. */
static void extend_ideal(struct chain *chain, int32_t ideal) {
    const struct front *front = chain->front + ideal;
    const int64_t left = chain->problem->devices - front->state[front->count - 1].devices;
    if (front->count > chain->pending_room) {
        int32_t *moved = realloc(chain->pending, 2 * (size_t)front->count * sizeof *moved);
        if (!moved) {
            chain->failed = true;
            return;
        }
        chain->pending = moved;
        chain->pending_room = 2 * front->count;
    }
    chain->base = ideal;
    chain->stage.devices = left;
    chain->stage.least_after = front->state[0].sum;
    walk_from(&chain->walk, ideal, left < 2 * chain->problem->degree[0]);
}

static void fill_work_devices(struct chain *chain) {
    for (int64_t i = 0; i <= chain->last; i++) {
        const int128 devices = (chain->suffixes.work[i] + chain->costs.limit - 1) >> LIMIT_BITS;
        const int128 most = chain->problem->devices + 1;
        chain->work_devices[i] = (int64_t)(devices < most ? devices : most);
    }
}

/* Follow the states from the first stage to the last one, and choose the best configurations of each. */
static void trace(struct chain *chain, int32_t *stages, int32_t *stage, int64_t *configuration,
                  int32_t *degree, int32_t *replicas) {
    struct state at = chain->first;
    chain->chooser.stop = NULL;
    memset(stage, 0, (size_t)chain->problem->dag.nodes * sizeof *stage);
    for (int32_t number = 0; at.ideal >= 0 && !chain->chooser.failed; number++) {
        rebuild_stage(&chain->suffixes, &chain->stage, at.ideal, number, stage);
        const struct state before = chain->front[at.ideal].state[at.from];
        const int64_t y = in_flight(before.sum, chain->problem->replicas[at.replicas]);
        if (choice(chain, at.degree, at.replicas, y, false) < 0)
            (void)choice(chain, at.degree, at.replicas, y, true); /* the best is out of reach */
        take_apart(&chain->stage, chain->chooser.chosen, configuration);
        degree[number] = at.degree;
        replicas[number] = at.replicas;
        *stages = number + 1;
        at = before;
    }
}

/* Drop the states of a front that those of a larger ideal's front dominate. */
static void drop_dominated(struct front *front, const struct front *larger) {
    int32_t kept = 0;
    for (int32_t i = 0; i < front->count; i++)
        if (!front_dominates(larger, front->state[i].devices, front->state[i].sum))
            front->state[kept++] = front->state[i];
    front->count = kept;
}

/* Drop the states of an ideal that are dominated by those of larger ones from which it is never worse to go on. */
static void drop_absorbed(struct chain *chain, int32_t ideal) {
    struct front *front = chain->front + ideal;
    struct absorption *absorption = &chain->absorption;
    absorption_begin(absorption, ideal);
    while (front->count && absorption_grow(absorption)) {
        const struct front *larger = chain->front + absorption->ideal;
        bool some = false;
        for (int32_t i = 0; i < front->count && !some; i++)
            some = front_dominates(larger, front->state[i].devices, front->state[i].sum);
        if (some && absorption_is_safe(absorption))
            drop_dominated(front, larger);
    }
    absorption_end(absorption);
}

static void search(struct chain *chain) {
    const struct state nothing = {.ideal = -1, .from = -1};
    chain->failed = !front_insert(chain->front, nothing);
    for (int32_t i = 0; i < chain->last && !chain->walk.over; i++) {
        if (!chain->front[i].count)
            continue;
        mark_after(&chain->suffixes, &chain->stage, i);
        if (!chain->greedy)
            drop_absorbed(chain, i);
        if (chain->front[i].count)
            extend_ideal(chain, i);
    }
}

int shard_hybrid_chain(const struct shard_hybrid *problem, int64_t ideals, const int64_t *link_start,
                       const int32_t *link_node, const int32_t *link_ideal, const int8_t *border,
                       double limit, int32_t greedy, const int32_t *stop, int32_t *stages, int32_t *stage,
                       int64_t *configuration, int32_t *degree, int32_t *replicas) {
    struct chain chain = {.problem = problem, .last = (int32_t)(ideals - 1), .greedy = greedy};
    struct arena arena = {0};
    *stages = 0;
    costs_init(&chain.costs, &arena, problem, limit, PER_SAMPLE);
    ARENA_ZEROS(&arena, ideals, chain.front);
    struct branch *path;
    ARENA_ARRAYS(&arena, ideals, chain.work_devices);
    ARENA_ARRAYS(&arena, problem->dag.nodes + 1, path);
    bool possible = false;
    if (!arena.failed) {
        const struct ideals listed = {ideals, link_start, link_node, link_ideal, border};
        possible = suffixes_init(&chain.suffixes, &arena, &chain.costs, listed);
        stage_init(&chain.stage, &arena, &chain.costs);
        prices_init(&chain.prices, &arena, &chain.costs);
        absorption_init(&chain.absorption, &arena, &chain.suffixes, &chain.stage);
    }
    if (possible && !arena.failed) {
        chooser_init(&chain.chooser, &chain.stage, stop);
        chain.walk = (struct walk){.stage = &chain.stage,
                                   .path = path,
                                   .suffixes = &chain.suffixes,
                                   .stop = stop,
                                   .visit = extend_states,
                                   .context = &chain};
        fill_work_devices(&chain);
        if (!chain.chooser.failed)
            search(&chain);
        if (chain.found)
            trace(&chain, stages, stage, configuration, degree, replicas);
        else if (chain.walk.stopped)
            *stages = -1;
        chooser_free(&chain.chooser);
    }
    const bool failed = arena.failed || chain.failed || chain.chooser.failed;
    for (int64_t i = 0; i < ideals && chain.front; i++)
        free(chain.front[i].state);
    free(chain.pending);
    arena_free(&arena);
    const bool undecided = chain.chooser.undecided && !*stages;
    return failed ? SHARD_NO_MEMORY : undecided ? SHARD_UNDECIDED : SHARD_OK;
}
