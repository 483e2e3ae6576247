/* Slicing by thresholds. */
#include "pipeline/slice.h"

/* An unattainable number of stages. */
#define NEVER (INT32_MAX / 2)

/* Rounding error of sums of work, as a share of the total, for which bounds must allow. */
#define SLACK 1e-12

void slicer_allocate(struct slicer *slicer, struct arena *arena, const struct shard_pipeline *problem) {
    const int64_t rows = (int64_t)problem->nodes + 1;
    *slicer = (struct slicer){.stages = problem->stages, .stop = problem->stop};
    ARENA_ARRAYS(arena, rows, slicer->work, slicer->param, slicer->stages_before, slicer->stages_after,
                 slicer->fewest, slicer->lower, slicer->upper, slicer->last_start);
    ARENA_ARRAYS(arena, rows, slicer->upper_start, slicer->last_cost, slicer->upper_cost);
    segments_allocate(&slicer->segments, arena, problem);
}

/* Begin with a new order: nothing is known about any threshold. */
static void start(struct slicer *slicer) {
    const struct segments *segments = &slicer->segments;
    slicer->work[0] = 0.0;
    slicer->param[0] = 0.0;
    for (int32_t r = 0; r <= segments->nodes; r++) {
        slicer->lower[r] = 0;
        slicer->upper[r] = r == 0 ? 0 : NEVER;
        if (r == segments->nodes)
            break;
        slicer->work[r + 1] = slicer->work[r] + segments->at[r].work;
        slicer->param[r + 1] = slicer->param[r] + segments->param[r];
    }
}

/* True if work and parameters alone keep [left, right) from meeting the threshold. */
static bool is_too_heavy(const struct slicer *slicer, int32_t left, int32_t right, double threshold) {
    const struct segments *segments = &slicer->segments;
    const int32_t n = segments->nodes;
    const double work = slicer->work[right] - slicer->work[left] - SLACK * slicer->work[n];
    if (!segments->limited)
        return work > threshold;
    const double excess =
        slicer->param[right] - slicer->param[left] - SLACK * slicer->param[n] - segments->memory;
    return work + (excess > 0.0 ? excess : 0.0) / segments->bandwidth > threshold;
}

/* Fill stages_before and stages_after: longest segments by work and parameters alone, from either end. */
static void bound_by_work(struct slicer *slicer, double threshold) {
    const int32_t n = slicer->segments.nodes;
    int32_t left = 0;
    slicer->stages_before[0] = 0;
    for (int32_t r = 1; r <= n; r++) {
        while (left < r && is_too_heavy(slicer, left, r, threshold))
            left++;
        slicer->stages_before[r] =
            left == r || slicer->stages_before[left] == NEVER ? NEVER : slicer->stages_before[left] + 1;
    }
    int32_t right = n;
    slicer->stages_after[n] = 0;
    for (int32_t l = n - 1; l >= 0; l--) {
        while (right > l && is_too_heavy(slicer, l, right, threshold))
            right--;
        slicer->stages_after[l] =
            right == l || slicer->stages_after[right] == NEVER ? NEVER : slicer->stages_after[right] + 1;
    }
}

/* The least number of segments within the threshold up to `right`; NEVER if too few are left for the rest. */
static inline int32_t fewest_stages(struct slicer *slicer, int32_t right, double threshold, bool limited) {
    struct segments *segments = &slicer->segments;
    const int32_t allowed =
        slicer->stages_after[right] == NEVER ? -1 : slicer->stages - slicer->stages_after[right];
    int32_t least = slicer->lower[right];
    if (slicer->stages_before[right] > least)
        least = slicer->stages_before[right];
    int32_t best = slicer->upper[right];
    slicer->last_start[right] = slicer->upper_start[right];
    slicer->last_cost[right] = slicer->upper_cost[right];
    if (least > allowed)
        return NEVER;
    if (best > allowed)
        best = allowed + 1;
    for (struct sweep sweep = sweep_from(right); sweep.left > 0 && best > least;) {
        sweep_extend(segments, &sweep, limited);
        const int32_t stages = slicer->fewest[sweep.left] + 1;
        const double cost = sweep_cost(segments, &sweep, limited);
        if (stages < best && cost <= threshold) {
            best = stages;
            slicer->last_start[right] = sweep.left;
            slicer->last_cost[right] = cost;
        }
        if (sweep_floor(segments, &sweep, limited) > threshold)
            break;
    }
    return best <= allowed ? best : NEVER;
}

static inline bool sweep_all(struct slicer *slicer, double threshold, bool limited) {
    const int32_t n = slicer->segments.nodes;
    int32_t reached = 0; /* the last position that can be a cut */
    int32_t r = 1;
    slicer->fewest[0] = 0;
    for (; r <= n && !is_too_heavy(slicer, reached, r, threshold) && !is_stopped(slicer->stop); r++) {
        segments_advance(&slicer->segments, r);
        slicer->fewest[r] = fewest_stages(slicer, r, threshold, limited);
        if (slicer->fewest[r] != NEVER)
            reached = r;
    }
    for (; r <= n; r++)
        slicer->fewest[r] = NEVER;
    return slicer->fewest[n] != NEVER;
}

/* True if the order can be cut within the threshold; the result narrows `lower` and `upper`. */
static bool is_met(struct slicer *slicer, double threshold) {
    const int32_t n = slicer->segments.nodes;
    bound_by_work(slicer, threshold);
    const bool met =
        slicer->segments.limited ? sweep_all(slicer, threshold, true) : sweep_all(slicer, threshold, false);
    for (int32_t r = 1; r <= n; r++) {
        if (met) {
            slicer->lower[r] = slicer->fewest[r];
        } else if (slicer->fewest[r] != NEVER) {
            slicer->upper[r] = slicer->fewest[r];
            slicer->upper_start[r] = slicer->last_start[r];
            slicer->upper_cost[r] = slicer->last_cost[r];
        }
    }
    return met;
}

/* The greatest cost of a stage of the slicing that is_met has found; cut, out: its cuts, or NULL. */
static double take_slicing(struct slicer *slicer, int32_t *cut) {
    const int32_t n = slicer->segments.nodes;
    double greatest = 0.0;
    int32_t stage = slicer->fewest[n];
    for (int32_t b = stage; cut && b <= slicer->stages; b++)
        cut[b] = n;
    for (int32_t right = n; right > 0; right = slicer->last_start[right]) {
        greatest = fmax(greatest, slicer->last_cost[right]);
        if (cut)
            cut[--stage] = slicer->last_start[right];
    }
    return greatest;
}

/* The interval that holds the optimum. */
struct bracket {
    double below; /* no slicing costs less; none costs as much if this threshold was tried */
    double above; /* a slicing that costs less than this is wanted */
    double step;  /* distance of the next threshold while all were met, or none was; it doubles */
    bool met;     /* some threshold was met */
    bool missed;  /* some threshold was not met */
};

/* The next threshold: by growing steps until one is met and one is not, then by bisection. In a narrow
 * bracket every other try is just below `above`: if it is not met, it ends the search. */
static double next_threshold(const struct bracket *bracket, bool met) {
    const double last = nextafter(bracket->above, -INFINITY), width = bracket->above - bracket->below;
    const double middle = bracket->below + 0.5 * width;
    if (!bracket->missed)
        return fmin(fmax(bracket->above - bracket->step, bracket->below), last);
    if (!bracket->met)
        return fmin(fmax(bracket->below + bracket->step, nextafter(bracket->below, INFINITY)), last);
    const bool narrow = width < 0.01 * bracket->above;
    return (narrow && !met) || middle >= last || middle <= bracket->below ? last : middle;
}

/* Lower bound of Lemma 3.3: the heaviest node, and an even share of the work. */
static double simple_bound(const struct slicer *slicer) {
    const int32_t n = slicer->segments.nodes;
    double greatest = slicer->work[n] / slicer->stages;
    for (int32_t p = 0; p < n; p++)
        greatest = fmax(greatest, slicer->segments.at[p].work);
    return greatest * (1.0 - SLACK);
}

/* Cost of the segment from a position to the right end. */
static double segment_cost(struct segments *segments, int32_t left, int32_t right) {
    struct sweep sweep = sweep_from(right);
    while (sweep.left > left)
        sweep_extend(segments, &sweep, segments->limited);
    return sweep_cost(segments, &sweep, segments->limited);
}

/* Cut into stages of about even work, empty ones last; return their mean cost. cost, out: the greatest. */
static double cut_evenly(struct slicer *slicer, double *cost, int32_t *cut) {
    const int32_t n = slicer->segments.nodes;
    double sum = 0.0;
    int32_t left = 0, stages = 0;
    *cost = 0.0;
    for (int32_t b = 1; b <= slicer->stages; b++) {
        int32_t right = left;
        while (right < n &&
               (b == slicer->stages || slicer->work[right] < slicer->work[n] * b / slicer->stages))
            segments_advance(&slicer->segments, ++right);
        const double stage_cost = segment_cost(&slicer->segments, left, right);
        *cost = fmax(*cost, stage_cost);
        sum += stage_cost;
        if (cut && left < right)
            cut[stages++] = left;
        left = right;
    }
    for (; cut && stages <= slicer->stages; stages++)
        cut[stages] = stages == 0 ? 0 : n;
    return sum / slicer->stages;
}

/* Close the bracket, starting at `threshold`; `cost` and `cut` follow the best slicing. */
static void close_in(struct slicer *slicer, struct bracket bracket, double threshold, double *cost,
                     int32_t *cut) {
    while (bracket.below < bracket.above && !is_stopped(slicer->stop)) {
        const bool met = is_met(slicer, threshold);
        if (!met && threshold >= nextafter(bracket.above, -INFINITY))
            break;
        if (met) {
            *cost = bracket.above = take_slicing(slicer, cut);
            bracket.met = true;
        } else {
            bracket.below = threshold;
            bracket.missed = true;
        }
        threshold = next_threshold(&bracket, met);
        bracket.step *= 2.0;
    }
}

int slicer_slice(struct slicer *slicer, const struct shard_pipeline *problem, const int32_t *order,
                 double upper, double *cost, int32_t *cut) {
    const int status = segments_lay_out(&slicer->segments, problem, order);
    if (status != SHARD_OK)
        return status;
    start(slicer);
    struct bracket bracket = {.below = simple_bound(slicer), .above = upper, .step = 0.02 * upper};
    double threshold = nextafter(upper, -INFINITY);
    *cost = INFINITY;
    if (isinf(upper) && upper > 0.0) {
        const double mean = cut_evenly(slicer, cost, cut);
        bracket.above = *cost;
        bracket.step = 0.02 * mean;
        threshold = fmax(fmin(mean, nextafter(*cost, -INFINITY)), bracket.below);
    }
    close_in(slicer, bracket, threshold, cost, cut);
    return SHARD_OK;
}

int shard_slice(const struct shard_pipeline *problem, const int32_t *order, double upper, double *cost,
                int32_t *cut) {
    struct arena arena = {0};
    struct slicer slicer;
    if (isnan(upper))
        return SHARD_NAN;
    slicer_allocate(&slicer, &arena, problem);
    int status = arena_status(&arena);
    if (status == SHARD_OK)
        status = slicer_slice(&slicer, problem, order, upper, cost, cut);
    arena_free(&arena);
    return status;
}
