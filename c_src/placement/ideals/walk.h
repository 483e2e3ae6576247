/* Shared by the dynamic programs over ideals: a table of rows, and depth-first walks from a base ideal
 * through the larger ones.
 *
 * A walk adds one node at a time and updates the load of the device that takes the added nodes. The work and
 * the cost of nets that reach into the base ideal only grow along the way, so the walk turns back as soon as
 * these alone exceed the limit.
 *
 * Terms are added to the cost of nets and subtracted again, which leaves the rounding errors of the largest terms:
 * (1e16 + 3.3) - 1e16 is 4. Every step therefore bounds these errors, and the sum is recomputed as soon as they
 * matter relative to the load. All other sums only grow: their relative error is at most 2^-53 times the number of
 * terms. */
#pragma once

#include "common/arena.h"
#include "common/stop.h"
#include "placement/ideals/split_dp.h"

/* Bounds on work are relaxed by this share of all work, so that rounding excludes nothing below the limit. */
#define SLACK 1e-9

/* Pairs or table entries between two checks of the stop flag, a power of two. */
#define STOP_INTERVAL (INT64_C(1) << 16)

/* Subtracted terms leave a load with a relative error of at most this times 2^-53. */
#define MAX_DRIFT 4096.0

/* fmax for numbers that are not NaN, without a call. */
static inline double larger_of(double a, double b) {
    return a > b ? a : b;
}

/* A step of a walk: the set of added nodes is `ideal` without the base ideal. */
struct step {
    int64_t link; /* of `ideal`, the last one taken */
    int32_t ideal;
    int32_t node;     /* added last; only greater ones follow */
    double time;      /* on the device */
    double size;      /* on it */
    double paid;      /* for nets */
    double committed; /* the part of it for nets with nodes in the base ideal */
    double drift;     /* 2^53 times a bound on the rounding error of `paid` */
};

/* The place of a node. */
enum place { BEYOND, IN_BASE, ADDED };

struct net {
    double transfer;
    int32_t members;
    int32_t inside; /* members in the base ideal */
    int32_t taken;  /* members in the set */
};

/* An entry of a row that another device can extend. */
struct entry {
    double load; /* greatest load so far */
    size_t next; /* entry with one device more */
};

/* The entries of a row for one kind of device. */
struct entries {
    struct entry *entry;
    int32_t count;
};

struct split {
    struct arena arena;
    const struct shard_devices *devices;
    int32_t ideals;
    const int64_t *link_start;
    const int32_t *link_node, *link_ideal;
    double limit;
    const double *offload;
    const int32_t *stop;
    int32_t width; /* accelerators + 1 */
    size_t length; /* of a row: (cpus + 1) * width */
    /* A row per ideal, the caller's: at a * width + b its least greatest load on exactly a CPUs and b
     * accelerators, none idle; infinite if that is not below the limit. */
    double *best;
    int32_t *origin; /* like best: the ideal without the nodes of the last device, in complement if that is a
                        CPU */
    double *work;    /* ideals elements: time on accelerators of the nodes that they support */
    double target_work; /* the work of the ideal that chains lead to */
    /* The links upwards: the ideals with one node more, nodes ascending. */
    int64_t *up_start;
    int32_t *up_node, *up_ideal;
    /* The ideals on the way from the empty one to the base ideal, by depth. */
    int32_t *path;
    int32_t depth;  /* nodes in the base ideal */
    uint8_t *place; /* nodes elements: of enum place */
    struct net *nets;
    struct entries accelerator, cpu; /* of the base ideal */
    struct step *steps;              /* nodes + 1 elements */
    int64_t pairs;
    int64_t resums;  /* number of times that sums were computed anew */
    int64_t *met_in; /* nets elements: the last of these times that met each */
};

static inline struct split split_of(const struct shard_devices *devices, int64_t ideals,
                                    const int64_t *link_start, const int32_t *link_node,
                                    const int32_t *link_ideal, double limit, const double *offload,
                                    const int32_t *stop, double *best) {
    return (struct split){
        .devices = devices,
        .ideals = (int32_t)ideals,
        .link_start = link_start,
        .link_node = link_node,
        .link_ideal = link_ideal,
        .limit = limit,
        .offload = offload,
        .stop = stop,
        .width = devices->accelerators + 1,
        .length = ((size_t)devices->accelerators + 1) * ((size_t)devices->cpus + 1),
        .best = best,
    };
}

static inline void split_allocate(struct split *split) {
    const struct shard_devices *devices = split->devices;
    struct arena *arena = &split->arena;
    const size_t n = (size_t)devices->nodes, ideals = (size_t)split->ideals;
    const int64_t links = split->link_start[ideals];
    ARENA_ARRAYS(arena, ideals * split->length, split->origin);
    ARENA_ARRAYS(arena, ideals, split->work);
    ARENA_ARRAYS(arena, ideals + 2, split->up_start);
    ARENA_ARRAYS(arena, links, split->up_node, split->up_ideal);
    ARENA_ARRAYS(arena, n, split->path);
    ARENA_ZEROS(arena, n, split->place);
    ARENA_ARRAYS(arena, devices->nets, split->nets);
    ARENA_ARRAYS(arena, split->length, split->accelerator.entry, split->cpu.entry);
    ARENA_ARRAYS(arena, n + 1, split->steps);
    ARENA_ZEROS(arena, devices->nets, split->met_in);
}

/* True if the search must end; checks the flag once per STOP_INTERVAL counts. */
static inline bool should_stop(const struct split *split, int64_t count) {
    return !(count & (STOP_INTERVAL - 1)) && is_stopped(split->stop);
}

/* The greatest node of an ideal that is not empty, and the ideal without it. */
static inline int32_t last_node(const struct split *split, int32_t ideal) {
    return split->link_node[split->link_start[ideal + 1] - 1];
}

static inline int32_t without_last(const struct split *split, int32_t ideal) {
    return split->link_ideal[split->link_start[ideal + 1] - 1];
}

/* Reverse the links, to ideals with a greater additional node first; false if stopped. */
static inline bool link_upwards(struct split *split) {
    int64_t *start = split->up_start;
    memset(start, 0, ((size_t)split->ideals + 2) * sizeof *start);
    for (int64_t i = 0; i < split->link_start[split->ideals]; i++) {
        if (should_stop(split, i))
            return false;
        start[split->link_ideal[i] + 2]++;
    }
    for (int32_t i = 0; i < split->ideals; i++)
        start[i + 2] += start[i + 1];
    for (int32_t ideal = split->ideals - 1; ideal > 0; ideal--) {
        if (should_stop(split, ideal))
            return false;
        for (int64_t i = split->link_start[ideal]; i < split->link_start[ideal + 1]; i++) {
            const int64_t at = start[split->link_ideal[i] + 1]++;
            split->up_node[at] = split->link_node[i];
            split->up_ideal[at] = ideal;
        }
    }
    return true;
}

/* Fill all rows but the first entry with infinity; false if stopped. */
static inline bool clear_rows(struct split *split) {
    const int64_t entries = (int64_t)((size_t)split->ideals * split->length);
    for (int64_t i = 0; i < entries; i += STOP_INTERVAL) {
        if (is_stopped(split->stop))
            return false;
        const int64_t end = i + STOP_INTERVAL < entries ? i + STOP_INTERVAL : entries;
        for (int64_t j = i; j < end; j++)
            split->best[j] = INFINITY;
    }
    split->best[0] = 0.0;
    return true;
}

/* Set up the walks; false if stopped. */
static inline bool prepare(struct split *split) {
    const struct shard_devices *devices = split->devices;
    if (!link_upwards(split))
        return false;
    split->work[0] = 0.0;
    for (int32_t i = 1; i < split->ideals; i++) {
        const double time = devices->accelerator_time[last_node(split, i)];
        split->work[i] = split->work[without_last(split, i)] + (isfinite(time) ? time : 0.0);
    }
    split->target_work = split->work[split->ideals - 1];
    for (int32_t i = 0; i < devices->nets; i++)
        split->nets[i] = (struct net){.transfer = devices->transfer[i], .members = devices->members[i]};
    return clear_rows(split);
}

static inline void count_inside(struct split *split, int32_t v, int32_t change) {
    const struct shard_devices *devices = split->devices;
    split->place[v] = change > 0 ? IN_BASE : BEYOND;
    for (int64_t i = devices->net_start[v]; i < devices->net_start[v + 1]; i++)
        split->nets[devices->net[i]].inside += change;
}

/* Set the base ideal, from any other. */
static inline void set_base(struct split *split, int32_t ideal) {
    int32_t common = ideal, steps = 0;
    for (;;) {
        const int32_t top = split->depth ? split->path[split->depth - 1] : 0;
        while (common > top) {
            common = without_last(split, common);
            steps++;
        }
        if (common == top)
            break;
        count_inside(split, last_node(split, top), -1);
        split->depth--;
    }
    split->depth += steps;
    for (int32_t i = split->depth - 1; steps; i--, steps--, ideal = without_last(split, ideal)) {
        split->path[i] = ideal;
        count_inside(split, last_node(split, ideal), 1);
    }
}

/* Find the entries of the base ideal that leave enough accelerators for the remaining work. */
static inline void find_entries(struct split *split, int32_t ideal) {
    const int32_t accelerators = split->devices->accelerators, cpus = split->devices->cpus;
    const double all = split->work[split->ideals - 1], *row = split->best + (size_t)ideal * split->length;
    struct entries *accelerator = &split->accelerator, *cpu = &split->cpu;
    accelerator->count = cpu->count = 0;
    for (int32_t a = 0; a <= cpus; a++) {
        const double after = split->target_work - split->work[ideal] - split->offload[cpus - a] - SLACK * all;
        const double rest = after > 0.0 ? ceil(after / split->limit) : 0.0;
        for (int32_t b = 0; b + rest <= accelerators; b++) {
            const size_t at = (size_t)a * (size_t)split->width + (size_t)b;
            if (row[at] == INFINITY)
                continue;
            if (b < accelerators)
                accelerator->entry[accelerator->count++] = (struct entry){row[at], at + 1};
            if (a < cpus)
                cpu->entry[cpu->count++] = (struct entry){row[at], at + (size_t)split->width};
        }
    }
}

/* Update the row of an ideal: one more device takes the added nodes, at a load. */
static inline void relax(struct split *split, const struct entries *entries, int32_t ideal, double load,
                         int32_t origin) {
    double *row = split->best + (size_t)ideal * split->length;
    for (int32_t i = 0; i < entries->count; i++) {
        const struct entry *entry = &entries->entry[i];
        const double greatest = entry->load > load ? entry->load : load;
        if (greatest < row[entry->next]) {
            row[entry->next] = greatest;
            split->origin[(size_t)ideal * split->length + entry->next] = origin;
        }
    }
}

/* Begin a walk at the base ideal. */
static inline struct step *first_step(struct split *split, int32_t ideal) {
    split->steps[0] = (struct step){.link = split->up_start[ideal + 1], .ideal = ideal, .node = -1};
    return split->steps;
}

/* Go to the next link of a step; false if there is none. */
static inline bool next_link(const struct split *split, struct step *step) {
    return step->link-- > split->up_start[step->ideal] && split->up_node[step->link] > step->node;
}

/* Step to the ideal of the current link. */
static inline void step_to(struct split *split, const struct step *step, struct step *next) {
    split->pairs++;
    next->ideal = split->up_ideal[step->link];
    next->link = split->up_start[next->ideal + 1];
}

/* A sum and the rounding error of its last addition, for which the next one compensates (Kahan): with any
 * number of terms >= 0, the relative error is little more than 2^-52. */
struct total {
    double sum, lost;
};

/* 2^53 times the relative error of a total, with some margin. */
#define TOTAL_DRIFT 4.0

static inline void add_to(struct total *total, double term) {
    const double made_up = term - total->lost, sum = total->sum + made_up;
    total->lost = (sum - total->sum) - made_up;
    total->sum = sum;
}

/* True if the set has some nodes of a net, but not all, and the current sums do not include the net yet. */
static inline bool is_paid_anew(struct split *split, int32_t number) {
    const bool met = split->met_in[number] == split->resums;
    split->met_in[number] = split->resums;
    return !met && split->nets[number].taken < split->nets[number].members;
}

/* The least entry of a row. */
static inline size_t least_entry(const double *row, size_t length) {
    size_t least = 0;
    for (size_t i = 1; i < length; i++)
        least = row[i] < row[least] ? i : least;
    return least;
}
