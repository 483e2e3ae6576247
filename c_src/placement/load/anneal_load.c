/* Moves of single nodes, of groups and of pairs, accepted by the change in energy of the devices affected. */
#include "placement/load/anneal_load.h"

#include "common/anneal.h"
#include "placement/load/load_state.h"

enum {
    KINDS = 8,          /* one move in so many takes a group of nodes that share nets, one swaps two nodes */
    ORDERED_KINDS = 4,  /* with ordered devices: one takes along the nodes in its way, one swaps two nodes */
    DEVICE_SHARE = 2,   /* one move in so many times the number of nodes changes whole devices */
    MAX_GROUP_LOG = 6,  /* base-2 logarithm of the nodes in the largest group */
    MAX_GROUP_NET = 32, /* members of the largest net that joins nodes to a group */
};

struct annealing {
    struct load_state state;
    struct random random;
    const struct shard_load_cooling *cooling;
    double temperature;
    double worst[2];  /* greatest load of each pass */
    double least;     /* least cost so far */
    double target[2]; /* energy is the excess of the loads of a pass over this */
    double limit;     /* only costs below are better than the best */
    bool saved;       /* `best` holds the best placement */
    int32_t *best;    /* nodes elements, the caller's */
    int32_t *group;   /* nodes + 2 elements: nodes that move together */
    int64_t *mark;    /* nodes elements: the last move that gathered each */
};

static inline double cost_of(const struct annealing *annealing) {
    return annealing->state.passes > 1 ? annealing->worst[0] + annealing->worst[1] : annealing->worst[0];
}

/* Set the least cost, divided between the targets of the passes in proportion to their current loads. */
static void set_target(struct annealing *annealing, double least) {
    const double cost = cost_of(annealing), share = cost > 0.0 ? least / cost : 0.0;
    annealing->least = least;
    annealing->limit = least * (1.0 - COST_TOLERANCE);
    for (int32_t p = 0; p < annealing->state.passes; p++)
        annealing->target[p] = annealing->worst[p] * share * (1.0 - annealing->cooling->margin);
}

/* Copy the best placement just before it is left for a worse one, so that successive improvements are copied once.
 * */
static void save_best(struct annealing *annealing) {
    const size_t n = (size_t)annealing->state.devices->nodes;
    if (!annealing->saved)
        memcpy(annealing->best, annealing->state.device, n * sizeof *annealing->best);
    annealing->saved = true;
}

/* Energy of a device with these loads, `passes` elements. */
static inline double energy(const struct annealing *annealing, const double *load) {
    double sum = 0.0;
    for (int32_t p = 0; p < annealing->state.passes; p++) {
        const double excess = load[p] - annealing->target[p];
        if (excess > 0.0)
            sum += annealing->cooling->squared ? excess * excess / annealing->target[p] : excess;
    }
    return sum;
}

static inline bool accepts(struct annealing *annealing, double added) {
    return added <= 0.0 || added <= anneal_allowance(&annealing->random, annealing->temperature);
}

/* Update the greatest loads and the least cost after an accepted move. */
static void update_worst(struct annealing *annealing) {
    const struct load_state *state = &annealing->state;
    for (int32_t p = 0; p < state->passes; p++) {
        bool lowered = false;
        for (int32_t i = 0; i < state->changed; i++) {
            const int32_t at = state->change[i] * state->passes + p;
            lowered |= state->load_before[at] >= annealing->worst[p] && state->load[at] < annealing->worst[p];
        }
        if (lowered)
            annealing->worst[p] = greatest_load(state, p);
        else
            for (int32_t i = 0; i < state->changed; i++)
                annealing->worst[p] =
                    fmax(annealing->worst[p], state->load[state->change[i] * state->passes + p]);
    }
    if (cost_of(annealing) < annealing->limit) {
        set_target(annealing, cost_of(annealing));
        annealing->saved = false;
    }
}

/* A random member of a random net of v; v itself if it has no nets. */
static int32_t draw_neighbour(struct annealing *annealing, int32_t v) {
    const struct load_state *state = &annealing->state;
    const int64_t *start = state->devices->net_start;
    if (start[v] == start[v + 1])
        return v;
    const int32_t of = random_below(&annealing->random, (int32_t)(start[v + 1] - start[v]));
    const int32_t net = state->devices->net[start[v] + of];
    return state->pin[state->pin_start[net] + random_below(&annealing->random, state->devices->members[net])];
}

/* The cost of a random net: a threshold for the nets that join a group. */
static double draw_threshold(struct annealing *annealing) {
    const struct shard_devices *devices = annealing->state.devices;
    return devices->nets > 0 ? devices->transfer[random_below(&annealing->random, devices->nets)] : 0.0;
}

/* The device of a neighbour of v, or any device. */
static int32_t draw_device(struct annealing *annealing, int32_t v) {
    const struct load_state *state = &annealing->state;
    if (random_bits(&annealing->random) >> 63)
        return state->device[draw_neighbour(annealing, v)];
    return random_below(&annealing->random, state->count);
}

/* Try to move v, without clusters: the times of two devices change. */
static void try_node(struct annealing *annealing, int32_t v, int32_t to) {
    struct load_state *state = &annealing->state;
    const int32_t from = state->device[v], passes = state->passes;
    struct times leaves[2], joins[2];
    double left[2], joined[2];
    if (to == from || !allows(state, v, to))
        return;
    preview(state, v, to, leaves, joins);
    for (int32_t p = 0; p < passes; p++) {
        left[p] = load_of(state, leaves + p);
        joined[p] = load_of(state, joins + p);
    }
    const double before =
        energy(annealing, state->load + from * passes) + energy(annealing, state->load + to * passes);
    if (!accepts(annealing, energy(annealing, left) + energy(annealing, joined) - before))
        return;
    if (passes > 1 || fmax(left[0], joined[0]) >= annealing->limit)
        save_best(annealing);
    apply_move(state, v, to, leaves, joins);
    update_worst(annealing);
}

/* The energy that the current move has added. */
static double added_energy(const struct annealing *annealing) {
    const struct load_state *state = &annealing->state;
    double added = 0.0;
    for (int32_t i = 0; i < state->changed; i++) {
        const int32_t at = state->change[i] * state->passes;
        added += energy(annealing, state->load + at) - energy(annealing, state->load_before + at);
    }
    return added;
}

/* Restore the times and loads from before the current move. */
static void restore(struct load_state *state) {
    const size_t passes = (size_t)state->passes;
    for (int32_t i = 0; i < state->changed; i++) {
        const size_t at = (size_t)state->change[i] * passes;
        memcpy(state->times + at, state->times_before + at, passes * sizeof *state->times);
        memcpy(state->load + at, state->load_before + at, passes * sizeof *state->load);
    }
}

/* Try to move each node of the group to the other of two devices, all or none; true if they moved. */
static bool try_group(struct annealing *annealing, int32_t count, int32_t from, int32_t to) {
    struct load_state *state = &annealing->state;
    const double room[2] = {state->room[from], state->room[to]};
    for (int32_t i = 0; i < count; i++) {
        const int32_t v = annealing->group[i];
        if (!supports(state, v, state->device[v] == from ? to : from))
            return false;
    }
    save_best(annealing); /* before they move */
    for (int32_t i = 0; i < count; i++)
        move_node(state, annealing->group[i], state->device[annealing->group[i]] == from ? to : from);
    bool allowed = state->room[from] >= 0.0 && state->room[to] >= 0.0;
    for (int32_t i = 0; i < count && allowed; i++)
        allowed = in_order(state, annealing->group[i], state->device[annealing->group[i]]);
    if (allowed && accepts(annealing, added_energy(annealing))) {
        update_worst(annealing);
        return true;
    }
    for (int32_t i = count - 1; i >= 0; i--) {
        const int32_t v = annealing->group[i], back = state->device[v] == from ? to : from;
        relocate(state, v, back);
    }
    restore(state);
    state->room[from] = room[0];
    state->room[to] = room[1];
    return false;
}

/* Try to move v alone. */
static void try_single(struct annealing *annealing, int32_t v, int32_t to) {
    if (annealing->state.model->cluster == 0) {
        try_node(annealing, v, to);
    } else if (annealing->state.device[v] != to && allows(&annealing->state, v, to)) {
        annealing->group[0] = v;
        try_group(annealing, 1, annealing->state.device[v], to);
    }
}

/* Gather up to `most` nodes of a device from v on, along nets of cost >= `threshold`; return their number. */
static int32_t gather(struct annealing *annealing, int32_t v, int32_t most, double threshold) {
    const struct load_state *state = &annealing->state;
    const struct shard_devices *devices = state->devices;
    int32_t count = 1;
    annealing->group[0] = v;
    annealing->mark[v] = annealing->state.move;
    for (int32_t i = 0; i < count; i++) {
        const int32_t u = annealing->group[i];
        for (int64_t j = devices->net_start[u]; j < devices->net_start[u + 1]; j++) {
            const int32_t net = devices->net[j];
            if (devices->members[net] > MAX_GROUP_NET || devices->transfer[net] < threshold)
                continue;
            for (int64_t k = state->pin_start[net]; k < state->pin_start[net + 1] && count < most; k++) {
                const int32_t w = state->pin[k];
                if (state->device[w] != state->device[v] || annealing->mark[w] == annealing->state.move)
                    continue;
                annealing->mark[w] = annealing->state.move;
                annealing->group[count++] = w;
            }
        }
    }
    return count;
}

static void try_unordered(struct annealing *annealing) {
    struct load_state *state = &annealing->state;
    const int32_t v = random_below(&annealing->random, state->devices->nodes), from = state->device[v];
    if (state->move % KINDS == 0) {
        const int32_t to = draw_device(annealing, v);
        const int32_t most = 2 << random_below(&annealing->random, MAX_GROUP_LOG);
        if (to != from)
            try_group(annealing, gather(annealing, v, most, draw_threshold(annealing)), from, to);
    } else if (state->move % KINDS == 1) {
        const int32_t any = random_below(&annealing->random, state->devices->nodes);
        const int32_t w = random_bits(&annealing->random) >> 63 ? draw_neighbour(annealing, v) : any;
        annealing->group[0] = v;
        annealing->group[1] = w;
        if (state->device[w] != from)
            try_group(annealing, 2, from, state->device[w]);
    } else {
        try_single(annealing, v, draw_device(annealing, v));
    }
}

/* ---------------------------------------------------------------- moves between ordered devices */

/* A random successor of v (predecessor if not `ahead`); -1 if there is none. */
static int32_t draw_adjacent(struct annealing *annealing, int32_t v, bool ahead) {
    const struct shard_load_model *model = annealing->state.model;
    const int64_t *start = ahead ? model->out_start : model->in_start;
    const int32_t *others = ahead ? model->out : model->in;
    if (start[v] == start[v + 1])
        return -1;
    return others[start[v] + random_below(&annealing->random, (int32_t)(start[v + 1] - start[v]))];
}

/* Gather v and all its descendants (ancestors if not `ahead`) on its device. Returns their number, 0 if they
 * are more than `most`. */
static int32_t gather_closure(struct annealing *annealing, int32_t v, int32_t most, bool ahead) {
    const struct load_state *state = &annealing->state;
    const int64_t *start = ahead ? state->model->out_start : state->model->in_start;
    const int32_t *others = ahead ? state->model->out : state->model->in;
    int32_t count = 1;
    annealing->group[0] = v;
    annealing->mark[v] = state->move;
    for (int32_t i = 0; i < count; i++) {
        const int32_t u = annealing->group[i];
        for (int64_t j = start[u]; j < start[u + 1]; j++) {
            const int32_t w = others[j];
            if (state->device[w] != state->device[v] || annealing->mark[w] == state->move)
                continue;
            if (count == most)
                return 0;
            annealing->mark[w] = state->move;
            annealing->group[count++] = w;
        }
    }
    return count;
}

/* The device after one in the order (before it if not `ahead`); the device itself if there is none. */
static int32_t adjacent_device(const struct load_state *state, int32_t device, bool ahead) {
    const int32_t rank = state->rank[device] + (ahead ? 1 : -1);
    return 0 <= rank && rank < state->count ? state->at_rank[rank] : device;
}

/* With probability 7/8 a node with edges to other devices, else any node. */
static int32_t draw_node(struct annealing *annealing) {
    const struct load_state *state = &annealing->state;
    if (state->border > 0 && random_bits(&annealing->random) >> 61)
        return state->border_node[random_below(&annealing->random, state->border)];
    return random_below(&annealing->random, state->devices->nodes);
}

static void try_ordered(struct annealing *annealing) {
    struct load_state *state = &annealing->state;
    const bool ahead = random_bits(&annealing->random) >> 63;
    const int32_t v = draw_node(annealing), from = state->device[v];
    if (state->move % ORDERED_KINDS == 1) {
        const int32_t w = draw_node(annealing);
        annealing->group[0] = v;
        annealing->group[1] = w;
        if (state->device[w] != from)
            try_group(annealing, 2, from, state->device[w]);
        return;
    }
    const int32_t next = draw_adjacent(annealing, v, ahead);
    const bool there = next >= 0 && state->device[next] != from && random_bits(&annealing->random) >> 62;
    const int32_t to = there ? state->device[next] : adjacent_device(state, from, ahead);
    if (to == from)
        return;
    if (state->move % ORDERED_KINDS == 0) {
        const int32_t most = 2 << random_below(&annealing->random, MAX_GROUP_LOG);
        const int32_t count = gather_closure(annealing, v, most, ahead);
        if (count > 0)
            try_group(annealing, count, from, to);
    } else {
        try_single(annealing, v, to);
    }
}

/* True if v has no successor (predecessor if not `ahead`) on a device of rank `low` to `high`. */
static bool is_clear(const struct load_state *state, int32_t v, bool ahead, int32_t low, int32_t high) {
    const int64_t *start = ahead ? state->model->out_start : state->model->in_start;
    const int32_t *others = ahead ? state->model->out : state->model->in;
    for (int64_t i = start[v]; i < start[v + 1]; i++) {
        const int32_t rank = state->rank[state->device[others[i]]];
        if (low <= rank && rank <= high)
            return false;
    }
    return true;
}

static void set_rank(struct load_state *state, int32_t device, int32_t rank) {
    state->rank[device] = rank;
    state->at_rank[rank] = device;
}

/* Give a device another rank if no edge forbids it; no load changes. */
static void try_rank(struct annealing *annealing) {
    struct load_state *state = &annealing->state;
    const int32_t device = random_below(&annealing->random, state->count);
    const int32_t from = state->rank[device], to = random_below(&annealing->random, state->count);
    const int32_t low = from < to ? from + 1 : to, high = from < to ? to : from - 1;
    for (int32_t v = 0; v < state->devices->nodes; v++)
        if (state->device[v] == device && !is_clear(state, v, from < to, low, high))
            return;
    for (int32_t rank = from; rank != to; rank += from < to ? 1 : -1)
        set_rank(state, state->at_rank[rank + (from < to ? 1 : -1)], rank);
    set_rank(state, device, to);
}

static void swap_ranks(struct load_state *state, int32_t a, int32_t b) {
    const int32_t rank = state->rank[a];
    if (!state->model->ordered)
        return;
    set_rank(state, a, state->rank[b]);
    set_rank(state, b, rank);
}

/* Swap the nodes and the ranks of two devices. */
static void try_exchange(struct annealing *annealing) {
    struct load_state *state = &annealing->state;
    const int32_t a = random_below(&annealing->random, state->count);
    const int32_t b = random_below(&annealing->random, state->count);
    int32_t count = 0;
    if (a == b)
        return;
    for (int32_t v = 0; v < state->devices->nodes; v++)
        if (state->device[v] == a || state->device[v] == b)
            annealing->group[count++] = v;
    swap_ranks(state, a, b);
    if (!try_group(annealing, count, a, b))
        swap_ranks(state, a, b);
}

static void try_move(struct annealing *annealing) {
    const struct shard_load_model *model = annealing->state.model;
    const int64_t whole =
        annealing->state.move % (DEVICE_SHARE * (int64_t)annealing->state.devices->nodes + KINDS);
    annealing->state.changed = 0;
    if (whole == 0 && (model->ordered || model->cluster > 0))
        try_exchange(annealing);
    else if (whole == 1 && model->ordered)
        try_rank(annealing);
    else if (model->ordered)
        try_ordered(annealing);
    else
        try_unordered(annealing);
}

static void anneal(struct annealing *annealing) {
    const struct shard_load_cooling *cooling = annealing->cooling;
    struct load_state *state = &annealing->state;
    const double factor = anneal_cooling(cooling->hot, cooling->cold, COOLING_INTERVAL, cooling->moves);
    annealing->temperature = cooling->hot;
    for (state->move = 1; state->move <= cooling->moves && annealing->least > 0.0; state->move++) {
        try_move(annealing);
        if (state->move % COOLING_INTERVAL == 0)
            annealing->temperature *= factor;
    }
    save_best(annealing);
}

int shard_anneal_load(const struct shard_devices *devices, const struct shard_load_model *model,
                      const struct shard_load_cooling *cooling, uint64_t *random, int32_t *rank,
                      int32_t *device, int32_t *best, double *cost, double *load) {
    struct annealing annealing = {
        .state = {.devices = devices, .model = model, .rank = rank, .device = device, .load = load},
        .random = {*random},
        .cooling = cooling,
        .best = best,
    };
    struct load_state *state = &annealing.state;
    ARENA_ARRAYS(&state->arena, devices->nodes + 2, annealing.group);
    ARENA_ZEROS(&state->arena, devices->nodes, annealing.mark);
    const int status = load_state_begin(state);
    if (status == SHARD_OK) {
        for (int32_t p = 0; p < model->passes; p++)
            annealing.worst[p] = greatest_load(state, p);
        annealing.saved = *cost <= cost_of(&annealing);
        set_target(&annealing, fmin(*cost, cost_of(&annealing)));
        memset(state->changed_in, 0, (size_t)state->count * sizeof(int64_t));
        if (devices->nodes > 0)
            anneal(&annealing);
        *cost = annealing.least;
        *random = annealing.random.state;
    }
    arena_free(&state->arena);
    return status;
}
