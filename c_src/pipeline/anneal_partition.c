/* Each step draws a node and a stage that it may go to. */
#include "pipeline/anneal_partition.h"

#include "common/anneal.h"
#include "pipeline/partition.h"

/* Every RUN_INTERVAL-th step moves a run of nodes. */
#define RUN_INTERVAL 8

/* Moves after which all costs are recomputed, to clear rounding errors. */
#define RECOUNT_INTERVAL (INT64_C(1) << 22)

struct annealer {
    struct partition partition;
    struct random random;
    const struct shard_annealing *options;
    double temperature;
    double best;          /* least greatest cost of a stage so far */
    double target;        /* cost beyond which a stage has energy */
    double limit;         /* a stage that costs this is no better than the best */
    int32_t above;        /* stages that cost `limit` or more */
    bool kept;            /* the best partition is in `order` and `cut` */
    int32_t *first_order; /* nodes elements: the first order */
    int32_t *order, *cut;
};

/* Save the best partition unless it is saved: of several improvements in a row, only the last is saved. */
static void keep(struct annealer *annealer) {
    if (!annealer->kept)
        partition_slicing(&annealer->partition, annealer->first_order, annealer->order, annealer->cut);
    annealer->kept = true;
}

static int32_t count_above(const struct annealer *annealer) {
    int32_t above = 0;
    for (int32_t b = 0; b < annealer->partition.problem->stages; b++)
        above += annealer->partition.stage[b].cost >= annealer->limit;
    return above;
}

static void measure(struct annealer *annealer) {
    annealer->best = 0.0;
    for (int32_t b = 0; b < annealer->partition.problem->stages; b++)
        annealer->best = fmax(annealer->best, annealer->partition.stage[b].cost);
    annealer->limit = annealer->best * (1.0 - COST_TOLERANCE);
    annealer->target = annealer->best * (1.0 - annealer->options->margin);
    annealer->above = count_above(annealer);
}

static void notice_improvement(struct annealer *annealer) {
    if (annealer->above > 0)
        return;
    measure(annealer);
    annealer->kept = false;
    if (annealer->partition.limited) /* the lists change before the next move is judged */
        keep(annealer);
}

static inline double energy(const struct annealer *annealer, double cost) {
    const double excess = cost - annealer->target;
    if (excess <= 0.0)
        return 0.0;
    return annealer->options->squared ? excess * excess / annealer->target : excess;
}

/* Draw the energy that the next move may add. */
static inline double draw_allowance(struct annealer *annealer) {
    return anneal_allowance(&annealer->random, annealer->temperature);
}

static inline void settle(struct annealer *annealer, int32_t b, const struct stage *then) {
    struct stage *now = &annealer->partition.stage[b];
    annealer->above += (then->cost >= annealer->limit) - (now->cost >= annealer->limit);
    *now = *then;
}

/* The energy added by the change of two stages. */
static inline double added_energy(const struct annealer *annealer, int32_t from, const struct stage *leaves,
                                  int32_t to, const struct stage *joins) {
    const struct stage *stage = annealer->partition.stage;
    return energy(annealer, leaves->cost) + energy(annealer, joins->cost) -
           energy(annealer, stage[from].cost) - energy(annealer, stage[to].cost);
}

/* Draw a rank from a range, mostly one of its ends: a neighbour is there, or there are no further ranks. */
static int32_t draw_rank(struct annealer *annealer, int32_t low, int32_t high) {
    const uint64_t bits = random_bits(&annealer->random);
    if (bits % 4 == 0)
        return low + random_below(&annealer->random, high - low + 1);
    return bits >> 63 ? low : high;
}

static void step(struct annealer *annealer) {
    struct partition *partition = &annealer->partition;
    const int32_t v = random_below(&annealer->random, partition->problem->nodes);
    const int32_t from = partition->home[v];
    int32_t low, high;
    struct stage leaves, joins;
    partition_rank_range(partition, v, &low, &high);
    const int32_t rank = draw_rank(annealer, low, high);
    if (rank == partition->rank[from])
        return;
    const int32_t to = partition->at[rank];
    partition_preview(partition, v, to, &leaves, &joins);
    const double added = added_energy(annealer, from, &leaves, to, &joins);
    if (added > 0.0 && added > draw_allowance(annealer))
        return;
    if (fmax(leaves.cost, joins.cost) >= annealer->limit)
        keep(annealer);
    partition_move(partition, v, to);
    settle(annealer, from, &leaves);
    settle(annealer, to, &joins);
    notice_improvement(annealer);
}

/* True if two stages with changed lists add at most the allowance; then their costs are complete. If the peak
 * of one is already too much, the list of the other is not walked. */
static bool is_accepted(struct annealer *annealer, int32_t from, struct stage *leaves, int32_t to,
                        struct stage *joins, double allowance) {
    struct partition *partition = &annealer->partition;
    if (partition->limited && added_energy(annealer, from, leaves, to, joins) <= allowance) {
        joins->cost = partition_cost(partition, joins, partition_peak(partition, to, joins->incoming));
        if (added_energy(annealer, from, leaves, to, joins) <= allowance)
            leaves->cost =
                partition_cost(partition, leaves, partition_peak(partition, from, leaves->incoming));
    }
    return added_energy(annealer, from, leaves, to, joins) <= allowance;
}

/* Try to run a node at another place in its stage. */
static void step_within(struct annealer *annealer, int32_t v, int32_t b) {
    struct partition *partition = &annealer->partition;
    const int32_t prior = partition->prior[v];
    struct stage then = partition->stage[b];
    partition_unlink(partition, v, b);
    partition_link(partition, v, b, partition_place(partition, v, b, &annealer->random));
    if (partition->prior[v] == prior)
        return;
    then.cost = partition_cost(partition, &then, partition_peak(partition, b, then.incoming));
    if (energy(annealer, then.cost) - energy(annealer, partition->stage[b].cost) <=
        draw_allowance(annealer)) {
        settle(annealer, b, &then);
        notice_improvement(annealer);
        return;
    }
    partition_unlink(partition, v, b);
    partition_link(partition, v, b, prior);
}

/* Try to move a node to another stage: make the move, as only then its peaks are known, or undo it. */
static void step_across(struct annealer *annealer, int32_t v, int32_t from, int32_t to) {
    struct partition *partition = &annealer->partition;
    const double allowance = draw_allowance(annealer);
    const int32_t prior = partition->prior[v];
    struct stage leaves, joins;
    partition_preview(partition, v, to, &leaves, &joins);
    if (added_energy(annealer, from, &leaves, to, &joins) > allowance)
        return;
    partition_unlink(partition, v, from);
    partition_link(partition, v, to, partition_place(partition, v, to, &annealer->random));
    partition_move(partition, v, to);
    if (is_accepted(annealer, from, &leaves, to, &joins, allowance)) {
        settle(annealer, from, &leaves);
        settle(annealer, to, &joins);
        notice_improvement(annealer);
        return;
    }
    partition_move(partition, v, from);
    partition_unlink(partition, v, to);
    partition_link(partition, v, from, prior);
}

static void step_limited(struct annealer *annealer) {
    struct partition *partition = &annealer->partition;
    const int32_t v = random_below(&annealer->random, partition->problem->nodes);
    const int32_t from = partition->home[v];
    int32_t low, high;
    partition_rank_range(partition, v, &low, &high);
    const int32_t to = partition->at[draw_rank(annealer, low, high)];
    if (to == from)
        step_within(annealer, v, from);
    else
        step_across(annealer, v, from, to);
}

/* Save the best partition before a run leaves it: move the run back, then forth again. */
static void leave_best(struct annealer *annealer, int32_t count, bool forwards, int32_t from, int32_t to) {
    struct stage leaves, joins;
    partition_return_run(&annealer->partition, count, from);
    keep(annealer);
    partition_move_run(&annealer->partition, count, forwards, to, &leaves, &joins);
}

/* Try to move a node to the next stage, along with all nodes of its stage that must follow it. A boundary
 * thus moves by many nodes at once, past places where many tensors would cross it. */
static void step_run(struct annealer *annealer) {
    struct partition *partition = &annealer->partition;
    const int32_t v = random_below(&annealer->random, partition->problem->nodes);
    const bool forwards = random_bits(&annealer->random) >> 63;
    const double allowance = draw_allowance(annealer);
    const int32_t from = partition->home[v];
    int32_t to;
    struct stage leaves, joins;
    const int32_t count = partition_run(partition, v, forwards, &to);
    if (count == 0)
        return;
    partition_move_run(partition, count, forwards, to, &leaves, &joins);
    if (!is_accepted(annealer, from, &leaves, to, &joins, allowance)) {
        partition_return_run(partition, count, from);
        return;
    }
    if (!annealer->kept && fmax(leaves.cost, joins.cost) >= annealer->limit)
        leave_best(annealer, count, forwards, from, to);
    settle(annealer, from, &leaves);
    settle(annealer, to, &joins);
    notice_improvement(annealer);
}

static void anneal(struct annealer *annealer, const int32_t *stop) {
    struct partition *partition = &annealer->partition;
    const struct shard_pipeline *problem = partition->problem;
    const struct shard_annealing *options = annealer->options;
    const int64_t rerank = 4 * (problem->nodes + problem->in_start[problem->nodes] + problem->stages);
    const double cooling = anneal_cooling(options->hot, options->cold, COOLING_INTERVAL, options->moves);
    annealer->temperature = options->hot * annealer->best;
    for (int64_t i = 1; i <= options->moves && annealer->best > options->enough; i++) {
        if (i % RUN_INTERVAL == 0)
            step_run(annealer);
        else if (partition->limited)
            step_limited(annealer);
        else
            step(annealer);
        if (i % rerank == 0)
            partition_rerank(partition, &annealer->random);
        if (i % RECOUNT_INTERVAL == 0) {
            keep(annealer);
            partition_recount(partition);
            annealer->above = count_above(annealer);
            notice_improvement(annealer);
        }
        if (i % COOLING_INTERVAL == 0) {
            annealer->temperature *= cooling;
            if (is_stopped(stop))
                break;
        }
    }
    keep(annealer);
}

/* True if `order` is topological and the cuts divide it. */
static bool well_formed(const struct shard_pipeline *problem, const int32_t *order, const int32_t *cut,
                        int32_t *position) {
    for (int32_t v = 0; v < problem->nodes; v++)
        position[v] = NO_NODE;
    for (int32_t p = 0; p < problem->nodes; p++) {
        const int32_t v = order[p];
        if (v < 0 || v >= problem->nodes || position[v] != NO_NODE)
            return false;
        position[v] = p;
        for (int64_t e = problem->in_start[v]; e < problem->in_start[v + 1]; e++)
            if (position[problem->in_tail[e]] == NO_NODE)
                return false;
    }
    for (int32_t b = 0; b < problem->stages; b++)
        if (cut[b] > cut[b + 1])
            return false;
    return cut[0] == 0 && cut[problem->stages] == problem->nodes;
}

int shard_anneal_partition(const struct shard_pipeline *problem, const struct shard_annealing *annealing,
                           const int32_t *stop, int32_t *order, int32_t *cut, double *cost) {
    const size_t n = (size_t)problem->nodes;
    struct arena arena = {0};
    struct annealer annealer = {
        .random = {annealing->seed}, .options = annealing, .kept = true, .order = order, .cut = cut};
    ARENA_ARRAYS(&arena, n, annealer.first_order);
    partition_allocate(&annealer.partition, &arena, problem);
    int status = arena_status(&arena);
    if (status == SHARD_OK && !well_formed(problem, order, cut, annealer.first_order))
        status = SHARD_BAD_ORDER;
    if (status == SHARD_OK) {
        memcpy(annealer.first_order, order, n * sizeof *order);
        partition_start(&annealer.partition, order, cut);
        measure(&annealer);
        if (annealer.best > 0.0)
            anneal(&annealer, stop);
        *cost = annealer.best;
    }
    arena_free(&arena);
    return status;
}
