/* Minimum cuts whose terminals change, against all sides; arcs after sorting, against those that were added. */
#include "common/flow.h"
#include "check.h"

#define MOST_VERTICES 6
#define MOST_JOINED 12
#define ROUNDS 2000
#define CUTS 4

struct problem {
    int32_t vertices, joined, tail[2 * MOST_JOINED], head[2 * MOST_JOINED];
    int64_t capacity[2 * MOST_JOINED], excess[MOST_VERTICES];
};

/* Self-loops and parallel arcs are welcome, as are vertices without arcs. */
static void make(struct problem *p, struct flow *flow) {
    for (int32_t i = 0; i < 2 * p->joined; i += 2) {
        p->tail[i] = p->head[i + 1] = draw(p->vertices);
        p->head[i] = p->tail[i + 1] = draw(p->vertices);
        p->capacity[i] = draw(5) ? draw(9) : FLOW_INFINITE;
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

static void check_cut(const struct problem *p, struct flow *flow) {
    const uint32_t all = ((uint32_t)1 << p->vertices) - 1;
    int64_t most = 0, surplus = 0;
    uint32_t least = all, greatest = 0;
    bool side[MOST_VERTICES];
    for (uint32_t set = 0; set <= all; set++)
        most = gain(p, set) > most ? gain(p, set) : most;
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

static void check_network(bool wrong) {
    struct problem p = {.vertices = 1 + draw(MOST_VERTICES), .joined = draw(MOST_JOINED + 1)};
    struct arena arena = {0};
    struct flow flow;
    flow_allocate(&flow, &arena, p.vertices, 2 * p.joined);
    make(&p, &flow);
    check_sorted(&p, &flow);
    for (int32_t cut = 0; cut < CUTS; cut++) {
        for (int32_t v = 0; v < p.vertices; v++) {
            const int64_t change = draw(3) ? draw(21) - 10 : 0;
            p.excess[v] += change;
            flow.excess[v] += change;
        }
        flow_run(&flow);
        check_cut(&p, &flow);
    }
    CHECK(flow.arcs == 2 * p.joined + wrong);
    arena_free(&arena);
}

static void check_all(bool wrong) {
    for (int32_t round = 0; round < (wrong ? 1 : ROUNDS); round++)
        check_network(wrong);
}
