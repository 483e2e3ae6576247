/* Refutations of makespans, against all schedules of small problems and a known value. */
#include "scheduling/bounds/refute.h"
#include "dataflow.h"

#define MOST_SEARCHED 5 /* nodes of a problem whose schedules are all tried */
#define FEW_DEVICES 3
#define ROUNDS (1500 / PART)
#define PLENTY 1000000 /* nodes of a search that end any of these */

/* A schedule that grows vertex by vertex. */
struct schedule {
    int32_t device[MOST_NODES];
    bool done[MOST_NODES];
    double end[MOST_NODES], free_from[MOST_DEVICES];
};

static bool may_start(const struct problem *p, const struct schedule *schedule, int32_t v) {
    for (int64_t e = p->in_start[v]; e < p->in_start[v + 1]; e++)
        if (!schedule->done[p->in_tail[e]])
            return false;
    return !schedule->done[v];
}

/* The least makespan of all orders that begin as a schedule does, on its devices. */
static double least_in_order(const struct problem *p, const struct schedule *schedule, int32_t left,
                             double makespan) {
    double least = left ? (double)INFINITY : makespan;
    for (int32_t v = 0; v < p->system.nodes; v++) {
        if (!may_start(p, schedule, v))
            continue;
        struct schedule next = *schedule;
        const int32_t d = next.device[v];
        next.end[v] =
            fmax(next.free_from[d], ready(p, next.device, next.end, v)) + p->complexity[v] / p->speed[d];
        next.free_from[d] = next.end[v];
        next.done[v] = true;
        least = fmin(least, least_in_order(p, &next, left - 1, fmax(makespan, next.end[v])));
    }
    return least;
}

static bool allowed(const struct problem *p, int32_t v, int32_t d) {
    bool listed = p->choice[p->unit[v]] < 0;
    for (int64_t i = 0; i < p->choice_start[1]; i++)
        listed = listed || p->choice_device[i] == d;
    return listed;
}

/* The least makespan of all schedules in which the vertices before v have their devices. */
static double least_makespan(const struct problem *p, struct schedule *schedule, int32_t v) {
    if (v == p->system.nodes)
        return least_in_order(p, schedule, v, 0);
    double least = INFINITY;
    for (int32_t d = 0; d < p->system.devices; d++) {
        if (p->unit[v] == v ? !allowed(p, v, d) : schedule->device[p->unit[v]] != d)
            continue;
        schedule->device[v] = d;
        least = fmin(least, least_makespan(p, schedule, v + 1));
    }
    return least;
}

/* Refute a time from heads and tails of 0; nodes, in/out. */
static bool refute(const struct problem *p, double longest, int64_t *nodes) {
    const double nothing[MOST_NODES * MOST_DEVICES] = {0};
    const int32_t ancestors[] = {0, 4, 24};
    int32_t refuted = -1;
    CHECK(shard_refute(&p->system, &p->units, p->order, p->back, ancestors[draw(3)], nothing, nothing,
                       longest, nodes, &refuted) == SHARD_OK);
    CHECK(refuted == 0 || refuted == 1);
    return refuted == 1;
}

/* Numbers are whole: a time just below the optimum is refuted; the optimum is not, with many nodes or few. */
static void check_against_all(const struct problem *p) {
    struct schedule schedule = {.device = {0}};
    const double least = least_makespan(p, &schedule, 0);
    int64_t nodes = PLENTY, few = draw(3);
    if (isinf(least)) {
        CHECK(refute(p, 1e6, &nodes));
        return;
    }
    CHECK(!(least > 0) || refute(p, least - 0x1p-10, &nodes));
    CHECK(nodes > 0 && nodes <= PLENTY);
    CHECK(!refute(p, fmax(least, 0x1p-10), &nodes));
    CHECK(!refute(p, fmax(least, 0x1p-10), &few) && few >= 0 && few < 3);
}

/* Four vertices that take 1 each, on two devices: they take 2 together. */
static void make_side_by_side(struct problem *p) {
    begin(p, 4, 2);
    connect(p, 0, NULL);
    for (int32_t v = 0; v < 4; v++)
        p->complexity[v] = 1;
}

/* More vertices than a search takes: nothing is refuted. */
static void check_too_large(void) {
    struct problem p;
    int64_t nodes = PLENTY;
    make_side_by_side(&p);
    p.system.nodes = SHARD_MOST_REFUTED + 1;
    CHECK(!refute(&p, 0.5, &nodes) && nodes == PLENTY);
}

/* Every allocation fails once. */
static void check_no_memory(void) {
    struct problem p;
    const double nothing[MOST_NODES * MOST_DEVICES] = {0};
    int status = SHARD_NO_MEMORY, count = 0;
    make_side_by_side(&p);
    for (; status == SHARD_NO_MEMORY && count < 1000; count++) {
        int64_t nodes = PLENTY;
        int32_t refuted = -1;
        WITH_MEMORY_FOR(count, shard_refute(&p.system, &p.units, p.order, p.back, 4, nothing, nothing, 1.5,
                                            &nodes, &refuted));
        CHECK(refuted == (status == SHARD_OK));
    }
    CHECK(status == SHARD_OK && count > 10);
}

static void check_all(bool wrong) {
    struct problem p;
    int64_t nodes = PLENTY;
    make_side_by_side(&p);
    CHECK(refute(&p, 1.999, &nodes) && !wrong);
    CHECK(!refute(&p, 2, &nodes));
    for (int32_t round = 0; round < ROUNDS && !wrong; round++) {
        make(&p, MOST_SEARCHED, FEW_DEVICES);
        check_against_all(&p);
    }
    check_too_large();
    check_no_memory();
}
