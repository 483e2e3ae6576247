/* Large neighbourhood search against its definition, by every assignment of small networks. The kernel is
 * included, not linked: choices within a block cannot be seen from outside. */
#include "intraop/blocks/large_neighbourhood.c"

#include "check.h"

#define MOST_VARIABLES 6
#define MOST_VALUES 3
#define MOST_ARITY 3
#define MOST_TABLES 12
#define MOST_NODES 2
#define MOST_STEPS 5
#define MOST_ROWS (MOST_VARIABLES * MOST_VALUES)
#define MOST_CELLS (MOST_TABLES * MOST_VALUES * MOST_VALUES * MOST_VALUES)
#define BOUNDLESS ((int64_t)1 << 62)
#define CHAIN 200
#define ROUNDS (1000 / PART)

struct sample {
    struct shard_memory_network network;
    int64_t start[MOST_VARIABLES + 1], scope_start[MOST_TABLES + 1], scope[MOST_TABLES * MOST_ARITY];
    int64_t cell_start[MOST_TABLES + 1], arc_start[MOST_VARIABLES + 1], arc[MOST_TABLES * MOST_ARITY];
    int64_t node_start[MOST_VARIABLES + 1], begin[MOST_VARIABLES * MOST_NODES],
        end[MOST_VARIABLES * MOST_NODES];
    int64_t usage_start[MOST_VARIABLES + 1], usage[MOST_ROWS * MOST_NODES], room[MOST_STEPS];
    double cost[MOST_ROWS], cell[MOST_CELLS], price[MOST_ROWS];
};

/* An assignment and the memory it uses. */
struct point {
    int64_t value[MOST_VARIABLES], load[MOST_STEPS];
    double gain;
    uint64_t random;
};

/* Limits of blocks and of the search. */
struct extent {
    int64_t size;
    double width, cells, work;
};

static int64_t values_of(const struct sample *sample, int64_t v) {
    return sample->start[v + 1] - sample->start[v];
}

/* The first `arity` of some permutation of the variables. */
static void draw_scope(int64_t *scope, int64_t arity, int64_t variables) {
    int64_t all[MOST_VARIABLES];
    for (int64_t v = 0; v < variables; v++)
        all[v] = v;
    for (int64_t i = 0; i < arity; i++) {
        const int64_t j = i + draw((int32_t)(variables - i));
        scope[i] = all[j];
        all[j] = all[i];
    }
}

static void make_tables(struct sample *sample) {
    const int64_t variables = sample->network.variables;
    sample->network.tables = variables ? draw(MOST_TABLES + 1) : 0;
    for (int64_t f = 0; f < sample->network.tables; f++) {
        const int64_t first = sample->scope_start[f],
                      arity = 1 + draw((int32_t)(variables < 3 ? variables : 3));
        int64_t cells = 1;
        draw_scope(sample->scope + first, arity, variables);
        for (int64_t k = first; k < first + arity; k++)
            cells *= values_of(sample, sample->scope[k]);
        sample->scope_start[f + 1] = first + arity;
        sample->cell_start[f + 1] = sample->cell_start[f] + cells;
        for (int64_t c = sample->cell_start[f]; c < sample->cell_start[f + 1]; c++)
            sample->cell[c] = draw(10) ? draw(30) : 1e6;
    }
    int64_t arcs = 0;
    for (int64_t v = 0; v < variables; v++) {
        for (int64_t k = 0; k < sample->scope_start[sample->network.tables]; k++) {
            int64_t f = 0;
            while (sample->scope_start[f + 1] <= k)
                f++;
            if (sample->scope[k] == v)
                sample->arc[arcs++] = f;
        }
        sample->arc_start[v + 1] = arcs;
    }
}

/* Nodes in memory for some steps, or for none. */
static void make_nodes(struct sample *sample) {
    const int32_t steps = (int32_t)sample->network.steps;
    for (int64_t v = 0; v < sample->network.variables; v++) {
        const int64_t nodes = draw(MOST_NODES + 1);
        sample->node_start[v + 1] = sample->node_start[v] + nodes;
        sample->usage_start[v + 1] = sample->usage_start[v] + nodes * values_of(sample, v);
        for (int64_t j = sample->node_start[v]; j < sample->node_start[v + 1]; j++) {
            sample->begin[j] = draw(steps + 1);
            sample->end[j] = sample->begin[j] + draw(steps + 1 - (int32_t)sample->begin[j]);
        }
        for (int64_t k = sample->usage_start[v]; k < sample->usage_start[v + 1]; k++)
            sample->usage[k] = draw(6);
    }
}

/* Costs are whole numbers, so that sums of them are exact. */
static void make_sample(struct sample *sample, int64_t variables) {
    memset(sample, 0, sizeof *sample);
    struct sample *s = sample;
    const int64_t steps = draw(MOST_STEPS + 1);
    s->network = (struct shard_memory_network){
        variables,      0,        steps,        s->start, s->cost,       s->scope_start, s->scope,
        s->cell_start,  s->cell,  s->arc_start, s->arc,   s->node_start, s->begin,       s->end,
        s->usage_start, s->usage, s->room};
    for (int64_t v = 0; v < variables; v++)
        sample->start[v + 1] = sample->start[v] + 1 + draw(MOST_VALUES);
    for (int64_t r = 0; r < sample->start[variables]; r++) {
        sample->cost[r] = draw(20);
        sample->price[r] = draw(2) * draw(10);
    }
    make_tables(sample);
    make_nodes(sample);
}

/* The cost of an assignment, memory included. */
static double cost_of(const struct sample *sample, const int64_t *value) {
    double sum = 0;
    for (int64_t v = 0; v < sample->network.variables; v++)
        sum += sample->cost[sample->start[v] + value[v]] + sample->price[sample->start[v] + value[v]];
    for (int64_t f = 0; f < sample->network.tables; f++) {
        int64_t cell = 0;
        for (int64_t k = sample->scope_start[f]; k < sample->scope_start[f + 1]; k++)
            cell = cell * values_of(sample, sample->scope[k]) + value[sample->scope[k]];
        sum += sample->cell[sample->cell_start[f] + cell];
    }
    return sum;
}

static void load_of(const struct sample *sample, const int64_t *value, int64_t *load) {
    memset(load, 0, MOST_STEPS * sizeof *load);
    for (int64_t v = 0; v < sample->network.variables; v++) {
        const int64_t nodes = sample->node_start[v + 1] - sample->node_start[v];
        for (int64_t j = 0; j < nodes; j++)
            for (int64_t t = sample->begin[sample->node_start[v] + j];
                 t < sample->end[sample->node_start[v] + j]; t++)
                load[t] += sample->usage[sample->usage_start[v] + value[v] * nodes + j];
    }
}

/* The least cost of the assignments that differ from one only in free variables. */
static double least_of(const struct sample *sample, const int64_t *value, const bool *is_free) {
    int64_t other[MOST_VARIABLES] = {0}, v = 0;
    double least = cost_of(sample, value);
    while (v < sample->network.variables) {
        bool differs = false;
        for (v = 0; v < sample->network.variables; v++)
            differs = differs || (!is_free[v] && other[v] != value[v]);
        if (!differs && cost_of(sample, other) < least)
            least = cost_of(sample, other);
        for (v = 0; v < sample->network.variables && ++other[v] == values_of(sample, v); v++)
            other[v] = 0;
    }
    return least;
}

static struct point draw_point(const struct sample *sample) {
    struct point point = {.random = (uint64_t)draw(1000000)};
    for (int64_t v = 0; v < sample->network.variables; v++)
        point.value[v] = draw((int32_t)values_of(sample, v));
    load_of(sample, point.value, point.load);
    return point;
}

static int improve(const struct sample *sample, const struct extent *extent, struct point *point) {
    return shard_large_neighbourhood(&sample->network, sample->price, extent->size, extent->width,
                                     extent->cells, extent->work, &point->random, point->value, point->load,
                                     &point->gain);
}

/* The result is valid, better by exactly `gain`, adds no load above the room, and is the same if repeated. */
static void check_point(const struct sample *sample, const struct extent *extent,
                        const struct point *before) {
    struct point after = *before, again = *before;
    int64_t load[MOST_STEPS];
    CHECK(improve(sample, extent, &after) == SHARD_OK);
    CHECK(improve(sample, extent, &again) == SHARD_OK);
    CHECK(memcmp(&after, &again, sizeof after) == 0);
    CHECK((after.random == before->random) == (sample->network.variables == 0));
    for (int64_t v = 0; v < sample->network.variables; v++)
        CHECK(after.value[v] >= 0 && after.value[v] < values_of(sample, v));
    CHECK(after.gain >= 0 && cost_of(sample, before->value) - cost_of(sample, after.value) == after.gain);
    load_of(sample, after.value, load);
    for (int64_t t = 0; t < sample->network.steps; t++) {
        CHECK(after.load[t] == load[t]);
        CHECK(load[t] <= sample->room[t] || load[t] <= before->load[t]);
    }
}

static void check_search(void) {
    struct sample sample;
    make_sample(&sample, draw(MOST_VARIABLES + 1));
    const struct point before = draw_point(&sample);
    const struct extent extent = {1 + draw(8), 1 + draw(100), 1 + draw(300), 1 + draw(10000)};
    const bool boundless = draw(4) == 0;
    for (int64_t t = 0; t < sample.network.steps; t++)
        sample.room[t] = boundless ? BOUNDLESS : before.load[t] + draw(7) - 3;
    check_point(&sample, &extent, &before);
}

/* If everything may be eliminated and memory is unlimited, the result is an optimum. */
static void check_optimum(void) {
    struct sample sample;
    make_sample(&sample, draw(MOST_VARIABLES + 1));
    struct point point = draw_point(&sample);
    const double before = cost_of(&sample, point.value);
    const struct extent all = {MOST_VARIABLES, 1e3, 1e5, 5e4};
    const bool is_free[MOST_VARIABLES] = {true, true, true, true, true, true};
    for (int64_t t = 0; t < sample.network.steps; t++)
        sample.room[t] = BOUNDLESS;
    const double least = least_of(&sample, point.value, is_free);
    CHECK(improve(&sample, &all, &point) == SHARD_OK);
    CHECK(point.gain == before - least);
}

/* No eliminated table is too large, and together they are as large as planned. */
static void check_plan(const struct block *block, int64_t size, double planned) {
    double total = 0;
    for (int64_t p = 0; p < block->eliminated; p++) {
        double cells = (double)size_of(block, block->member[block->order[p]]);
        for (int64_t a = 0; a < block->clique_size[p]; a++)
            cells *= (double)size_of(block, block->member[block->clique[p * MAX_CLIQUE + a]]);
        CHECK(cells <= block->width);
        total += cells;
    }
    CHECK(block->count <= size && total <= block->cells && total >= planned && total <= planned);
}

/* Grow and solve a block, without applying its choice. */
static void choose_in_block(struct search *s) {
    struct block *block = &s->block;
    for (int64_t v = 0; v < block->network->variables; v++)
        block->place[v] = -1;
    grow_block(s);
    block_link(block);
    check_plan(block, s->size, block_plan(block));
    block_solve(block);
}

/* The members of a block occur once each and are connected. */
static void check_members(const struct block *block, const struct sample *sample) {
    bool reached[MOST_VARIABLES] = {false};
    for (int64_t i = 0; i < block->count; i++)
        CHECK(block->place[block->member[i]] == i && values_of(sample, block->member[i]) > 1);
    if (block->count)
        reached[block->member[0]] = true;
    for (int64_t round = 0; round < MOST_VARIABLES; round++)
        for (int64_t k = 0; k < sample->network.tables; k++) {
            bool any = false;
            for (int64_t i = sample->scope_start[k]; i < sample->scope_start[k + 1]; i++)
                any = any || reached[sample->scope[i]];
            for (int64_t i = sample->scope_start[k]; i < sample->scope_start[k + 1]; i++)
                reached[sample->scope[i]] = any || reached[sample->scope[i]];
        }
    for (int64_t i = 0; i < block->count; i++)
        CHECK(reached[block->member[i]]);
}

/* Eliminated variables get optimal values given the fixed ones, and nothing changes without need. */
static void check_choice(const struct block *block, const struct sample *sample) {
    bool is_free[MOST_VARIABLES] = {false};
    int64_t chosen[MOST_VARIABLES];
    memcpy(chosen, block->value, (size_t)sample->network.variables * sizeof *chosen);
    for (int64_t p = 0; p < block->eliminated; p++)
        is_free[block->member[block->order[p]]] = true;
    for (int64_t i = 0; i < block->count; i++) {
        const int64_t v = block->member[i];
        CHECK((block->role[i] == FREE) == is_free[v]);
        CHECK(is_free[v] || block->choice[i] == block->value[v]);
        chosen[v] = block->choice[i];
    }
    const double least = least_of(sample, block->value, is_free);
    CHECK(cost_of(sample, chosen) == least);
    if (cost_of(sample, block->value) == least)
        CHECK(memcmp(chosen, block->value, (size_t)sample->network.variables * sizeof *chosen) == 0);
}

/* Several blocks for one assignment. */
static void check_blocks(void) {
    struct sample sample;
    make_sample(&sample, 1 + draw(MOST_VARIABLES));
    struct point point = draw_point(&sample);
    const int64_t size = 1 + draw((int32_t)sample.network.variables);
    struct search s = {.block = {.network = &sample.network,
                                 .price = sample.price,
                                 .random = {point.random},
                                 .value = point.value,
                                 .width = 1 + draw(40),
                                 .cells = 1 + draw(draw(2) ? 40 : 400)},
                       .load = point.load,
                       .size = size};
    struct arena arena = {0};
    CHECK(allocate(&arena, &s) == SHARD_OK);
    for (int round = 0; round < 10; round++) {
        choose_in_block(&s);
        check_members(&s.block, &sample);
        check_choice(&s.block, &sample);
    }
    arena_free(&arena);
}

/* The least cost of a chain, by dynamic programming. */
static double least_of_chain(const double *cost, const double *cell) {
    double best[2] = {cost[0], cost[1]};
    for (int64_t v = 1; v < CHAIN; v++, cell += 4) {
        const double first = best[0] + cell[0] < best[1] + cell[2] ? best[0] + cell[0] : best[1] + cell[2];
        const double second = best[0] + cell[1] < best[1] + cell[3] ? best[0] + cell[1] : best[1] + cell[3];
        best[0] = cost[2 * v] + first;
        best[1] = cost[2 * v + 1] + second;
    }
    return best[0] < best[1] ? best[0] : best[1];
}

/* More variables than a word has bits; tables are large enough only for elimination from the ends. */
static void check_long_chain(void) {
    int64_t start[CHAIN + 1], scope_start[CHAIN], scope[2 * CHAIN], cell_start[CHAIN], arc_start[CHAIN + 1],
        arc[2 * CHAIN], zero[CHAIN + 1] = {0}, value[CHAIN] = {0};
    double cost[2 * CHAIN], cell[4 * CHAIN], price[2 * CHAIN] = {0}, before = 0, gain = 0;
    uint64_t random = 1;
    for (int64_t v = 0; v <= CHAIN; v++) {
        start[v] = 2 * v;
        arc_start[v] = v == 0 ? 0 : v == CHAIN ? 2 * CHAIN - 2 : 2 * v - 1;
    }
    for (int64_t f = 0; f < CHAIN; f++) {
        scope_start[f] = 2 * f;
        cell_start[f] = 4 * f;
        scope[2 * f] = arc[2 * f] = arc[2 * f + 1] = f;
        scope[2 * f + 1] = f + 1;
        for (int64_t k = 0; k < 4; k++)
            cell[4 * f + k] = draw(100);
        cost[2 * f] = draw(100);
        cost[2 * f + 1] = draw(100);
        before += cost[2 * f] + (f < CHAIN - 1 ? cell[4 * f] : 0);
    }
    const struct shard_memory_network network = {CHAIN, CHAIN - 1,  0,    start,     cost, scope_start,
                                                 scope, cell_start, cell, arc_start, arc,  zero,
                                                 zero,  zero,       zero, zero,      zero};
    CHECK(shard_large_neighbourhood(&network, price, CHAIN, 4, 1e4, 1, &random, value, zero, &gain) ==
          SHARD_OK);
    CHECK(gain == before - least_of_chain(cost, cell));
}

/* (0, 0) costs 5, (0, 1) 18, (1, 0) 9 and (1, 1) 4: only changing both helps. Value 1 of the first uses 2. */
static void check_by_hand(bool wrong) {
    const int64_t start[] = {0, 2, 4}, scope_start[] = {0, 2}, scope[] = {0, 1}, cell_start[] = {0, 4},
                  arc_start[] = {0, 1, 2}, arc[] = {0, 0}, node_start[] = {0, 1, 1}, begin[] = {0},
                  end[] = {1}, usage_start[] = {0, 2, 2}, usage[] = {0, 2};
    const double cost[] = {5, 0, 0, 4}, cell[] = {0, 9, 9, 0};
    for (int64_t room = 1; room <= 2; room++)
        for (int64_t price = 0; price <= 1; price++) {
            const struct shard_memory_network network = {
                2,         1,   1,          start, cost, scope_start, scope, cell_start, cell,
                arc_start, arc, node_start, begin, end,  usage_start, usage, &room};
            const double of_row[] = {0, (double)price, 0, 0};
            const bool better = room == 2 && price == 0;
            int64_t value[] = {0, 0}, load[] = {0};
            double gain;
            uint64_t random = 1;
            CHECK(shard_large_neighbourhood(&network, of_row, 2, 4, 100, 50, &random, value, load, &gain) ==
                  SHARD_OK);
            CHECK(gain == (better || wrong));
            if (wrong)
                return;
            CHECK(value[0] == better && value[1] == better && load[0] == 2 * better);
        }
}

/* Two variables next to one without a choice: their values 1 gain 3 and 5 and use 2 more each in step 0. Step
 * 1 is overfull, and the first variable uses less there under value 1. */
static void check_competition(void) {
    const int64_t start[] = {0, 2, 3, 5}, scope_start[] = {0, 2, 4}, scope[] = {0, 1, 1, 2},
                  cell_start[] = {0, 2, 4}, arc_start[] = {0, 1, 3, 4}, arc[] = {0, 0, 1, 1},
                  node_start[] = {0, 2, 2, 3}, begin[] = {0, 1, 0}, end[] = {1, 2, 1},
                  usage_start[] = {0, 4, 4, 6}, usage[] = {0, 9, 2, 8, 0, 2};
    const double cost[] = {3, 0, 0, 5, 0}, cell[4] = {0}, price[5] = {0};
    for (int64_t most = 0; most < 6; most++) {
        const int64_t room[] = {most, 1};
        const struct shard_memory_network network = {
            3,         2,   2,          start, cost, scope_start, scope, cell_start, cell,
            arc_start, arc, node_start, begin, end,  usage_start, usage, room};
        int64_t value[] = {0, 0, 0}, load[] = {0, 9};
        double gain;
        uint64_t random = 1;
        CHECK(shard_large_neighbourhood(&network, price, 3, 4, 100, 1, &random, value, load, &gain) ==
              SHARD_OK);
        CHECK(value[0] == (most >= 4) && value[1] == 0 && value[2] == (most >= 2));
        CHECK(load[0] == 2 * (value[0] + value[2]) && load[1] == 9 - value[0]);
        CHECK(gain == (double)(3 * value[0] + 5 * value[2]));
    }
}

/* Every allocation fails once; then nothing has been written. */
static void check_no_memory(void) {
    struct sample sample;
    make_sample(&sample, MOST_VARIABLES);
    const struct point before = draw_point(&sample);
    const struct extent extent = {MOST_VARIABLES, 100, 1000, 1000};
    int status = SHARD_NO_MEMORY, allocations = 0;
    for (; status == SHARD_NO_MEMORY && allocations < 100; allocations++) {
        struct point point = before;
        WITH_MEMORY_FOR(allocations, improve(&sample, &extent, &point));
        if (status == SHARD_NO_MEMORY)
            CHECK(memcmp(&point, &before, sizeof point) == 0);
    }
    CHECK(status == SHARD_OK && allocations > 20);
}

static void check_all(bool wrong) {
    check_by_hand(wrong);
    if (wrong)
        return;
    for (int round = 0; round < ROUNDS; round++) {
        check_search();
        check_optimum();
        check_blocks();
    }
    check_competition();
    check_long_chain();
    check_no_memory();
}
