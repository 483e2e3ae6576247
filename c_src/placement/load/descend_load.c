/* All moves are previewed in every step; the three greatest loads give the maximum over the other devices. */
#include "placement/load/descend_load.h"

#include "common/anneal.h"
#include "placement/load/load_state.h"

/* The three devices with the greatest loads, -1 if there are fewer devices. */
static void find_top(const struct load_state *state, int32_t top[3]) {
    top[0] = top[1] = top[2] = -1;
    for (int32_t d = 0; d < state->count; d++) {
        int32_t place = 3;
        while (place > 0 && (top[place - 1] < 0 || state->load[d] > state->load[top[place - 1]]))
            place--;
        for (int32_t i = 2; i > place; i--)
            top[i] = top[i - 1];
        if (place < 3)
            top[place] = d;
    }
}

/* The greatest load of all devices but two. */
static double load_of_others(const struct load_state *state, const int32_t top[3], int32_t a, int32_t b) {
    for (int32_t i = 0; i < 3 && top[i] >= 0; i++)
        if (top[i] != a && top[i] != b)
            return state->load[top[i]];
    return 0.0;
}

/* The least greatest load after a move of one node, and that move; INFINITY if there is no move. */
static double steepest(const struct load_state *state, int32_t *node, int32_t *device) {
    double least = (double)INFINITY;
    int32_t top[3];
    find_top(state, top);
    for (int32_t v = 0; v < state->devices->nodes; v++) {
        const int32_t from = state->device[v];
        for (int32_t to = 0; to < state->devices->accelerators && is_accelerator(state, from); to++) {
            struct times leaves[2], joins[2];
            if (to == from || !allows(state, v, to))
                continue;
            preview(state, v, to, leaves, joins);
            const double changed = fmax(load_of(state, leaves), load_of(state, joins));
            const double worst = fmax(changed, load_of_others(state, top, from, to));
            if (worst < least) {
                least = worst;
                *node = v;
                *device = to;
            }
        }
    }
    return least;
}

int shard_descend_load(const struct shard_devices *devices, const struct shard_load_model *model,
                       int64_t steps, int32_t *device, double *cost, int64_t *made) {
    struct load_state state = {.devices = devices, .model = model, .device = device};
    ARENA_ARRAYS(&state.arena, devices->accelerators + devices->cpus, state.load);
    const int status = load_state_begin(&state);
    if (status == SHARD_OK) {
        int32_t v = 0, to = 0;
        for (*made = 0; *made < steps; ++*made) {
            if (!(steepest(&state, &v, &to) < greatest_load(&state, 0) * (1.0 - COST_TOLERANCE)))
                break;
            state.changed = 0;
            move_node(&state, v, to);
            state.move++;
        }
        *cost = greatest_load(&state, 0);
    }
    arena_free(&state.arena);
    return status;
}
