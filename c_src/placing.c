/* Placements: how many nodes of each net are on each device says what a move changes. */
#include "placing.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"

/* Loads that differ by less than this, relatively, are equal. */
#define TOLERANCE 1e-9

/* Moves between two looks at the temperature. */
#define BREATH 64

/* One move in so many takes nodes that share nets along, and one swaps two nodes. */
#define KINDS 8

/* Most nodes that move together, as a power of 2, and the members of the largest net that joins them. */
#define LARGEST_GROUP 6
#define WIDEST 32

/* A device with nodes of a net, and how many; free if none. */
struct slot {
    int32_t device, members;
};

struct placing {
    const struct shard_devices *devices;
    int32_t count;   /* devices */
    int32_t *device; /* nodes elements, the caller's */
    double *load;    /* count elements */
    double *room;    /* count elements: memory left */
    int64_t
        *slot_start;    /* nets + 1 elements: a slot for each member, or for each device if those are fewer */
    struct slot *slot;  /* in the latter case slot d is that of device d */
    int64_t *pin_start; /* nets + 1 elements */
    int32_t *pin;       /* the nodes of each net */
};

static inline bool is_accelerator(const struct placing *placing, int32_t device) {
    return device < placing->devices->accelerators;
}

static inline double time_on(const struct placing *placing, int32_t v, int32_t device) {
    return is_accelerator(placing, device) ? placing->devices->accelerator_time[v]
                                           : placing->devices->cpu_time[v];
}

static inline bool supports(const struct placing *placing, int32_t v, int32_t device) {
    return isfinite(time_on(placing, v, device));
}

static inline bool allows(const struct placing *placing, int32_t v, int32_t device) {
    return supports(placing, v, device) && placing->devices->size[v] <= placing->room[device];
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

/* The loads of the device that v would leave and of the one that it would join. */
static void preview(const struct placing *placing, int32_t v, int32_t to, double *leaves, double *joins) {
    const struct shard_devices *devices = placing->devices;
    const int32_t from = placing->device[v];
    double spared = 0.0, added = 0.0;
    for (int64_t i = devices->net_start[v]; i < devices->net_start[v + 1]; i++) {
        const int32_t net = devices->net[i], all = devices->members[net];
        const int32_t here = members_on(placing, net, from), there = members_on(placing, net, to);
        spared += devices->transfer[net] * ((here < all) - (here > 1));
        added += devices->transfer[net] * ((there + 1 < all) - (there > 0));
    }
    *leaves =
        placing->load[from] - time_on(placing, v, from) - (is_accelerator(placing, from) ? spared : 0.0);
    *joins = placing->load[to] + time_on(placing, v, to) + (is_accelerator(placing, to) ? added : 0.0);
}

static void move(struct placing *placing, int32_t v, int32_t to) {
    double leaves, joins;
    preview(placing, v, to, &leaves, &joins);
    placing->load[placing->device[v]] = leaves;
    placing->load[to] = joins;
    leave(placing, v);
    join(placing, v, to);
}

static double greatest_load(const struct placing *placing) {
    double greatest = 0.0;
    for (int32_t d = 0; d < placing->count; d++)
        greatest = fmax(greatest, placing->load[d]);
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
    for (int32_t d = 0; d < placing->count; d++) {
        placing->load[d] = 0.0;
        placing->room[d] = is_accelerator(placing, d) ? devices->memory : (double)INFINITY;
    }
    for (int32_t v = 0; v < devices->nodes; v++) {
        placing->load[placing->device[v]] += time_on(placing, v, placing->device[v]);
        join(placing, v, placing->device[v]);
    }
    for (int32_t net = 0; net < devices->nets; net++) {
        const int64_t start = placing->slot_start[net], end = placing->slot_start[net + 1];
        for (int64_t i = start; i < end; i++) {
            const struct slot *slot = &placing->slot[i];
            const int32_t device = end - start == placing->count ? (int32_t)(i - start) : slot->device;
            if (slot->members > 0 && slot->members < devices->members[net] && is_accelerator(placing, device))
                placing->load[device] += devices->transfer[net];
        }
    }
}

static void release(struct placing *placing) {
    free(placing->room);
    free(placing->slot_start);
    free(placing->slot);
    free(placing->pin_start);
    free(placing->pin);
}

/* A placement with its loads; `device` and `load` are the caller's. */
static int begin(struct placing *placing, const struct shard_devices *devices, int32_t *device,
                 double *load) {
    const size_t nets = (size_t)devices->nets, pins = (size_t)devices->net_start[devices->nodes];
    placing->devices = devices;
    placing->count = devices->accelerators + devices->cpus;
    placing->device = device;
    placing->load = load;
    placing->room = malloc((size_t)placing->count * sizeof *placing->room);
    placing->slot_start = malloc((nets + 1) * sizeof *placing->slot_start);
    placing->slot = calloc(pins + 1, sizeof *placing->slot);
    placing->pin_start = malloc((nets + 1) * sizeof *placing->pin_start);
    placing->pin = malloc((pins + 1) * sizeof *placing->pin);
    if (!load || !placing->room || !placing->slot_start || !placing->slot || !placing->pin_start ||
        !placing->pin)
        return SHARD_NO_MEMORY;
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
    double least;   /* least greatest load so far */
    double target;  /* excess begins here */
    double limit;   /* a device of this load is no better than the best */
    int32_t above;  /* devices whose load is `limit` or more */
    bool kept;      /* whether the best placement is in `best` */
    int32_t *best;  /* nodes elements, the caller's */
    int32_t *group; /* 2^LARGEST_GROUP elements: nodes that move together */
    int64_t *mark;  /* nodes elements: the move in which each was last looked at */
    int64_t now;    /* number of the move */
};

static void aim(struct annealer *annealer, double least) {
    annealer->least = least;
    annealer->limit = least * (1.0 - TOLERANCE);
    annealer->target = least * (1.0 - annealer->cooling->margin);
    annealer->above = 0;
    for (int32_t d = 0; d < annealer->placing.count; d++)
        annealer->above += annealer->placing.load[d] >= annealer->limit;
}

/* The best placement is kept when it is left for a worse one: those that follow one another at once are not.
 */
static void keep(struct annealer *annealer) {
    const size_t n = (size_t)annealer->placing.devices->nodes;
    if (!annealer->kept)
        memcpy(annealer->best, annealer->placing.device, n * sizeof *annealer->best);
    annealer->kept = true;
}

static inline double energy(const struct annealer *annealer, double load) {
    const double excess = load - annealer->target;
    if (excess <= 0.0)
        return 0.0;
    return annealer->cooling->squared ? excess * excess / annealer->target : excess;
}

static inline double energy_of(const struct annealer *annealer, double load, double other) {
    return energy(annealer, load) + energy(annealer, other);
}

/* Whether so much more energy is borne. */
static inline bool bears(struct annealer *annealer, double added) {
    return added <= 0.0 || added <= -annealer->temperature * log(1.0 - random_share(&annealer->random));
}

/* Count anew after two devices, whose loads are given as they were, have changed. */
static void notice(struct annealer *annealer, int32_t from, double left, int32_t to, double joined) {
    const double *load = annealer->placing.load, limit = annealer->limit;
    annealer->above += (load[from] >= limit) + (load[to] >= limit) - (left >= limit) - (joined >= limit);
    if (annealer->above == 0) {
        aim(annealer, greatest_load(&annealer->placing));
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

static void step(struct annealer *annealer, int32_t v, int32_t to) {
    struct placing *placing = &annealer->placing;
    const int32_t from = placing->device[v];
    const double left = placing->load[from], joined = placing->load[to];
    double leaves, joins;
    if (to == from || !allows(placing, v, to))
        return;
    preview(placing, v, to, &leaves, &joins);
    if (!bears(annealer, energy_of(annealer, leaves, joins) - energy_of(annealer, left, joined)))
        return;
    if (fmax(leaves, joins) >= annealer->limit)
        keep(annealer);
    placing->load[from] = leaves;
    placing->load[to] = joins;
    leave(placing, v);
    join(placing, v, to);
    notice(annealer, from, left, to, joined);
}

/* Nodes of the group change between two devices, each to the other one, all or none. */
static void step_group(struct annealer *annealer, int32_t count, int32_t from, int32_t to) {
    struct placing *placing = &annealer->placing;
    const double left = placing->load[from], joined = placing->load[to];
    const double room[2] = {placing->room[from], placing->room[to]};
    for (int32_t i = 0; i < count; i++) {
        const int32_t v = annealer->group[i];
        if (!supports(placing, v, placing->device[v] == from ? to : from))
            return;
    }
    if (!annealer->kept) /* it is too late for that once they have moved */
        keep(annealer);
    for (int32_t i = 0; i < count; i++)
        move(placing, annealer->group[i], placing->device[annealer->group[i]] == from ? to : from);
    const double added =
        energy_of(annealer, placing->load[from], placing->load[to]) - energy_of(annealer, left, joined);
    if (placing->room[from] >= 0.0 && placing->room[to] >= 0.0 && bears(annealer, added)) {
        notice(annealer, from, left, to, joined);
        return;
    }
    for (int32_t i = count - 1; i >= 0; i--)
        move(placing, annealer->group[i], placing->device[annealer->group[i]] == from ? to : from);
    placing->load[from] = left;
    placing->load[to] = joined;
    placing->room[from] = room[0];
    placing->room[to] = room[1];
}

/* Gather nodes around v on its device, at most so many, along nets that cost no less than that; their number.
 */
static int32_t gather(struct annealer *annealer, int32_t v, int32_t most, double cost) {
    const struct placing *placing = &annealer->placing;
    const struct shard_devices *devices = placing->devices;
    int32_t count = 1;
    annealer->group[0] = v;
    annealer->mark[v] = annealer->now;
    for (int32_t i = 0; i < count; i++) {
        const int32_t u = annealer->group[i];
        for (int64_t j = devices->net_start[u]; j < devices->net_start[u + 1]; j++) {
            const int32_t net = devices->net[j];
            if (devices->members[net] > WIDEST || devices->transfer[net] < cost)
                continue;
            for (int64_t k = placing->pin_start[net]; k < placing->pin_start[net + 1] && count < most; k++) {
                const int32_t w = placing->pin[k];
                if (placing->device[w] != placing->device[v] || annealer->mark[w] == annealer->now)
                    continue;
                annealer->mark[w] = annealer->now;
                annealer->group[count++] = w;
            }
        }
    }
    return count;
}

static void try_move(struct annealer *annealer) {
    struct placing *placing = &annealer->placing;
    const int32_t v = random_below(&annealer->random, placing->devices->nodes);
    const int32_t from = placing->device[v];
    if (annealer->now % KINDS == 0) {
        const int32_t to = draw_device(annealer, v);
        const int32_t most = 2 << random_below(&annealer->random, LARGEST_GROUP);
        if (to != from)
            step_group(annealer, gather(annealer, v, most, draw_cost(annealer)), from, to);
    } else if (annealer->now % KINDS == 1) {
        const int32_t any = random_below(&annealer->random, placing->devices->nodes);
        const int32_t w = random_bits(&annealer->random) >> 63 ? draw_neighbour(annealer, v) : any;
        annealer->group[0] = v;
        annealer->group[1] = w;
        if (placing->device[w] != from)
            step_group(annealer, 2, from, placing->device[w]);
    } else {
        step(annealer, v, draw_device(annealer, v));
    }
}

static void anneal(struct annealer *annealer) {
    const struct shard_cooling *cooling = annealer->cooling;
    const double ratio = pow(cooling->cold / cooling->hot, (double)BREATH / (double)cooling->moves);
    annealer->temperature = cooling->hot;
    for (annealer->now = 1; annealer->now <= cooling->moves && annealer->least > 0.0; annealer->now++) {
        try_move(annealer);
        if (annealer->now % BREATH == 0)
            annealer->temperature *= ratio;
    }
    keep(annealer);
}

int shard_place(const struct shard_devices *devices, const struct shard_cooling *cooling, uint64_t *random,
                int32_t *device, int32_t *best, double *cost, double *load) {
    const size_t n = (size_t)devices->nodes;
    struct annealer annealer = {
        .random = {*random},
        .cooling = cooling,
        .best = best,
        .group = malloc(((size_t)1 << LARGEST_GROUP) * sizeof *annealer.group),
        .mark = calloc(n + 1, sizeof *annealer.mark),
    };
    int status = SHARD_NO_MEMORY;
    if (annealer.group && annealer.mark)
        status = begin(&annealer.placing, devices, device, load);
    if (status == SHARD_OK) {
        const double now = greatest_load(&annealer.placing);
        annealer.kept = *cost <= now;
        aim(&annealer, fmin(*cost, now));
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
            double leaves, joins;
            if (to == from || !allows(placing, v, to))
                continue;
            preview(placing, v, to, &leaves, &joins);
            const double worst = fmax(fmax(leaves, joins), load_beside(placing, top, from, to));
            if (worst < least) {
                least = worst;
                *node = v;
                *device = to;
            }
        }
    }
    return least;
}

int shard_descend(const struct shard_devices *devices, int64_t steps, int32_t *device, double *cost,
                  int64_t *made) {
    struct placing placing;
    double *load = malloc((size_t)(devices->accelerators + devices->cpus) * sizeof *load);
    int status = begin(&placing, devices, device, load);
    if (status == SHARD_OK) {
        int32_t v = 0, to = 0;
        for (*made = 0; *made < steps; ++*made) {
            if (!(steepest(&placing, &v, &to) < greatest_load(&placing) * (1.0 - TOLERANCE)))
                break;
            move(&placing, v, to);
        }
        *cost = greatest_load(&placing);
    }
    release(&placing);
    free(load);
    return status;
}
