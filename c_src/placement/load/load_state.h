/* Placements with the load of every device, kept up to date while nodes move: the number of nodes of each net
 * on each device determines what a move changes.
 *
 * The functions that searches call for every move are inline. */
#pragma once

#include "common/arena.h"
#include "placement/load/load_model.h"

/* The nodes of a net on one device; the slot is free if there are none. */
struct slot {
    int32_t device, members;
};

/* Times of a device in one pass. */
struct times {
    double in, computing, out;
};

struct load_state {
    struct arena arena;
    const struct shard_devices *devices;
    const struct shard_load_model *model;
    int32_t count;       /* devices */
    int32_t passes;      /* as in the model */
    int32_t *rank;       /* count elements, the caller's */
    int32_t *device;     /* nodes elements, the caller's */
    double *load;        /* count * passes elements, the caller's */
    struct times *times; /* count * passes elements */
    double *room;        /* count elements: memory left */
    int64_t *slot_start; /* nets + 1 elements: slots per net, the lesser of members and devices */
    struct slot *slot;   /* if a net has a slot per device, slot d is that of device d */
    int64_t *pin_start;  /* nets + 1 elements */
    int32_t *pin;        /* the nodes of each net */
    /* Changes by the current move. */
    int64_t move;               /* its number */
    int32_t changed;            /* devices whose times it has changed */
    int32_t *change;            /* count elements: these devices */
    int64_t *changed_in;        /* count elements: the last move that changed each device */
    struct times *times_before; /* count * passes elements: times of the changed devices before the move */
    double *load_before;        /* count * passes elements: likewise */
    /* Of ordered devices. */
    int32_t *at_rank;      /* count elements: the device of each rank */
    int32_t *crossing;     /* nodes elements: edges to and from nodes on other devices */
    int32_t border;        /* nodes with such edges */
    int32_t *border_node;  /* nodes elements: these nodes */
    int32_t *border_index; /* nodes elements: the index of each in border_node */
};

/* Set up the times of a placement; `devices`, `model`, `rank`, `device` and `load` must be set. Returns
 * SHARD_OK or SHARD_NO_MEMORY; always call arena_free. */
int load_state_begin(struct load_state *state);

/* The greatest load of a pass. */
double greatest_load(const struct load_state *state, int32_t pass);

/* Count v on another device, without updating times. */
void relocate(struct load_state *state, int32_t v, int32_t to);

/* Move v and recompute the cost of its nets to every device: with clusters, more than two devices change. */
void move_between_clusters(struct load_state *state, int32_t v, int32_t to);

static inline bool is_accelerator(const struct load_state *state, int32_t device) {
    return device < state->devices->accelerators;
}

static inline double time_on(const struct load_state *state, int32_t v, int32_t device) {
    return is_accelerator(state, device) ? state->devices->accelerator_time[v] : state->devices->cpu_time[v];
}

static inline double backward_time_on(const struct load_state *state, int32_t v, int32_t device) {
    return is_accelerator(state, device) ? state->model->backward_accelerator_time[v]
                                         : state->model->backward_cpu_time[v];
}

static inline double load_of(const struct load_state *state, const struct times *times) {
    if (state->model->overlap == 1)
        return fmax(times->computing, times->in + times->out);
    if (state->model->overlap == 2)
        return fmax(times->computing, fmax(times->in, times->out));
    return times->computing + times->in + times->out;
}

static inline bool supports(const struct load_state *state, int32_t v, int32_t device) {
    return isfinite(time_on(state, v, device));
}

/* True if all edges of v agree with the order of devices if v is on this one. */
static inline bool in_order(const struct load_state *state, int32_t v, int32_t device) {
    const struct shard_load_model *model = state->model;
    if (!model->ordered)
        return true;
    const int32_t rank = state->rank[device];
    for (int64_t i = model->out_start[v]; i < model->out_start[v + 1]; i++)
        if (state->rank[state->device[model->out[i]]] < rank)
            return false;
    for (int64_t i = model->in_start[v]; i < model->in_start[v + 1]; i++)
        if (state->rank[state->device[model->in[i]]] > rank)
            return false;
    return true;
}

static inline bool allows(const struct load_state *state, int32_t v, int32_t device) {
    return supports(state, v, device) && state->devices->size[v] <= state->room[device] &&
           in_order(state, v, device);
}

/* The slot of a device, else a free one, else NULL. */
static inline struct slot *find_slot(const struct load_state *state, int32_t net, int32_t device) {
    struct slot *first = state->slot + state->slot_start[net], *free_slot = NULL;
    const struct slot *end = state->slot + state->slot_start[net + 1];
    if (end - first == state->count)
        return first + device;
    for (struct slot *slot = first; slot < end; slot++)
        if (slot->members == 0)
            free_slot = slot;
        else if (slot->device == device)
            return slot;
    return free_slot;
}

static inline int32_t members_on(const struct load_state *state, int32_t net, int32_t device) {
    const struct slot *slot = find_slot(state, net, device);
    return slot ? slot->members : 0;
}

/* Save the times and loads of a device before the current move changes them. */
static inline void save_device(struct load_state *state, int32_t device) {
    const size_t at = (size_t)device * (size_t)state->passes, passes = (size_t)state->passes;
    if (state->changed_in[device] == state->move)
        return;
    state->changed_in[device] = state->move;
    state->change[state->changed++] = device;
    memcpy(state->times_before + at, state->times + at, passes * sizeof *state->times);
    memcpy(state->load_before + at, state->load + at, passes * sizeof *state->load);
}

/* Add the computing time of v on a device, times `sign`. */
static inline void add_computing(const struct load_state *state, struct times *times, int32_t v,
                                 int32_t device, double sign) {
    const double whole = time_on(state, v, device);
    const double backward = state->passes > 1 ? backward_time_on(state, v, device) : 0.0;
    times[0].computing += sign * (whole - backward);
    if (state->passes > 1)
        times[1].computing += sign * backward;
}

static inline void add_transfer(struct times *times, bool sends, double time) {
    if (sends)
        times->out += time;
    else
        times->in += time;
}

/* The device of the maker of a net, -1 if the maker does not matter. */
static inline int32_t maker_device(const struct load_state *state, int32_t net) {
    const int32_t maker = state->model->maker[net];
    return maker < 0 ? -1 : state->device[maker];
}

/* Compute the times, out, `passes` elements, of the devices that v would leave and join. No clusters. */
static inline void preview(const struct load_state *state, int32_t v, int32_t to, struct times *leaves,
                           struct times *joins) {
    const struct shard_devices *devices = state->devices;
    const int32_t from = state->device[v];
    const bool from_pays = is_accelerator(state, from), to_pays = is_accelerator(state, to);
    memcpy(leaves, state->times + from * state->passes, (size_t)state->passes * sizeof *leaves);
    memcpy(joins, state->times + to * state->passes, (size_t)state->passes * sizeof *joins);
    add_computing(state, leaves, v, from, -1.0);
    add_computing(state, joins, v, to, 1.0);
    for (int64_t i = devices->net_start[v]; i < devices->net_start[v + 1]; i++) {
        const int32_t net = devices->net[i], all = devices->members[net];
        const int32_t here = members_on(state, net, from), there = members_on(state, net, to);
        const int32_t pass = state->model->pass[net], home = maker_device(state, net);
        const bool makes = state->model->maker[net] == v;
        const double cost = devices->transfer[net];
        if (from_pays && here < all)
            add_transfer(leaves + pass, home == from, -cost);
        if (from_pays && here > 1)
            add_transfer(leaves + pass, home == from && !makes, cost);
        if (to_pays && there > 0)
            add_transfer(joins + pass, home == to, -cost);
        if (to_pays && there + 1 < all)
            add_transfer(joins + pass, home == to || makes, cost);
    }
}

static inline void set_times(struct load_state *state, int32_t device, const struct times *times) {
    for (int32_t p = 0; p < state->passes; p++) {
        state->times[device * state->passes + p] = times[p];
        state->load[device * state->passes + p] = load_of(state, times + p);
    }
}

/* Move v, given its previewed times. */
static inline void apply_move(struct load_state *state, int32_t v, int32_t to, const struct times *leaves,
                              const struct times *joins) {
    const int32_t from = state->device[v];
    save_device(state, from);
    save_device(state, to);
    set_times(state, from, leaves);
    set_times(state, to, joins);
    relocate(state, v, to);
}

static inline void move_node(struct load_state *state, int32_t v, int32_t to) {
    struct times leaves[2], joins[2];
    if (state->model->cluster > 0) {
        move_between_clusters(state, v, to);
        return;
    }
    preview(state, v, to, leaves, joins);
    apply_move(state, v, to, leaves, joins);
}
