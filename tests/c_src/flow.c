/* Minimum cuts whose terminals change, against all sides; arcs after sorting, against those that were added. */
#include "common/flow.h"
#include "check.h"

#define MOST_VERTICES 6
#define MOST_JOINED 12
#define ROUNDS (2000 / PART)
#define CUTS 4

struct problem {
    int32_t vertices, joined, tail[2 * MOST_JOINED], head[2 * MOST_JOINED];
    int64_t capacity[2 * MOST_JOINED], excess[MOST_VERTICES];
};

/* Self-loops and parallel arcs are welcome, as are vertices without arcs. */
static void make(struct problem *p, struct flow *flow, bool infinite) {
    for (int32_t i = 0; i < 2 * p->joined; i += 2) {
        p->tail[i] = p->head[i + 1] = draw(p->vertices);
        p->head[i] = p->tail[i + 1] = draw(p->vertices);
        p->capacity[i] = draw(5) || !infinite ? draw(9) : FLOW_INFINITE;
        p->capacity[i + 1] = draw(9);
        flow_join(flow, p->tail[i], p->head[i], p->capacity[i], p->capacity[i + 1]);
    }
    flow_sort(flow);
}

static void check_sorted(const struct problem *p, const struct flow *flow) {
    CHECK(flow->start[0] == 0 && flow->start[p->vertices] == 2 * p->joined);
    for (int32_t i = 0; i < 2 * p->joined; i++) {
        const int32_t at = flow->place[i];
        CHECK(flow->start[p->tail[i]] <= at && at < flow->start[p->tail[i] + 1]);
        CHECK(flow->tip[at] == p->head[i] && flow->left[at] == p->capacity[i]);
        CHECK(flow->reverse[at] == flow->place[i ^ 1]);
    }
}

/* The excess of the vertices of a side, less the capacity of the arcs that leave it. */
static int64_t gain(const struct problem *p, uint32_t side) {
    int64_t sum = 0;
    for (int32_t v = 0; v < p->vertices; v++)
        sum += side >> v & 1 ? p->excess[v] : 0;
    for (int32_t i = 0; i < 2 * p->joined; i++)
        sum -= (side >> p->tail[i] & 1) && !(side >> p->head[i] & 1) ? p->capacity[i] : 0;
    return sum;
}

static uint32_t bits(const struct problem *p, const bool *side) {
    uint32_t set = 0;
    for (int32_t v = 0; v < p->vertices; v++)
        set |= (uint32_t)side[v] << v;
    return set;
}

static int64_t most_gain(const struct problem *p) {
    int64_t most = 0;
    for (uint32_t set = 0; set >> p->vertices == 0; set++)
        most = gain(p, set) > most ? gain(p, set) : most;
    return most;
}

static void check_cut(const struct problem *p, struct flow *flow) {
    const uint32_t all = ((uint32_t)1 << p->vertices) - 1;
    const int64_t most = most_gain(p);
    int64_t surplus = 0;
    uint32_t least = all, greatest = 0;
    bool side[MOST_VERTICES];
    for (uint32_t set = 0; set <= all; set++) {
        if (gain(p, set) == most) {
            least &= set;
            greatest |= set;
        }
    }
    for (int32_t v = 0; v < p->vertices; v++)
        surplus += flow->excess[v] > 0 ? flow->excess[v] : 0;
    CHECK(surplus == most);
    flow_least_side(flow, side);
    CHECK(bits(p, side) == least);
    flow_greatest_side(flow, side);
    CHECK(bits(p, side) == greatest);
}

/* Change the capacities to the terminals, and tie vertices to them or take that back. */
static void change_terminals(struct problem *p, struct flow *flow, bool tie) {
    for (int32_t v = 0; v < p->vertices; v++) {
        const bool tied = p->excess[v] > FLOW_INFINITE / 2 || p->excess[v] < -FLOW_INFINITE / 2;
        int64_t change = draw(3) ? draw(21) - 10 : 0;
        if (tie && draw(4) == 0 && tied)
            change -= p->excess[v] > 0 ? FLOW_INFINITE : -FLOW_INFINITE;
        else if (tie && draw(4) == 0 && !tied)
            change += draw(2) ? FLOW_INFINITE : -FLOW_INFINITE;
        p->excess[v] += change;
        flow->excess[v] += change;
    }
}

/* Stop as soon as no side gains more than drawn, if that is so; flow under way must not spoil later cuts. */
static bool check_until(const struct problem *p, struct flow *flow) {
    int64_t most = most_gain(p);
    for (int32_t v = 0; v < p->vertices; v++)
        most -= p->excess[v] > FLOW_INFINITE / 2 ? FLOW_INFINITE : 0;
    const int64_t enough = most + draw(9) - 4;
    const bool complete = flow_run_until(flow, enough);
    CHECK(complete == (most > enough));
    return complete;
}

static void check_network(bool wrong) {
    const bool tie = draw(2);
    struct problem p = {.vertices = 1 + draw(MOST_VERTICES), .joined = draw(MOST_JOINED + 1)};
    struct arena arena = {0};
    struct flow flow;
    flow_allocate(&flow, &arena, p.vertices, 2 * p.joined);
    make(&p, &flow, !tie);
    check_sorted(&p, &flow);
    for (int32_t cut = 0; cut < CUTS; cut++) {
        change_terminals(&p, &flow, tie);
        if (draw(2))
            flow_run(&flow);
        else if (!check_until(&p, &flow))
            continue;
        check_cut(&p, &flow);
    }
    CHECK(flow.arcs == 2 * p.joined + wrong);
    arena_free(&arena);
}

static void check_all(bool wrong) {
    for (int32_t round = 0; round < (wrong ? 1 : ROUNDS); round++)
        check_network(wrong);
}
