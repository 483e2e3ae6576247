/* Setting up a placement with its loads, and the rarer changes. */
#include "placement/load/load_state.h"

static void join(struct load_state *state, int32_t v, int32_t device) {
    const struct shard_devices *devices = state->devices;
    for (int64_t i = devices->net_start[v]; i < devices->net_start[v + 1]; i++) {
        struct slot *slot = find_slot(state, devices->net[i], device);
        slot->device = device;
        slot->members++;
    }
    state->device[v] = device;
    state->room[device] -= is_accelerator(state, device) ? devices->size[v] : 0.0;
}

static void leave(struct load_state *state, int32_t v) {
    const struct shard_devices *devices = state->devices;
    const int32_t device = state->device[v];
    for (int64_t i = devices->net_start[v]; i < devices->net_start[v + 1]; i++)
        find_slot(state, devices->net[i], device)->members--;
    state->room[device] += is_accelerator(state, device) ? devices->size[v] : 0.0;
}

/* Add `more`, 1 or -1, to the edges of v that cross to other devices. */
static inline void add_crossing(struct load_state *state, int32_t v, int32_t more) {
    const bool was = state->crossing[v] > 0;
    state->crossing[v] += more;
    const bool is = state->crossing[v] > 0;
    if (is && !was) {
        state->border_index[v] = state->border;
        state->border_node[state->border++] = v;
    } else if (was && !is) {
        const int32_t last = state->border_node[--state->border];
        state->border_node[state->border_index[v]] = last;
        state->border_index[last] = state->border_index[v];
    }
}

static void update_crossing(struct load_state *state, int32_t v, const int64_t *start, const int32_t *others,
                            int32_t from, int32_t to) {
    for (int64_t i = start[v]; i < start[v + 1]; i++) {
        const int32_t there = state->device[others[i]], more = (there == from) - (there == to);
        if (more != 0) {
            add_crossing(state, v, more);
            add_crossing(state, others[i], more);
        }
    }
}

void relocate(struct load_state *state, int32_t v, int32_t to) {
    const struct shard_load_model *model = state->model;
    if (model->ordered) {
        update_crossing(state, v, model->out_start, model->out, state->device[v], to);
        update_crossing(state, v, model->in_start, model->in, state->device[v], to);
    }
    leave(state, v);
    join(state, v, to);
}

static inline bool in_other_cluster(const struct load_state *state, int32_t a, int32_t b) {
    const int32_t cluster = state->model->cluster;
    return cluster > 0 && is_accelerator(state, a) && is_accelerator(state, b) && a / cluster != b / cluster;
}

/* Add the cost of a net to every device, times `sign`; save these devices first. */
static void add_net(struct load_state *state, int32_t net, double sign) {
    const int64_t start = state->slot_start[net], end = state->slot_start[net + 1];
    const int32_t all = state->devices->members[net], home = maker_device(state, net);
    const double near = sign * state->devices->transfer[net], far = near * state->model->slowdown;
    bool any_far = false, sent = false;
    for (int64_t i = start; i < end; i++) {
        const struct slot *slot = &state->slot[i];
        const int32_t device = end - start == state->count ? (int32_t)(i - start) : slot->device;
        if (slot->members == 0 || slot->members == all)
            continue;
        sent = true;
        if (device == home || !is_accelerator(state, device))
            continue;
        const bool is_far = home >= 0 && in_other_cluster(state, home, device);
        any_far |= is_far;
        save_device(state, device);
        add_transfer(state->times + device * state->passes + state->model->pass[net], false,
                     is_far ? far : near);
    }
    if (sent && home >= 0 && is_accelerator(state, home)) {
        save_device(state, home);
        add_transfer(state->times + home * state->passes + state->model->pass[net], true,
                     any_far ? far : near);
    }
}

void move_between_clusters(struct load_state *state, int32_t v, int32_t to) {
    const struct shard_devices *devices = state->devices;
    const int32_t from = state->device[v];
    save_device(state, from);
    save_device(state, to);
    for (int64_t i = devices->net_start[v]; i < devices->net_start[v + 1]; i++)
        add_net(state, devices->net[i], -1.0);
    add_computing(state, state->times + from * state->passes, v, from, -1.0);
    add_computing(state, state->times + to * state->passes, v, to, 1.0);
    relocate(state, v, to);
    for (int64_t i = devices->net_start[v]; i < devices->net_start[v + 1]; i++)
        add_net(state, devices->net[i], 1.0);
    for (int32_t i = 0; i < state->changed; i++)
        set_times(state, state->change[i], state->times + state->change[i] * state->passes);
}

double greatest_load(const struct load_state *state, int32_t pass) {
    double greatest = 0.0;
    for (int32_t d = 0; d < state->count; d++)
        greatest = fmax(greatest, state->load[d * state->passes + pass]);
    return greatest;
}

static void list_pins(struct load_state *state) {
    const struct shard_devices *devices = state->devices;
    int64_t *at = state->pin_start;
    at[0] = 0;
    for (int32_t net = 0; net < devices->nets; net++)
        at[net + 1] = at[net] + devices->members[net];
    for (int32_t v = devices->nodes - 1; v >= 0; v--)
        for (int64_t i = devices->net_start[v]; i < devices->net_start[v + 1]; i++)
            state->pin[--at[devices->net[i] + 1]] = v;
    for (int32_t net = 0; net < devices->nets; net++) /* at[net + 1] is now where the pins of `net` begin */
        at[net] = at[net + 1];
    at[devices->nets] = devices->net_start[devices->nodes];
}

static void add_up_times(struct load_state *state) {
    const struct shard_devices *devices = state->devices;
    for (int32_t d = 0; d < state->count; d++)
        state->room[d] = is_accelerator(state, d) ? devices->memory : (double)INFINITY;
    for (int32_t v = 0; v < devices->nodes; v++) {
        const int32_t device = state->device[v];
        add_computing(state, state->times + device * state->passes, v, device, 1.0);
        join(state, v, device);
    }
    for (int32_t net = 0; net < devices->nets; net++)
        add_net(state, net, 1.0);
    for (int32_t d = 0; d < state->count; d++)
        set_times(state, d, state->times + d * state->passes);
    state->changed = 0;
}

/* List the nodes with edges between devices. */
static void list_border(struct load_state *state) {
    const struct shard_load_model *model = state->model;
    for (int32_t d = 0; d < state->count; d++)
        state->at_rank[state->rank[d]] = d;
    for (int32_t v = 0; v < state->devices->nodes; v++) {
        for (int64_t i = model->out_start[v]; i < model->out_start[v + 1]; i++) {
            if (state->device[model->out[i]] != state->device[v]) {
                add_crossing(state, v, 1);
                add_crossing(state, model->out[i], 1);
            }
        }
    }
}

int load_state_begin(struct load_state *state) {
    const struct shard_devices *devices = state->devices;
    const int64_t n = devices->nodes, nets = devices->nets, pins = devices->net_start[n];
    struct arena *arena = &state->arena;
    state->count = devices->accelerators + devices->cpus;
    state->passes = state->model->passes;
    const int64_t loads = (int64_t)state->count * state->passes;
    ARENA_ZEROS(arena, loads, state->times);
    ARENA_ARRAYS(arena, state->count, state->room, state->change);
    ARENA_ARRAYS(arena, nets + 1, state->slot_start, state->pin_start);
    ARENA_ZEROS(arena, pins, state->slot);
    ARENA_ARRAYS(arena, pins, state->pin);
    ARENA_ZEROS(arena, state->count, state->changed_in);
    ARENA_ARRAYS(arena, loads, state->times_before, state->load_before);
    if (state->model->ordered) {
        ARENA_ARRAYS(arena, state->count, state->at_rank);
        ARENA_ZEROS(arena, n, state->crossing);
        ARENA_ARRAYS(arena, n, state->border_node, state->border_index);
    }
    if (arena->failed)
        return SHARD_NO_MEMORY;
    if (state->model->ordered)
        list_border(state);
    state->move = 1;
    state->slot_start[0] = 0;
    for (int32_t net = 0; net < nets; net++) {
        const int32_t all = devices->members[net];
        state->slot_start[net + 1] = state->slot_start[net] + (all < state->count ? all : state->count);
    }
    list_pins(state);
    add_up_times(state);
    return SHARD_OK;
}
