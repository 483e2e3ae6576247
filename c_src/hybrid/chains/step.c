#include "hybrid/chains/step.h"

#include <float.h>

#include "hybrid/chains/completion.h"
#include "hybrid/chains/completion_table.h"

/* Entries of the table that may be compared per state that is made. */
#define ENTRIES_PER_STATE 8

/* Stages of an ideal, the first of them on top of a state of a smaller ideal. Times are in units of 2^-LIMIT_BITS
 * limits. */
struct state {
    double time;         /* sum over the stages, of one microbatch each */
    double repeated;     /* the longest of batch / d - 1 microbatches */
    double synchronised; /* the longest */
    int32_t devices, sum;
    int32_t ideal, from; /* the smaller ideal and its state; -1 for the empty one */
    int32_t degree, replicas;
};

struct front {
    struct state *state; /* owned */
    int32_t count, room;
};

/* Time and synchronisation of a stage. */
struct offer {
    double time, synchronised;
};

struct step {
    const struct shard_hybrid *problem;
    struct costs costs;
    struct suffixes suffixes;
    struct completion completion;
    struct completion_table table;
    struct stage stage;
    struct walk walk;
    struct chooser chooser;
    struct front *front;   /* one per ideal */
    int64_t *work_devices; /* [ideal]: least number for the nodes before, by work */
    double *time, *work;   /* [ideal]: as in suffixes; work is times the batch */
    int32_t last, base;    /* the ideal of all nodes; the one that grows */
    double least_repeated; /* states begin with this repeated time */
    double most_repeated;  /* states end at this */
    double limit;          /* of the whole batch: the best so far */
    double rounding;       /* sums over stages are off by less than this, relatively */
    int64_t states;        /* made so far, kept or not */
    bool failed, found;
    struct state first;  /* the first stage of the pipeline in the best batch */
    struct offer *offer; /* owned: what the stage can do, by ascending time and descending synchronisation */
    int32_t offers, offer_room;
};

static double total(const struct state *state) {
    return state->time + state->repeated + state->synchronised;
}

/* Least time of a batch that begins with the stages of a state, and has the nodes before `ideal` in other stages. Each
 * of those has a repeated time r and its own time l with r + l = batch * l / d, so devices * (r + longest l) is at least
 * the sum of batch * t * l. */
static double least_total(const struct step *step, const struct state *state, int32_t ideal) {
    if (ideal == step->last)
        return total(state);
    const double left = (double)(step->problem->devices - state->devices);
    const double alone = step->work[ideal] / left, after = state->repeated + step->time[ideal];
    const double least = alone > after ? alone : after;
    const double known = state->time + state->synchronised;
    if (known + least > step->limit * (1 + step->rounding))
        return known + least;
    const int64_t devices = step->problem->devices - state->devices;
    const double priced = ideal ? least_completion(&step->completion, ideal, devices, state->repeated) : 0;
    const double tabled = state->repeated + tabled_completion(&step->table, ideal, state->sum, devices);
    return known + fmax(fmax(least, priced), tabled);
}

static bool dominates(const struct state *a, const struct state *b) {
    if (a->devices > b->devices || a->sum > b->sum)
        return false;
    const double repeated = a->repeated - b->repeated, synchronised = a->synchronised - b->synchronised;
    return a->time + (repeated > 0 ? repeated : 0) + (synchronised > 0 ? synchronised : 0) <= b->time;
}

/* True if some state dominates this one. It then moves halfway to the front, as it probably dominates more. */
static bool front_dominates(struct front *front, const struct state *one) {
    for (int32_t i = 0; i < front->count; i++)
        if (dominates(front->state + i, one)) {
            const struct state found = front->state[i];
            front->state[i] = front->state[i / 2];
            front->state[i / 2] = found;
            return true;
        }
    return false;
}

/* Insert an undominated state and drop those that it dominates; false if there is no memory. */
static bool front_insert(struct front *front, struct state one) {
    int32_t kept = 0;
    for (int32_t i = 0; i < front->count; i++)
        if (!dominates(&one, front->state + i))
            front->state[kept++] = front->state[i];
    if (kept == front->room) {
        const int32_t room = 2 * front->room + 8;
        struct state *moved = realloc(front->state, (size_t)room * sizeof *moved);
        if (!moved)
            return false;
        front->state = moved;
        front->room = room;
    }
    front->state[kept] = one;
    front->count = kept + 1;
    return true;
}

static bool add_offer(struct step *step, int128 time, int128 synchronised) {
    if (step->offers == step->offer_room) {
        const int32_t room = 2 * step->offer_room + 8;
        struct offer *moved = realloc(step->offer, (size_t)room * sizeof *moved);
        if (!moved) {
            step->failed = true;
            return false;
        }
        step->offer = moved;
        step->offer_room = room;
    }
    step->offer[step->offers++] = (struct offer){(double)time, (double)synchronised};
    return true;
}

/* True if the configurations of every node of the stage have the same parameters. */
static bool is_alike(const struct step *step, int32_t t) {
    for (int32_t p = 0; p < step->stage.size; p++)
        if (!step->costs.alike[(int64_t)step->stage.node[p] * step->problem->degrees + t])
            return false;
    return true;
}

/* Synchronisation of the configurations chosen last. */
static int128 chosen_synchronised(const struct step *step, int32_t d) {
    int128 sum = 0;
    for (int32_t p = 0; p < step->stage.size; p++)
        sum += step->costs.synchronised[(int64_t)step->chooser.chosen[p] * step->costs.counts + d];
    return sum;
}

/* What the stage can do with y microbatches in flight: its least time and, if configurations differ in parameters, all
 * undominated pairs. The first `most` of them; `chosen` has the configurations of the last one. */
static void list_offers(struct step *step, int32_t t, int32_t d, int64_t y, int32_t most) {
    const int128 limit = stage_limit(&step->stage, step->problem->replicas[d]);
    const bool alike = is_alike(step, t);
    step->offers = 0;
    step->chooser.limit_synchronised = step->costs.limit;
    while (step->offers < most && !step->failed) {
        const int128 time = choose(&step->chooser, t, d, y, limit, false);
        if (time < 0)
            return;
        const int128 synchronised = chosen_synchronised(step, d);
        if (!add_offer(step, time, synchronised) || alike)
            return;
        step->chooser.limit_synchronised = synchronised - 1;
    }
}

/* The state that a stage makes of state `from` of the base. */
static struct state extended(const struct step *step, int32_t from, int32_t t, int32_t d,
                             struct offer offer) {
    const struct state *state = step->front[step->base].state + from;
    const int64_t replicas = step->problem->replicas[d];
    const double rounds = (double)(step->problem->batch / replicas - 1);
    struct state one = {.time = state->time + offer.time,
                        .repeated = rounds * offer.time,
                        .synchronised = offer.synchronised,
                        .devices = state->devices + (int32_t)(replicas * step->problem->degree[t]),
                        .sum = state->sum + (int32_t)replicas,
                        .ideal = step->base,
                        .from = from,
                        .degree = t,
                        .replicas = d};
    one.repeated = state->repeated > one.repeated ? state->repeated : one.repeated;
    one.synchronised = state->synchronised > one.synchronised ? state->synchronised : one.synchronised;
    return one;
}

/* True if a state may lead to a batch within the limit that no known state leads to. */
static bool is_new(const struct step *step, int32_t target, const struct state *one) {
    return one->repeated <= step->most_repeated &&
           may_complete(&step->suffixes, step->problem, target, one->devices, one->sum,
                        step->work_devices[target]) &&
           least_total(step, one, target) <= step->limit * (1 + step->rounding) &&
           !front_dominates(step->front + target, one);
}

static void keep(struct step *step, int32_t target, struct state one) {
    if (target < step->last) {
        step->failed |= !front_insert(step->front + target, one);
        return;
    }
    step->first = one;
    step->found = true;
    step->limit = total(&one) * (1 - 4 * step->rounding);
}

/* Extend the states of the base by the stage with a pair of degrees. They ascend by the microbatches in flight, with
 * which the stage takes no less time. */
static void extend_with(struct step *step, int32_t target, int32_t t, int32_t d) {
    const struct front *front = step->front + step->base;
    const struct sums *sums = stage_sums(&step->stage, t, d);
    struct offer least = {(double)sums->time, (double)sums->synchronised};
    const int128 least_stashed = stage_grown(&step->stage, t)->least_stashed;
    const int64_t replicas = step->problem->replicas[d], devices = replicas * step->problem->degree[t];
    int64_t listed = 0; /* microbatches in flight of the offers */
    for (int32_t from = 0; from < front->count && !step->failed && !step->chooser.failed; from++) {
        step->states++;
        const int64_t y = in_flight(front->state[from].sum, replicas);
        if (least_stashed * y + sums->least_kept > step->costs.room)
            return;
        if (front->state[from].devices + devices > step->problem->devices ||
            front->state[from].sum + replicas > step->problem->batch)
            continue;
        const struct state one = extended(step, from, t, d, least);
        if (!is_new(step, target, &one))
            continue;
        if (listed != y) {
            list_offers(step, t, d, y, INT32_MAX);
            if (!step->offers)
                return;
            listed = y;
            least.time = step->offer[0].time;
        }
        for (int32_t i = 0; i < step->offers; i++) {
            const struct state better = extended(step, from, t, d, step->offer[i]);
            if (is_new(step, target, &better))
                keep(step, target, better);
        }
    }
}

static bool extend_states(void *context, int32_t target) {
    struct step *step = context;
    for (int32_t t = 0; t < step->problem->degrees; t++) {
        if (!stage_grown(&step->stage, t)->alive)
            continue;
        for (int32_t d = 0; d < step->costs.counts; d++) {
            const int64_t replicas = step->problem->replicas[d];
            if (replicas * step->problem->degree[t] > step->stage.devices)
                break;
            const double time = (double)stage_sums(&step->stage, t, d)->time;
            if (stage_sums(&step->stage, t, d)->time <= stage_limit(&step->stage, replicas) &&
                time * (double)(step->problem->batch / replicas - 1) <= step->most_repeated)
                extend_with(step, target, t, d);
        }
    }
    return !step->failed && !step->chooser.failed;
}

static int by_sum(const void *a, const void *b) {
    const struct state *x = a, *y = b;
    if (x->sum != y->sum)
        return x->sum < y->sum ? -1 : 1;
    return x->time < y->time ? -1 : x->time > y->time;
}

/* Drop the states that no longer may lead to a batch within the limit. */
static void drop_refuted(struct step *step, int32_t ideal) {
    struct front *front = step->front + ideal;
    int32_t kept = 0;
    for (int32_t i = 0; i < front->count; i++)
        if (least_total(step, front->state + i, ideal) <= step->limit * (1 + step->rounding))
            front->state[kept++] = front->state[i];
    front->count = kept;
}

/* Extend the states of an ideal by stages. */
static void extend_ideal(struct step *step, int32_t ideal) {
    const struct front *front = step->front + ideal;
    drop_refuted(step, ideal);
    if (!front->count)
        return;
    int64_t most = 0, least_after = INT64_MAX;
    double time = INFINITY;
    for (int32_t i = 0; i < front->count; i++) {
        const int64_t left = step->problem->devices - front->state[i].devices;
        most = left > most ? left : most;
        least_after = front->state[i].sum < least_after ? front->state[i].sum : least_after;
        time = front->state[i].time < time ? front->state[i].time : time;
    }
    qsort(front->state, (size_t)front->count, sizeof *front->state, by_sum);
    step->base = ideal;
    step->stage.devices = most;
    step->stage.least_after = least_after;
    step->stage.limit = (int128)((step->limit - time) * (1 + step->rounding));
    mark_after(&step->suffixes, &step->stage, ideal);
    walk_from(&step->walk, ideal, most < 2 * step->problem->degree[0]);
}

static void search(struct step *step) {
    const struct state nothing = {.repeated = step->least_repeated, .ideal = -1, .from = -1};
    step->failed = !front_insert(step->front, nothing);
    for (int32_t i = 0; i < step->last && !step->walk.over && !step->failed; i++)
        if (completion_table_fill(&step->table, ENTRIES_PER_STATE * step->states, &step->walk))
            extend_ideal(step, i);
        else
            step->walk.stopped = step->walk.over = true;
}

/* Choose the configurations of the stage that makes the state `at`; false if choices left open hide them. */
static bool choose_again(struct step *step, const struct state *at) {
    const struct state *before = step->front[at->ideal].state + at->from;
    const int64_t y = in_flight(before->sum, step->problem->replicas[at->replicas]);
    step->base = at->ideal;
    list_offers(step, at->degree, at->replicas, y, INT32_MAX);
    const int32_t offers = step->offers;
    for (int32_t i = 0; i < offers; i++) {
        const struct state again = extended(step, at->from, at->degree, at->replicas, step->offer[i]);
        if (again.time <= at->time * (1 + step->rounding) &&
            again.repeated <= at->repeated * (1 + step->rounding) &&
            again.synchronised <= at->synchronised * (1 + step->rounding)) {
            list_offers(step, at->degree, at->replicas, y, i + 1);
            return true;
        }
    }
    return false;
}

/* Follow the states from the first stage to the last one. */
static void trace(struct step *step, int32_t *stages, int32_t *stage, int64_t *configuration, int32_t *degree,
                  int32_t *replicas) {
    struct state at = step->first;
    memset(stage, 0, (size_t)step->problem->dag.nodes * sizeof *stage);
    step->stage.limit = step->costs.limit;
    step->chooser.stop = NULL;
    for (int32_t number = 0; at.ideal >= 0 && !step->failed && !step->chooser.failed; number++) {
        rebuild_stage(&step->suffixes, &step->stage, at.ideal, number, stage);
        const bool known = choose_again(step, &at);
        take_apart(&step->stage, step->chooser.chosen, configuration);
        degree[number] = at.degree;
        replicas[number] = at.replicas;
        *stages = known ? number + 1 : 0;
        if (!known)
            return;
        at = step->front[at.ideal].state[at.from];
    }
}

static void fill_least(struct step *step) {
    step->limit = (double)step->costs.limit;
    for (int64_t i = 0; i <= step->last; i++) {
        step->time[i] = (double)step->suffixes.time[i];
        step->work[i] = (double)step->suffixes.work[i] * (double)step->problem->batch;
        const double devices = step->work[i] / (step->most_repeated + step->completion.longest) * (1 - 1e-9);
        step->work_devices[i] = (int64_t)ceil(devices < 2e9 ? devices : 2e9);
    }
}

int shard_hybrid_step(const struct shard_hybrid *problem, int64_t ideals, const int64_t *link_start,
                      const int32_t *link_node, const int32_t *link_ideal, const int8_t *border, double limit,
                      double least_repeated, double most_repeated, const int32_t *stop, int32_t *stages,
                      int32_t *stage, int64_t *configuration, int32_t *degree, int32_t *replicas) {
    struct step step = {.problem = problem, .last = (int32_t)(ideals - 1)};
    step.rounding = fmax(1e-13, DBL_EPSILON * (double)problem->dag.nodes);
    step.least_repeated = ldexp(least_repeated / limit, LIMIT_BITS);
    step.most_repeated = ldexp(most_repeated / limit, LIMIT_BITS);
    struct arena arena = {0};
    *stages = 0;
    costs_init(&step.costs, &arena, problem, limit, ONE_PASS);
    ARENA_ZEROS(&arena, ideals, step.front);
    struct branch *path;
    ARENA_ARRAYS(&arena, ideals, step.time, step.work, step.work_devices);
    ARENA_ARRAYS(&arena, problem->dag.nodes + 1, path);
    bool possible = false;
    if (!arena.failed) {
        const struct ideals listed = {ideals, link_start, link_node, link_ideal, border};
        possible = suffixes_init(&step.suffixes, &arena, &step.costs, listed);
        stage_init(&step.stage, &arena, &step.costs);
        if (possible)
            completion_init(&step.completion, &arena, &step.costs, &step.suffixes);
    }
    if (possible && !arena.failed) {
        chooser_init(&step.chooser, &step.stage, stop);
        step.walk = (struct walk){.stage = &step.stage,
                                  .path = path,
                                  .suffixes = &step.suffixes,
                                  .stop = stop,
                                  .visit = extend_states,
                                  .context = &step};
        completion_table_init(&step.table, &arena, &step.stage, &step.chooser, &step.suffixes,
                              step.most_repeated);
        fill_least(&step);
        if (!step.chooser.failed)
            search(&step);
        if (step.walk.stopped)
            *stages = -1;
        else if (step.found)
            trace(&step, stages, stage, configuration, degree, replicas);
        chooser_free(&step.chooser);
    }
    const bool failed = arena.failed || step.failed || step.chooser.failed;
    for (int64_t i = 0; i < ideals && step.front; i++)
        free(step.front[i].state);
    free(step.offer);
    arena_free(&arena);
    const bool undecided = step.chooser.undecided && *stages >= 0;
    return failed ? SHARD_NO_MEMORY : undecided ? SHARD_UNDECIDED : SHARD_OK;
}
