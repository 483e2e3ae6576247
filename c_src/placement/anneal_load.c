/* Placements: how many nodes of each net are on each device says what a move changes. */
#include "placement/anneal_load.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/random.h"

/* Loads that differ by less than this, relatively, are equal. */
#define TOLERANCE 1e-9

/* Moves between two looks at the temperature. */
#define BREATH 64

/* One move in so many takes nodes that share nets along, and one swaps two nodes. */
#define KINDS 8

/* Of moves in an order one in so many takes along what is in its way, and one swaps two nodes. */
#define ORDERED_KINDS 4

/* For so many moves a node, one looks at a whole device. */
#define WHOLE 2

/* Most nodes that move together, as a power of 2, and the members of the largest net that joins them. */
#define LARGEST_GROUP 6
#define WIDEST 32

/* A device with nodes of a net, and how many; free if none. */
struct slot {
    int32_t device, members;
};

/* What a device takes for one pass. */
struct times {
    double in, computing, out;
};

struct placing {
    const struct shard_devices *devices;
    const struct shard_rules *rules;
    int32_t count;       /* devices */
    int32_t passes;      /* as in the rules */
    int32_t *rank;       /* count elements, the caller's */
    int32_t *device;     /* nodes elements, the caller's */
    double *load;        /* count * passes elements */
    struct times *times; /* count * passes elements */
    double *room;        /* count elements: memory left */
    int64_t
        *slot_start;    /* nets + 1 elements: a slot for each member, or for each device if those are fewer */
    struct slot *slot;  /* in the latter case slot d is that of device d */
    int64_t *pin_start; /* nets + 1 elements */
    int32_t *pin;       /* the nodes of each net */
    int32_t changed;    /* number of devices whose times have changed in this move */
    int32_t *change;    /* count elements: which */
    int64_t *changed_at;        /* count elements: the move in which each did last */
    struct times *times_before; /* count * passes elements: of those, times and loads as they were */
    double *load_before;
    int64_t now;        /* number of the move */
    int32_t *at;        /* if ordered, count elements: the device of each rank */
    int32_t *crossing;  /* if ordered, nodes elements: edges of the order to and from other devices */
    int32_t border;     /* number of nodes that have some, which are listed */
    int32_t *listed;    /* nodes elements */
    int32_t *listed_at; /* nodes elements: where in the list each is */
};

static inline bool is_accelerator(const struct placing *placing, int32_t device) {
    return device < placing->devices->accelerators;
}

static inline double time_on(const struct placing *placing, int32_t v, int32_t device) {
    return is_accelerator(placing, device) ? placing->devices->accelerator_time[v]
                                           : placing->devices->cpu_time[v];
}

static inline double backward_time_on(const struct placing *placing, int32_t v, int32_t device) {
    return is_accelerator(placing, device) ? placing->rules->backward_accelerator_time[v]
                                           : placing->rules->backward_cpu_time[v];
}

static inline double load_of(const struct placing *placing, const struct times *times) {
    if (placing->rules->overlap == 1)
        return fmax(times->computing, times->in + times->out);
    if (placing->rules->overlap == 2)
        return fmax(times->computing, fmax(times->in, times->out));
    return times->computing + times->in + times->out;
}

static inline bool supports(const struct placing *placing, int32_t v, int32_t device) {
    return isfinite(time_on(placing, v, device));
}

/* Whether no edge of v is against the order of devices if v is on this one. */
static bool in_order(const struct placing *placing, int32_t v, int32_t device) {
    const struct shard_rules *rules = placing->rules;
    if (!rules->ordered)
        return true;
    const int32_t rank = placing->rank[device];
    for (int64_t i = rules->out_start[v]; i < rules->out_start[v + 1]; i++) {
        if (placing->rank[placing->device[rules->out[i]]] < rank)
            return false;
    }
    for (int64_t i = rules->in_start[v]; i < rules->in_start[v + 1]; i++) {
        if (placing->rank[placing->device[rules->in[i]]] > rank)
            return false;
    }
    return true;
}

static inline bool allows(const struct placing *placing, int32_t v, int32_t device) {
    return supports(placing, v, device) && placing->devices->size[v] <= placing->room[device] &&
           in_order(placing, v, device);
}

/* The slot of a device, or a free one, or NULL if all are taken by others. */
static inline struct slot *find_slot(const struct placing *placing, int32_t net, int32_t device) {
    struct slot *first = placing->slot + placing->slot_start[net], *free_slot = NULL;
    const struct slot *end = placing->slot + placing->slot_start[net + 1];
    if (end - first == placing->count)
        return first + device;
    for (struct slot *slot = first; slot < end; slot++) {
        if (slot->members == 0)
            free_slot = slot;
        else if (slot->device == device)
            return slot;
    }
    return free_slot;
}

static inline int32_t members_on(const struct placing *placing, int32_t net, int32_t device) {
    const struct slot *slot = find_slot(placing, net, device);
    return slot ? slot->members : 0;
}

static void join(struct placing *placing, int32_t v, int32_t device) {
    const struct shard_devices *devices = placing->devices;
    for (int64_t i = devices->net_start[v]; i < devices->net_start[v + 1]; i++) {
        struct slot *slot = find_slot(placing, devices->net[i], device);
        slot->device = device;
        slot->members++;
    }
    placing->device[v] = device;
    placing->room[device] -= is_accelerator(placing, device) ? devices->size[v] : 0.0;
}

static void leave(struct placing *placing, int32_t v) {
    const struct shard_devices *devices = placing->devices;
    const int32_t device = placing->device[v];
    for (int64_t i = devices->net_start[v]; i < devices->net_start[v + 1]; i++)
        find_slot(placing, devices->net[i], device)->members--;
    placing->room[device] += is_accelerator(placing, device) ? devices->size[v] : 0.0;
}

/* An edge of v more crosses to another device, or one less. */
static inline void cross(struct placing *placing, int32_t v, int32_t more) {
    const bool was = placing->crossing[v] > 0;
    placing->crossing[v] += more;
    const bool is = placing->crossing[v] > 0;
    if (is && !was) {
        placing->listed_at[v] = placing->border;
        placing->listed[placing->border++] = v;
    } else if (was && !is) {
        const int32_t last = placing->listed[--placing->border];
        placing->listed[placing->listed_at[v]] = last;
        placing->listed_at[last] = placing->listed_at[v];
    }
}

static void cross_all(struct placing *placing, int32_t v, const int64_t *start, const int32_t *others,
                      int32_t from, int32_t to) {
    for (int64_t i = start[v]; i < start[v + 1]; i++) {
        const int32_t there = placing->device[others[i]], more = (there == from) - (there == to);
        if (more != 0) {
            cross(placing, v, more);
            cross(placing, others[i], more);
        }
    }
}

/* Count v on another device; times remain. */
static void relocate(struct placing *placing, int32_t v, int32_t to) {
    const struct shard_rules *rules = placing->rules;
    if (rules->ordered) {
        cross_all(placing, v, rules->out_start, rules->out, placing->device[v], to);
        cross_all(placing, v, rules->in_start, rules->in, placing->device[v], to);
    }
    leave(placing, v);
    join(placing, v, to);
}

/* Remember a device as it was before this move. */
static void remember(struct placing *placing, int32_t device) {
    const size_t at = (size_t)device * (size_t)placing->passes, passes = (size_t)placing->passes;
    if (placing->changed_at[device] == placing->now)
        return;
    placing->changed_at[device] = placing->now;
    placing->change[placing->changed++] = device;
    memcpy(placing->times_before + at, placing->times + at, passes * sizeof *placing->times);
    memcpy(placing->load_before + at, placing->load + at, passes * sizeof *placing->load);
}

/* Add what v computes on a device, `sign` times. */
static inline void compute(const struct placing *placing, struct times *times, int32_t v, int32_t device,
                           double sign) {
    const double whole = time_on(placing, v, device);
    const double backward = placing->passes > 1 ? backward_time_on(placing, v, device) : 0.0;
    times[0].computing += sign * (whole - backward);
    if (placing->passes > 1)
        times[1].computing += sign * backward;
}

static inline void pay(struct times *times, bool makes, double cost) {
    if (makes)
        times->out += cost;
    else
        times->in += cost;
}

static inline int32_t home_of(const struct placing *placing, int32_t net) {
    const int32_t maker = placing->rules->maker[net];
    return maker < 0 ? -1 : placing->device[maker];
}

static inline bool is_far(const struct placing *placing, int32_t a, int32_t b) {
    const int32_t cluster = placing->rules->cluster;
    return cluster > 0 && is_accelerator(placing, a) && is_accelerator(placing, b) &&
           a / cluster != b / cluster;
}

/* Add what all devices pay for a net, `sign` times; remember them before. */
static void pay_all(struct placing *placing, int32_t net, double sign) {
    const int64_t start = placing->slot_start[net], end = placing->slot_start[net + 1];
    const int32_t all = placing->devices->members[net], home = home_of(placing, net);
    const double near = sign * placing->devices->transfer[net], far = near * placing->rules->slowdown;
    bool any_far = false, sent = false;
    for (int64_t i = start; i < end; i++) {
        const struct slot *slot = &placing->slot[i];
        const int32_t device = end - start == placing->count ? (int32_t)(i - start) : slot->device;
        if (slot->members == 0 || slot->members == all)
            continue;
        sent = true;
        if (device == home || !is_accelerator(placing, device))
            continue;
        const bool abroad = home >= 0 && is_far(placing, home, device);
        any_far |= abroad;
        remember(placing, device);
        pay(placing->times + device * placing->passes + placing->rules->pass[net], false,
            abroad ? far : near);
    }
    if (sent && home >= 0 && is_accelerator(placing, home)) {
        remember(placing, home);
        pay(placing->times + home * placing->passes + placing->rules->pass[net], true, any_far ? far : near);
    }
}

/* The times of the device that v would leave and of the one that it would join, without clusters. */
static void preview(const struct placing *placing, int32_t v, int32_t to, struct times *leaves,
                    struct times *joins) {
    const struct shard_devices *devices = placing->devices;
    const int32_t from = placing->device[v];
    const bool from_pays = is_accelerator(placing, from), to_pays = is_accelerator(placing, to);
    memcpy(leaves, placing->times + from * placing->passes, (size_t)placing->passes * sizeof *leaves);
    memcpy(joins, placing->times + to * placing->passes, (size_t)placing->passes * sizeof *joins);
    compute(placing, leaves, v, from, -1.0);
    compute(placing, joins, v, to, 1.0);
    for (int64_t i = devices->net_start[v]; i < devices->net_start[v + 1]; i++) {
        const int32_t net = devices->net[i], all = devices->members[net];
        const int32_t here = members_on(placing, net, from), there = members_on(placing, net, to);
        const int32_t pass = placing->rules->pass[net], home = home_of(placing, net);
        const bool makes = placing->rules->maker[net] == v;
        const double cost = devices->transfer[net];
        if (from_pays && here < all)
            pay(leaves + pass, home == from, -cost);
        if (from_pays && here > 1)
            pay(leaves + pass, home == from && !makes, cost);
        if (to_pays && there > 0)
            pay(joins + pass, home == to, -cost);
        if (to_pays && there + 1 < all)
            pay(joins + pass, home == to || makes, cost);
    }
}

static inline void set_times(struct placing *placing, int32_t device, const struct times *times) {
    for (int32_t p = 0; p < placing->passes; p++) {
        placing->times[device * placing->passes + p] = times[p];
        placing->load[device * placing->passes + p] = load_of(placing, times + p);
    }
}

/* Move v and pay again for its nets wherever they are. */
static void move_far(struct placing *placing, int32_t v, int32_t to) {
    const struct shard_devices *devices = placing->devices;
    const int32_t from = placing->device[v];
    for (int64_t i = devices->net_start[v]; i < devices->net_start[v + 1]; i++)
        pay_all(placing, devices->net[i], -1.0);
    compute(placing, placing->times + from * placing->passes, v, from, -1.0);
    compute(placing, placing->times + to * placing->passes, v, to, 1.0);
    relocate(placing, v, to);
    for (int64_t i = devices->net_start[v]; i < devices->net_start[v + 1]; i++)
        pay_all(placing, devices->net[i], 1.0);
    for (int32_t i = 0; i < placing->changed; i++)
        set_times(placing, placing->change[i], placing->times + placing->change[i] * placing->passes);
}

static void move(struct placing *placing, int32_t v, int32_t to) {
    struct times leaves[2], joins[2];
    const int32_t from = placing->device[v];
    remember(placing, from);
    remember(placing, to);
    if (placing->rules->cluster > 0) {
        move_far(placing, v, to);
        return;
    }
    preview(placing, v, to, leaves, joins);
    set_times(placing, from, leaves);
    set_times(placing, to, joins);
    relocate(placing, v, to);
}

static double greatest_load(const struct placing *placing, int32_t pass) {
    double greatest = 0.0;
    for (int32_t d = 0; d < placing->count; d++)
        greatest = fmax(greatest, placing->load[d * placing->passes + pass]);
    return greatest;
}

static void list_pins(struct placing *placing) {
    const struct shard_devices *devices = placing->devices;
    int64_t *at = placing->pin_start;
    at[0] = 0;
    for (int32_t net = 0; net < devices->nets; net++)
        at[net + 1] = at[net] + devices->members[net];
    for (int32_t v = devices->nodes - 1; v >= 0; v--) {
        for (int64_t i = devices->net_start[v]; i < devices->net_start[v + 1]; i++)
            placing->pin[--at[devices->net[i] + 1]] = v;
    }
    for (int32_t net = 0; net < devices->nets; net++) /* every end is where the net begins, one place late */
        at[net] = at[net + 1];
    at[devices->nets] = devices->net_start[devices->nodes];
}

static void count_members(struct placing *placing) {
    const struct shard_devices *devices = placing->devices;
    for (int32_t d = 0; d < placing->count; d++)
        placing->room[d] = is_accelerator(placing, d) ? devices->memory : (double)INFINITY;
    for (int32_t v = 0; v < devices->nodes; v++) {
        const int32_t device = placing->device[v];
        compute(placing, placing->times + device * placing->passes, v, device, 1.0);
        join(placing, v, device);
    }
    for (int32_t net = 0; net < devices->nets; net++)
        pay_all(placing, net, 1.0);
    for (int32_t d = 0; d < placing->count; d++)
        set_times(placing, d, placing->times + d * placing->passes);
    placing->changed = 0;
}

/* List the nodes whose edges cross between devices. */
static void list_border(struct placing *placing) {
    const struct shard_rules *rules = placing->rules;
    for (int32_t d = 0; d < placing->count; d++)
        placing->at[placing->rank[d]] = d;
    for (int32_t v = 0; v < placing->devices->nodes; v++) {
        for (int64_t i = rules->out_start[v]; i < rules->out_start[v + 1]; i++) {
            if (placing->device[rules->out[i]] != placing->device[v]) {
                cross(placing, v, 1);
                cross(placing, rules->out[i], 1);
            }
        }
    }
}

static void release(struct placing *placing) {
    free(placing->at);
    free(placing->crossing);
    free(placing->listed);
    free(placing->listed_at);
    free(placing->times);
    free(placing->room);
    free(placing->slot_start);
    free(placing->slot);
    free(placing->pin_start);
    free(placing->pin);
    free(placing->change);
    free(placing->changed_at);
    free(placing->times_before);
    free(placing->load_before);
}

static bool begin_border(struct placing *placing) {
    const size_t n = (size_t)placing->devices->nodes + 1;
    placing->at = malloc((size_t)placing->count * sizeof *placing->at);
    placing->crossing = calloc(n, sizeof *placing->crossing);
    placing->listed = malloc(n * sizeof *placing->listed);
    placing->listed_at = malloc(n * sizeof *placing->listed_at);
    if (!placing->at || !placing->crossing || !placing->listed || !placing->listed_at)
        return false;
    list_border(placing);
    return true;
}

/* A placement with its times; what else the struct has is the caller's and has been set. */
static int begin(struct placing *placing) {
    const struct shard_devices *devices = placing->devices;
    const size_t nets = (size_t)devices->nets, pins = (size_t)devices->net_start[devices->nodes];
    placing->count = devices->accelerators + devices->cpus;
    placing->passes = placing->rules->passes;
    const size_t count = (size_t)placing->count, loads = count * (size_t)placing->passes;
    placing->times = calloc(loads, sizeof *placing->times);
    placing->room = malloc(count * sizeof *placing->room);
    placing->slot_start = malloc((nets + 1) * sizeof *placing->slot_start);
    placing->slot = calloc(pins + 1, sizeof *placing->slot);
    placing->pin_start = malloc((nets + 1) * sizeof *placing->pin_start);
    placing->pin = malloc((pins + 1) * sizeof *placing->pin);
    placing->change = malloc(count * sizeof *placing->change);
    placing->changed_at = calloc(count, sizeof *placing->changed_at);
    placing->times_before = malloc(loads * sizeof *placing->times_before);
    placing->load_before = malloc(loads * sizeof *placing->load_before);
    if (!placing->times || !placing->room || !placing->slot_start || !placing->slot || !placing->pin_start ||
        !placing->pin || !placing->change || !placing->changed_at || !placing->times_before ||
        !placing->load_before)
        return SHARD_NO_MEMORY;
    if (placing->rules->ordered && !begin_border(placing))
        return SHARD_NO_MEMORY;
    placing->now = 1;
    placing->slot_start[0] = 0;
    for (int32_t net = 0; net < devices->nets; net++) {
        const int32_t all = devices->members[net];
        placing->slot_start[net + 1] =
            placing->slot_start[net] + (all < placing->count ? all : placing->count);
    }
    list_pins(placing);
    count_members(placing);
    return SHARD_OK;
}

/* ---------------------------------------------------------------- annealing */

struct annealer {
    struct placing placing;
    struct random random;
    const struct shard_cooling *cooling;
    double temperature;
    double worst[2];  /* greatest load of each pass */
    double least;     /* least cost so far */
    double target[2]; /* excess begins here */
    double limit;     /* a placement of this cost is no better than the best */
    bool kept;        /* whether the best placement is in `best` */
    int32_t *best;    /* nodes elements, the caller's */
    int32_t *group;   /* nodes elements: nodes that move together */
    int64_t *mark;    /* nodes elements: the move in which each was last looked at */
};

static inline double cost_of(const struct annealer *annealer) {
    return annealer->placing.passes > 1 ? annealer->worst[0] + annealer->worst[1] : annealer->worst[0];
}

/* Targets of passes are in proportion to what they take now. */
static void aim(struct annealer *annealer, double least) {
    const double cost = cost_of(annealer), share = cost > 0.0 ? least / cost : 0.0;
    annealer->least = least;
    annealer->limit = least * (1.0 - TOLERANCE);
    for (int32_t p = 0; p < annealer->placing.passes; p++)
        annealer->target[p] = annealer->worst[p] * share * (1.0 - annealer->cooling->margin);
}

/* The best placement is kept when it is left for a worse one: those that follow one another at once are not.
 */
static void keep(struct annealer *annealer) {
    const size_t n = (size_t)annealer->placing.devices->nodes;
    if (!annealer->kept)
        memcpy(annealer->best, annealer->placing.device, n * sizeof *annealer->best);
    annealer->kept = true;
}

/* The energy of a device with these loads. */
static inline double energy(const struct annealer *annealer, const double *load) {
    double sum = 0.0;
    for (int32_t p = 0; p < annealer->placing.passes; p++) {
        const double excess = load[p] - annealer->target[p];
        if (excess > 0.0)
            sum += annealer->cooling->squared ? excess * excess / annealer->target[p] : excess;
    }
    return sum;
}

/* Whether so much more energy is borne. */
static inline bool bears(struct annealer *annealer, double added) {
    return added <= 0.0 || added <= -annealer->temperature * log(1.0 - random_share(&annealer->random));
}

/* Look for the greatest loads again after those of the remembered devices have changed. */
static void notice(struct annealer *annealer) {
    const struct placing *placing = &annealer->placing;
    for (int32_t p = 0; p < placing->passes; p++) {
        bool lowered = false;
        for (int32_t i = 0; i < placing->changed; i++) {
            const int32_t at = placing->change[i] * placing->passes + p;
            lowered |=
                placing->load_before[at] >= annealer->worst[p] && placing->load[at] < annealer->worst[p];
        }
        if (lowered)
            annealer->worst[p] = greatest_load(placing, p);
        else {
            for (int32_t i = 0; i < placing->changed; i++)
                annealer->worst[p] =
                    fmax(annealer->worst[p], placing->load[placing->change[i] * placing->passes + p]);
        }
    }
    if (cost_of(annealer) < annealer->limit) {
        aim(annealer, cost_of(annealer));
        annealer->kept = false;
    }
}

/* Another member of a net of v; v itself if it has no nets. */
static int32_t draw_neighbour(struct annealer *annealer, int32_t v) {
    const struct placing *placing = &annealer->placing;
    const int64_t *start = placing->devices->net_start;
    if (start[v] == start[v + 1])
        return v;
    const int32_t of = random_below(&annealer->random, (int32_t)(start[v + 1] - start[v]));
    const int32_t net = placing->devices->net[start[v] + of];
    return placing
        ->pin[placing->pin_start[net] + random_below(&annealer->random, placing->devices->members[net])];
}

/* The cost of a net, so that groups of all kinds are drawn: joined by what costs more than others, or by any.
 */
static double draw_cost(struct annealer *annealer) {
    const struct shard_devices *devices = annealer->placing.devices;
    return devices->nets > 0 ? devices->transfer[random_below(&annealer->random, devices->nets)] : 0.0;
}

/* A device for v: that of a neighbour, or any. */
static int32_t draw_device(struct annealer *annealer, int32_t v) {
    const struct placing *placing = &annealer->placing;
    if (random_bits(&annealer->random) >> 63)
        return placing->device[draw_neighbour(annealer, v)];
    return random_below(&annealer->random, placing->count);
}

/* Move v, where that changes the times of two devices only. */
static void step(struct annealer *annealer, int32_t v, int32_t to) {
    struct placing *placing = &annealer->placing;
    const int32_t from = placing->device[v], passes = placing->passes;
    struct times leaves[2], joins[2];
    double left[2], joined[2];
    if (to == from || !allows(placing, v, to))
        return;
    preview(placing, v, to, leaves, joins);
    for (int32_t p = 0; p < passes; p++) {
        left[p] = load_of(placing, leaves + p);
        joined[p] = load_of(placing, joins + p);
    }
    const double before =
        energy(annealer, placing->load + from * passes) + energy(annealer, placing->load + to * passes);
    if (!bears(annealer, energy(annealer, left) + energy(annealer, joined) - before))
        return;
    if (passes > 1 || fmax(left[0], joined[0]) >= annealer->limit)
        keep(annealer);
    remember(placing, from);
    remember(placing, to);
    set_times(placing, from, leaves);
    set_times(placing, to, joins);
    relocate(placing, v, to);
    notice(annealer);
}

/* How much more energy there is after this move. */
static double added_energy(const struct annealer *annealer) {
    const struct placing *placing = &annealer->placing;
    double added = 0.0;
    for (int32_t i = 0; i < placing->changed; i++) {
        const int32_t at = placing->change[i] * placing->passes;
        added += energy(annealer, placing->load + at) - energy(annealer, placing->load_before + at);
    }
    return added;
}

/* Times and loads as they were before this move. */
static void restore(struct placing *placing) {
    const size_t passes = (size_t)placing->passes;
    for (int32_t i = 0; i < placing->changed; i++) {
        const size_t at = (size_t)placing->change[i] * passes;
        memcpy(placing->times + at, placing->times_before + at, passes * sizeof *placing->times);
        memcpy(placing->load + at, placing->load_before + at, passes * sizeof *placing->load);
    }
}

/* Nodes of the group change between two devices, each to the other one, all or none; whether they have. */
static bool step_group(struct annealer *annealer, int32_t count, int32_t from, int32_t to) {
    struct placing *placing = &annealer->placing;
    const double room[2] = {placing->room[from], placing->room[to]};
    for (int32_t i = 0; i < count; i++) {
        const int32_t v = annealer->group[i];
        if (!supports(placing, v, placing->device[v] == from ? to : from))
            return false;
    }
    if (!annealer->kept) /* it is too late for that once they have moved */
        keep(annealer);
    for (int32_t i = 0; i < count; i++)
        move(placing, annealer->group[i], placing->device[annealer->group[i]] == from ? to : from);
    bool allowed = placing->room[from] >= 0.0 && placing->room[to] >= 0.0;
    for (int32_t i = 0; i < count && allowed; i++)
        allowed = in_order(placing, annealer->group[i], placing->device[annealer->group[i]]);
    if (allowed && bears(annealer, added_energy(annealer))) {
        notice(annealer);
        return true;
    }
    for (int32_t i = count - 1; i >= 0; i--) {
        const int32_t v = annealer->group[i], back = placing->device[v] == from ? to : from;
        relocate(placing, v, back);
    }
    restore(placing);
    placing->room[from] = room[0];
    placing->room[to] = room[1];
    return false;
}

/* Move v alone. */
static void step_alone(struct annealer *annealer, int32_t v, int32_t to) {
    if (annealer->placing.rules->cluster == 0) {
        step(annealer, v, to);
    } else if (annealer->placing.device[v] != to && allows(&annealer->placing, v, to)) {
        annealer->group[0] = v;
        step_group(annealer, 1, annealer->placing.device[v], to);
    }
}

/* Gather nodes around v on its device, at most so many, along nets that cost no less than that; their number.
 */
static int32_t gather(struct annealer *annealer, int32_t v, int32_t most, double cost) {
    const struct placing *placing = &annealer->placing;
    const struct shard_devices *devices = placing->devices;
    int32_t count = 1;
    annealer->group[0] = v;
    annealer->mark[v] = annealer->placing.now;
    for (int32_t i = 0; i < count; i++) {
        const int32_t u = annealer->group[i];
        for (int64_t j = devices->net_start[u]; j < devices->net_start[u + 1]; j++) {
            const int32_t net = devices->net[j];
            if (devices->members[net] > WIDEST || devices->transfer[net] < cost)
                continue;
            for (int64_t k = placing->pin_start[net]; k < placing->pin_start[net + 1] && count < most; k++) {
                const int32_t w = placing->pin[k];
                if (placing->device[w] != placing->device[v] || annealer->mark[w] == annealer->placing.now)
                    continue;
                annealer->mark[w] = annealer->placing.now;
                annealer->group[count++] = w;
            }
        }
    }
    return count;
}

static void try_free(struct annealer *annealer) {
    struct placing *placing = &annealer->placing;
    const int32_t v = random_below(&annealer->random, placing->devices->nodes);
    const int32_t from = placing->device[v];
    if (placing->now % KINDS == 0) {
        const int32_t to = draw_device(annealer, v);
        const int32_t most = 2 << random_below(&annealer->random, LARGEST_GROUP);
        if (to != from)
            step_group(annealer, gather(annealer, v, most, draw_cost(annealer)), from, to);
    } else if (placing->now % KINDS == 1) {
        const int32_t any = random_below(&annealer->random, placing->devices->nodes);
        const int32_t w = random_bits(&annealer->random) >> 63 ? draw_neighbour(annealer, v) : any;
        annealer->group[0] = v;
        annealer->group[1] = w;
        if (placing->device[w] != from)
            step_group(annealer, 2, from, placing->device[w]);
    } else {
        step_alone(annealer, v, draw_device(annealer, v));
    }
}

/* ---------------------------------------------------------------- moves in an order of devices */

/* A node that v has an edge to, or if not `ahead` from; -1 if there is none. */
static int32_t draw_beside(struct annealer *annealer, int32_t v, bool ahead) {
    const struct shard_rules *rules = annealer->placing.rules;
    const int64_t *start = ahead ? rules->out_start : rules->in_start;
    const int32_t *others = ahead ? rules->out : rules->in;
    if (start[v] == start[v + 1])
        return -1;
    return others[start[v] + random_below(&annealer->random, (int32_t)(start[v + 1] - start[v]))];
}

/* Gather v and all nodes of its device behind it, at most so many; their number, 0 if they are more. */
static int32_t close(struct annealer *annealer, int32_t v, int32_t most, bool ahead) {
    const struct placing *placing = &annealer->placing;
    const int64_t *start = ahead ? placing->rules->out_start : placing->rules->in_start;
    const int32_t *others = ahead ? placing->rules->out : placing->rules->in;
    int32_t count = 1;
    annealer->group[0] = v;
    annealer->mark[v] = placing->now;
    for (int32_t i = 0; i < count; i++) {
        const int32_t u = annealer->group[i];
        for (int64_t j = start[u]; j < start[u + 1]; j++) {
            const int32_t w = others[j];
            if (placing->device[w] != placing->device[v] || annealer->mark[w] == placing->now)
                continue;
            if (count == most)
                return 0;
            annealer->mark[w] = placing->now;
            annealer->group[count++] = w;
        }
    }
    return count;
}

/* The device next to one in the order, the same if there is none. */
static int32_t device_beside(const struct placing *placing, int32_t device, bool ahead) {
    const int32_t rank = placing->rank[device] + (ahead ? 1 : -1);
    return 0 <= rank && rank < placing->count ? placing->at[rank] : device;
}

/* A node with edges to other devices, mostly, or any. */
static int32_t draw_node(struct annealer *annealer) {
    const struct placing *placing = &annealer->placing;
    if (placing->border > 0 && random_bits(&annealer->random) >> 61)
        return placing->listed[random_below(&annealer->random, placing->border)];
    return random_below(&annealer->random, placing->devices->nodes);
}

static void try_ordered(struct annealer *annealer) {
    struct placing *placing = &annealer->placing;
    const bool ahead = random_bits(&annealer->random) >> 63;
    const int32_t v = draw_node(annealer), from = placing->device[v];
    if (placing->now % ORDERED_KINDS == 1) {
        const int32_t w = draw_node(annealer);
        annealer->group[0] = v;
        annealer->group[1] = w;
        if (placing->device[w] != from)
            step_group(annealer, 2, from, placing->device[w]);
        return;
    }
    const int32_t next = draw_beside(annealer, v, ahead);
    const bool there = next >= 0 && placing->device[next] != from && random_bits(&annealer->random) >> 62;
    const int32_t to = there ? placing->device[next] : device_beside(placing, from, ahead);
    if (to == from)
        return;
    if (placing->now % ORDERED_KINDS == 0) {
        const int32_t most = 2 << random_below(&annealer->random, LARGEST_GROUP);
        const int32_t count = close(annealer, v, most, ahead);
        if (count > 0)
            step_group(annealer, count, from, to);
    } else {
        step_alone(annealer, v, to);
    }
}

/* Whether v has no edge to another device whose rank is from `low` to `high`, or if not `ahead` none from
 * one. */
static bool is_clear(const struct placing *placing, int32_t v, bool ahead, int32_t low, int32_t high) {
    const int64_t *start = ahead ? placing->rules->out_start : placing->rules->in_start;
    const int32_t *others = ahead ? placing->rules->out : placing->rules->in;
    for (int64_t i = start[v]; i < start[v + 1]; i++) {
        const int32_t rank = placing->rank[placing->device[others[i]]];
        if (low <= rank && rank <= high)
            return false;
    }
    return true;
}

static void set_rank(struct placing *placing, int32_t device, int32_t rank) {
    placing->rank[device] = rank;
    placing->at[rank] = device;
}

/* Put a device elsewhere in the order if no edge is against that; no load changes. */
static void try_rank(struct annealer *annealer) {
    struct placing *placing = &annealer->placing;
    const int32_t device = random_below(&annealer->random, placing->count);
    const int32_t from = placing->rank[device], to = random_below(&annealer->random, placing->count);
    const int32_t low = from < to ? from + 1 : to, high = from < to ? to : from - 1;
    for (int32_t v = 0; v < placing->devices->nodes; v++) {
        if (placing->device[v] == device && !is_clear(placing, v, from < to, low, high))
            return;
    }
    for (int32_t rank = from; rank != to; rank += from < to ? 1 : -1)
        set_rank(placing, placing->at[rank + (from < to ? 1 : -1)], rank);
    set_rank(placing, device, to);
}

static void swap_ranks(struct placing *placing, int32_t a, int32_t b) {
    const int32_t rank = placing->rank[a];
    if (!placing->rules->ordered)
        return;
    set_rank(placing, a, placing->rank[b]);
    set_rank(placing, b, rank);
}

/* Give two devices what the other one has, and its place in the order. */
static void try_exchange(struct annealer *annealer) {
    struct placing *placing = &annealer->placing;
    const int32_t a = random_below(&annealer->random, placing->count);
    const int32_t b = random_below(&annealer->random, placing->count);
    int32_t count = 0;
    if (a == b)
        return;
    for (int32_t v = 0; v < placing->devices->nodes; v++) {
        if (placing->device[v] == a || placing->device[v] == b)
            annealer->group[count++] = v;
    }
    swap_ranks(placing, a, b);
    if (!step_group(annealer, count, a, b))
        swap_ranks(placing, a, b);
}

static void try_move(struct annealer *annealer) {
    const struct shard_rules *rules = annealer->placing.rules;
    const int64_t whole = annealer->placing.now % (WHOLE * (int64_t)annealer->placing.devices->nodes + KINDS);
    annealer->placing.changed = 0;
    if (whole == 0 && (rules->ordered || rules->cluster > 0))
        try_exchange(annealer);
    else if (whole == 1 && rules->ordered)
        try_rank(annealer);
    else if (rules->ordered)
        try_ordered(annealer);
    else
        try_free(annealer);
}

static void anneal(struct annealer *annealer) {
    const struct shard_cooling *cooling = annealer->cooling;
    struct placing *placing = &annealer->placing;
    const double ratio = pow(cooling->cold / cooling->hot, (double)BREATH / (double)cooling->moves);
    annealer->temperature = cooling->hot;
    for (placing->now = 1; placing->now <= cooling->moves && annealer->least > 0.0; placing->now++) {
        try_move(annealer);
        if (placing->now % BREATH == 0)
            annealer->temperature *= ratio;
    }
    keep(annealer);
}

int shard_place(const struct shard_devices *devices, const struct shard_rules *rules,
                const struct shard_cooling *cooling, uint64_t *random, int32_t *rank, int32_t *device,
                int32_t *best, double *cost, double *load) {
    const size_t n = (size_t)devices->nodes;
    struct annealer annealer = {
        .placing = {.devices = devices, .rules = rules, .rank = rank, .device = device, .load = load},
        .random = {*random},
        .cooling = cooling,
        .best = best,
        .group = malloc((n + 2) * sizeof *annealer.group),
        .mark = calloc(n + 1, sizeof *annealer.mark),
    };
    int status = SHARD_NO_MEMORY;
    if (annealer.group && annealer.mark)
        status = begin(&annealer.placing);
    if (status == SHARD_OK) {
        for (int32_t p = 0; p < rules->passes; p++)
            annealer.worst[p] = greatest_load(&annealer.placing, p);
        annealer.kept = *cost <= cost_of(&annealer);
        aim(&annealer, fmin(*cost, cost_of(&annealer)));
        memset(annealer.placing.changed_at, 0, (size_t)annealer.placing.count * sizeof(int64_t));
        if (n > 0)
            anneal(&annealer);
        *cost = annealer.least;
        *random = annealer.random.state;
    }
    release(&annealer.placing);
    free(annealer.group);
    free(annealer.mark);
    return status;
}

/* ---------------------------------------------------------------- steepest descent */

/* The three devices of the greatest loads; two of them may change, and the third one remains. */
static void find_top(const struct placing *placing, int32_t top[3]) {
    top[0] = top[1] = top[2] = -1;
    for (int32_t d = 0; d < placing->count; d++) {
        int32_t place = 3;
        while (place > 0 && (top[place - 1] < 0 || placing->load[d] > placing->load[top[place - 1]]))
            place--;
        for (int32_t i = 2; i > place; i--)
            top[i] = top[i - 1];
        if (place < 3)
            top[place] = d;
    }
}

/* The greatest load of the devices but two. */
static double load_beside(const struct placing *placing, const int32_t top[3], int32_t a, int32_t b) {
    for (int32_t i = 0; i < 3 && top[i] >= 0; i++) {
        if (top[i] != a && top[i] != b)
            return placing->load[top[i]];
    }
    return 0.0;
}

/* The least greatest load after a move of one node; INFINITY if there is no move. */
static double steepest(const struct placing *placing, int32_t *node, int32_t *device) {
    double least = (double)INFINITY;
    int32_t top[3];
    find_top(placing, top);
    for (int32_t v = 0; v < placing->devices->nodes; v++) {
        const int32_t from = placing->device[v];
        for (int32_t to = 0; to < placing->devices->accelerators && is_accelerator(placing, from); to++) {
            struct times leaves[2], joins[2];
            if (to == from || !allows(placing, v, to))
                continue;
            preview(placing, v, to, leaves, joins);
            const double changed = fmax(load_of(placing, leaves), load_of(placing, joins));
            const double worst = fmax(changed, load_beside(placing, top, from, to));
            if (worst < least) {
                least = worst;
                *node = v;
                *device = to;
            }
        }
    }
    return least;
}

int shard_descend(const struct shard_devices *devices, const struct shard_rules *rules, int64_t steps,
                  int32_t *device, double *cost, int64_t *made) {
    double *load = malloc((size_t)(devices->accelerators + devices->cpus) * sizeof *load);
    struct placing placing = {.devices = devices, .rules = rules, .device = device, .load = load};
    int status = load ? begin(&placing) : SHARD_NO_MEMORY;
    if (status == SHARD_OK) {
        int32_t v = 0, to = 0;
        for (*made = 0; *made < steps; ++*made) {
            if (!(steepest(&placing, &v, &to) < greatest_load(&placing, 0) * (1.0 - TOLERANCE)))
                break;
            placing.changed = 0;
            move(&placing, v, to);
            placing.now++;
        }
        *cost = greatest_load(&placing, 0);
    }
    release(&placing);
    free(load);
    return status;
}
