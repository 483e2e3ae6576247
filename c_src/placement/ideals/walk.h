/* What the dynamic programs over ideals share: a table of rows, and walks from an ideal through larger ones.
 * For each ideal that devices can take in time a walk adds nodes one after the other, with the load of the
 * device that gets them kept up to date. What a device pays for work and for nets that reach into the ideal
 * only grows on the way, so the walk turns back where that alone is too much.
 *
 * What a set pays for nets is a sum that numbers are added to and taken off again. It keeps the rounding
 * errors of the largest of them: (1e16 + 3.3) - 1e16 is 4. So each step knows how large these errors can be,
 * and as soon as they count in the load the sum is added up anew. Every other sum only grows, and is off by
 * at most 2^-53 times the number of its terms, relatively. */
#ifndef SHARD_IDEALS_WALK_H
#define SHARD_IDEALS_WALK_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/stop.h"
#include "placement/ideals/split_dp.h"

/* Bounds from sums of times may be off by this much, relative to all times, from rounding; they must not
 * exclude what is below the limit. */
#define SLACK 1e-9

/* Looks at the clock come after so many pairs, or elements filled, a power of two. */
#define OFTEN (INT64_C(1) << 16)

/* No load is off by more than 2^-53 times this, relatively, because of what was taken off its sums again. */
#define MOST_DRIFT 4096.0

/* fmax without its care for NaN, and without a call. */
static inline double larger_of(double a, double b) {
    return a > b ? a : b;
}

/* A set of nodes on the way: `ideal` less the ideal begun with. */
struct step {
    int64_t link; /* of `ideal`, the last one followed */
    int32_t ideal;
    int32_t node; /* added last; only greater ones follow */
    double time;  /* on the device */
    double size;  /* on it */
    double paid;  /* for nets */
    double stuck; /* the part of it for nets with nodes in the ideal begun with */
    double drift; /* 2^53 times what `paid` may be off by because of rounding, at most */
};

/* Where a node is. */
enum place { AHEAD, BEGUN_WITH, JOINED };

struct net {
    double transfer;
    int32_t members;
    int32_t inside; /* the ideal begun with */
    int32_t taken;  /* in the set */
};

/* An entry of a row that is of use. */
struct entry {
    double load; /* the greatest one so far */
    size_t next; /* the entry that one device more leads to */
};

/* Entries from which one kind of device goes on. */
struct entries {
    struct entry *entry;
    int32_t count;
};

struct split {
    const struct shard_devices *devices;
    int32_t ideals;
    const int64_t *link_start;
    const int32_t *link_node, *link_ideal;
    double limit;
    const double *relief;
    const int32_t *stop;
    int32_t width; /* accelerators + 1 */
    size_t length; /* of a row: (cpus + 1) * width */
    /* A row for each ideal: at a * width + b its least greatest load on just a CPUs and b accelerators, none
     * of them idle; infinite where that is not below the limit. */
    double *best;
    int32_t *origin; /* like best: the ideal without the nodes of the last device, in complement if that is a
                        CPU */
    double *work;    /* ideals elements: time on accelerators of the nodes that they support */
    double goal;     /* the work of the ideal that chains lead to */
    /* The links from below: what ideals with one node more there are, the nodes ascending. */
    int64_t *up_start;
    int32_t *up_node, *up_ideal;
    /* The ideals on the way from the empty one to the ideal begun with, by depth. */
    int32_t *path;
    int32_t depth;  /* nodes in the ideal begun with */
    uint8_t *place; /* nodes elements: of enum place */
    struct net *nets;
    struct entries accelerator, cpu; /* of the ideal begun with */
    struct step *steps;              /* nodes + 1 elements */
    int64_t pairs;
    int64_t renewals; /* of sums */
    int64_t *met_in;  /* nets elements: the last renewal that met each */
};

static inline struct split split_of(const struct shard_devices *devices, int64_t ideals,
                                    const int64_t *link_start, const int32_t *link_node,
                                    const int32_t *link_ideal, double limit, const double *relief,
                                    const int32_t *stop, double *best) {
    return (struct split){
        .devices = devices,
        .ideals = (int32_t)ideals,
        .link_start = link_start,
        .link_node = link_node,
        .link_ideal = link_ideal,
        .limit = limit,
        .relief = relief,
        .stop = stop,
        .width = devices->accelerators + 1,
        .length = ((size_t)devices->accelerators + 1) * ((size_t)devices->cpus + 1),
        .best = best,
    };
}

static inline void split_free(struct split *split) {
    free(split->origin);
    free(split->work);
    free(split->up_start);
    free(split->up_node);
    free(split->up_ideal);
    free(split->path);
    free(split->place);
    free(split->nets);
    free(split->accelerator.entry);
    free(split->cpu.entry);
    free(split->steps);
    free(split->met_in);
}

static inline int split_allocate(struct split *split) {
    const struct shard_devices *devices = split->devices;
    const size_t n = (size_t)devices->nodes + 1, ideals = (size_t)split->ideals;
    const size_t links = (size_t)split->link_start[ideals] + 1;
    split->origin = malloc(ideals * split->length * sizeof *split->origin);
    split->work = malloc(ideals * sizeof *split->work);
    split->up_start = malloc((ideals + 2) * sizeof *split->up_start);
    split->up_node = malloc(links * sizeof *split->up_node);
    split->up_ideal = malloc(links * sizeof *split->up_ideal);
    split->path = malloc(n * sizeof *split->path);
    split->place = calloc(n, sizeof *split->place);
    split->nets = malloc(((size_t)devices->nets + 1) * sizeof *split->nets);
    split->accelerator.entry = malloc(split->length * sizeof *split->accelerator.entry);
    split->cpu.entry = malloc(split->length * sizeof *split->cpu.entry);
    split->steps = malloc(n * sizeof *split->steps);
    split->met_in = calloc((size_t)devices->nets + 1, sizeof *split->met_in);
    const bool whole = split->origin && split->work && split->up_start && split->up_node && split->up_ideal &&
                       split->path && split->place && split->nets && split->accelerator.entry &&
                       split->cpu.entry && split->steps && split->met_in;
    return whole ? SHARD_OK : SHARD_NO_MEMORY;
}

/* Whether to end, looked up now and then. */
static inline bool is_over(const struct split *split, int64_t count) {
    return !(count & (OFTEN - 1)) && is_stopped(split->stop);
}

/* The greatest node of an ideal that is not empty, and the ideal without it. */
static inline int32_t last_node(const struct split *split, int32_t ideal) {
    return split->link_node[split->link_start[ideal + 1] - 1];
}

static inline int32_t without_last(const struct split *split, int32_t ideal) {
    return split->link_ideal[split->link_start[ideal + 1] - 1];
}

/* Turn the links round; false if stopped. Of two ideals with one node more than a third the one with the
 * greater node comes first. */
static inline bool link_upwards(struct split *split) {
    int64_t *start = split->up_start;
    memset(start, 0, ((size_t)split->ideals + 2) * sizeof *start);
    for (int64_t i = 0; i < split->link_start[split->ideals]; i++) {
        if (is_over(split, i))
            return false;
        start[split->link_ideal[i] + 2]++;
    }
    for (int32_t i = 0; i < split->ideals; i++)
        start[i + 2] += start[i + 1];
    for (int32_t ideal = split->ideals - 1; ideal > 0; ideal--) {
        if (is_over(split, ideal))
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
    for (int64_t i = 0; i < entries; i += OFTEN) {
        if (is_stopped(split->stop))
            return false;
        const int64_t end = i + OFTEN < entries ? i + OFTEN : entries;
        for (int64_t j = i; j < end; j++)
            split->best[j] = INFINITY;
    }
    split->best[0] = 0.0;
    return true;
}

/* Set up what walks need; false if stopped. */
static inline bool prepare(struct split *split) {
    const struct shard_devices *devices = split->devices;
    if (!link_upwards(split))
        return false;
    split->work[0] = 0.0;
    for (int32_t i = 1; i < split->ideals; i++) {
        const double time = devices->accelerator_time[last_node(split, i)];
        split->work[i] = split->work[without_last(split, i)] + (isfinite(time) ? time : 0.0);
    }
    split->goal = split->work[split->ideals - 1];
    for (int32_t i = 0; i < devices->nets; i++)
        split->nets[i] = (struct net){.transfer = devices->transfer[i], .members = devices->members[i]};
    return clear_rows(split);
}

static inline void count_inside(struct split *split, int32_t v, int32_t change) {
    const struct shard_devices *devices = split->devices;
    split->place[v] = change > 0 ? BEGUN_WITH : AHEAD;
    for (int64_t i = devices->net_start[v]; i < devices->net_start[v + 1]; i++)
        split->nets[devices->net[i]].inside += change;
}

/* Begin with an ideal, whichever was begun with before. */
static inline void begin_with(struct split *split, int32_t ideal) {
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

/* Find the entries that devices can go on from: those that leave enough accelerators for the work of the
 * rest. */
static inline void find_entries(struct split *split, int32_t ideal) {
    const int32_t accelerators = split->devices->accelerators, cpus = split->devices->cpus;
    const double all = split->work[split->ideals - 1], *row = split->best + (size_t)ideal * split->length;
    struct entries *accelerator = &split->accelerator, *cpu = &split->cpu;
    accelerator->count = cpu->count = 0;
    for (int32_t a = 0; a <= cpus; a++) {
        const double after = split->goal - split->work[ideal] - split->relief[cpus - a] - SLACK * all;
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

/* Give the nodes that an ideal has more to one more device, at a load. */
static inline void offer(struct split *split, const struct entries *entries, int32_t ideal, double load,
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

/* Set out from an ideal. */
static inline struct step *first_step(struct split *split, int32_t ideal) {
    split->steps[0] = (struct step){.link = split->up_start[ideal + 1], .ideal = ideal, .node = -1};
    return split->steps;
}

/* Whether a node is left to be added; then the step's link leads to it. */
static inline bool follow(const struct split *split, struct step *step) {
    return step->link-- > split->up_start[step->ideal] && split->up_node[step->link] > step->node;
}

/* Go on to the ideal that the step's link leads to. */
static inline void arrive(struct split *split, const struct step *step, struct step *next) {
    split->pairs++;
    next->ideal = split->up_ideal[step->link];
    next->link = split->up_start[next->ideal + 1];
}

/* A sum and what its last addition lost to rounding, which the next one makes up for (Kahan): however many
 * terms >= 0 it has, it is off by little more than 2^-52 of itself. */
struct total {
    double sum, lost;
};

/* 2^53 times what a total may be off by, as a multiple of it, with some to spare. */
#define TOTAL_DRIFT 4.0

static inline void add_to(struct total *total, double term) {
    const double made_up = term - total->lost, sum = total->sum + made_up;
    total->lost = (sum - total->sum) - made_up;
    total->sum = sum;
}

/* Whether a set has nodes of a net, and others are elsewhere, and this is the first time that the net is met
 * in this renewal of the set's sums. */
static inline bool is_paid_anew(struct split *split, int32_t number) {
    const bool met = split->met_in[number] == split->renewals;
    split->met_in[number] = split->renewals;
    return !met && split->nets[number].taken < split->nets[number].members;
}

/* The least entry of a row. */
static inline size_t least_entry(const double *row, size_t length) {
    size_t least = 0;
    for (size_t i = 1; i < length; i++)
        least = row[i] < row[least] ? i : least;
    return least;
}

#endif
