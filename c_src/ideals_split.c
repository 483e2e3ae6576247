/* For each ideal that devices can take in time a walk through the larger ones, nodes added one after the
 * other, with the load of the device that gets them kept up to date. What a device pays for work and for nets
 * that reach into the ideal only grows on the way, so the walk turns back where that alone is too much. */
#include "ideals_split.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "segment.h"

/* Bounds from sums of times may be off by this much, relative to all times, from rounding; they must not
 * exclude what is below the limit. */
#define SLACK 1e-9

/* A set of nodes on the way: `ideal` less the ideal begun with. */
struct step {
    int64_t link; /* of `ideal`, the last one followed */
    int32_t ideal;
    int32_t node; /* added last; only greater ones follow */
    double time;  /* on the device */
    double size;
    double paid;  /* for nets */
    double stuck; /* the part of it for nets with nodes in the ideal begun with */
};

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
    int32_t width; /* accelerators + 1 */
    size_t length; /* of a row: (cpus + 1) * width */
    /* A row for each ideal: at a * width + b its least greatest load on just a CPUs and b accelerators, none
     * of them idle; infinite where that is not below the limit. */
    double *best;
    int32_t *origin; /* like best: the ideal without the nodes of the last device, in complement if that is a
                        CPU */
    double *work;    /* ideals elements: time on accelerators of the nodes that they support */
    /* The links from below: what ideals with one node more there are, the nodes ascending. */
    int64_t *up_start;
    int32_t *up_node, *up_ideal;
    /* The ideals on the way from the empty one to the ideal begun with, by depth. */
    int32_t *path;
    int32_t depth; /* nodes in the ideal begun with */
    struct net *nets;
    struct entries accelerator, cpu; /* of the ideal begun with */
    struct step *steps;              /* nodes + 1 elements */
    int64_t pairs;
};

static size_t row_length(const struct shard_devices *devices) {
    return ((size_t)devices->accelerators + 1) * ((size_t)devices->cpus + 1);
}

static void split_free(struct split *split) {
    free(split->origin);
    free(split->work);
    free(split->up_start);
    free(split->up_node);
    free(split->up_ideal);
    free(split->path);
    free(split->nets);
    free(split->accelerator.entry);
    free(split->cpu.entry);
    free(split->steps);
}

static int split_allocate(struct split *split) {
    const struct shard_devices *devices = split->devices;
    const size_t n = (size_t)devices->nodes + 1, ideals = (size_t)split->ideals;
    const size_t links = (size_t)split->link_start[ideals] + 1;
    split->origin = malloc(ideals * split->length * sizeof *split->origin);
    split->work = malloc(ideals * sizeof *split->work);
    split->up_start = malloc((ideals + 2) * sizeof *split->up_start);
    split->up_node = malloc(links * sizeof *split->up_node);
    split->up_ideal = malloc(links * sizeof *split->up_ideal);
    split->path = malloc(n * sizeof *split->path);
    split->nets = malloc(((size_t)devices->nets + 1) * sizeof *split->nets);
    split->accelerator.entry = malloc(split->length * sizeof *split->accelerator.entry);
    split->cpu.entry = malloc(split->length * sizeof *split->cpu.entry);
    split->steps = malloc(n * sizeof *split->steps);
    const bool whole = split->origin && split->work && split->up_start && split->up_node && split->up_ideal &&
                       split->path && split->nets && split->accelerator.entry && split->cpu.entry &&
                       split->steps;
    return whole ? SHARD_OK : SHARD_NO_MEMORY;
}

/* The greatest node of an ideal that is not empty, and the ideal without it. */
static int32_t last_node(const struct split *split, int32_t ideal) {
    return split->link_node[split->link_start[ideal + 1] - 1];
}

static int32_t without_last(const struct split *split, int32_t ideal) {
    return split->link_ideal[split->link_start[ideal + 1] - 1];
}

/* Turn the links round. Of two ideals with one node more than a third the one with the greater node comes
 * first. */
static void link_upwards(struct split *split) {
    int64_t *start = split->up_start;
    memset(start, 0, ((size_t)split->ideals + 2) * sizeof *start);
    for (int64_t i = 0; i < split->link_start[split->ideals]; i++)
        start[split->link_ideal[i] + 2]++;
    for (int32_t i = 0; i < split->ideals; i++)
        start[i + 2] += start[i + 1];
    for (int32_t ideal = split->ideals - 1; ideal > 0; ideal--)
        for (int64_t i = split->link_start[ideal]; i < split->link_start[ideal + 1]; i++) {
            const int64_t at = start[split->link_ideal[i] + 1]++;
            split->up_node[at] = split->link_node[i];
            split->up_ideal[at] = ideal;
        }
}

static void prepare(struct split *split) {
    const struct shard_devices *devices = split->devices;
    link_upwards(split);
    split->work[0] = 0.0;
    for (int32_t i = 1; i < split->ideals; i++) {
        const double time = devices->accelerator_time[last_node(split, i)];
        split->work[i] = split->work[without_last(split, i)] + (isfinite(time) ? time : 0.0);
    }
    for (int32_t i = 0; i < devices->nets; i++)
        split->nets[i] = (struct net){devices->transfer[i], devices->members[i], 0, 0};
    for (size_t i = 0; i < (size_t)split->ideals * split->length; i++)
        split->best[i] = INFINITY;
    split->best[0] = 0.0;
}

static void count_inside(struct split *split, int32_t v, int32_t change) {
    const struct shard_devices *devices = split->devices;
    for (int64_t i = devices->net_start[v]; i < devices->net_start[v + 1]; i++)
        split->nets[devices->net[i]].inside += change;
}

/* Begin with an ideal, the next one. */
static void begin_with(struct split *split, int32_t ideal) {
    while (split->depth && split->path[split->depth - 1] != without_last(split, ideal))
        count_inside(split, last_node(split, split->path[--split->depth]), -1);
    if (ideal) {
        split->path[split->depth++] = ideal;
        count_inside(split, last_node(split, ideal), 1);
    }
}

/* Find the entries that devices can go on from: those that leave enough accelerators for the work of the
 * rest. */
static void find_entries(struct split *split, int32_t ideal) {
    const int32_t accelerators = split->devices->accelerators, cpus = split->devices->cpus;
    const double all = split->work[split->ideals - 1], *row = split->best + (size_t)ideal * split->length;
    struct entries *accelerator = &split->accelerator, *cpu = &split->cpu;
    accelerator->count = cpu->count = 0;
    for (int32_t a = 0; a <= cpus; a++) {
        const double after = all - split->work[ideal] - split->relief[cpus - a] - SLACK * all;
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
static void offer(struct split *split, const struct entries *entries, int32_t ideal, double load,
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

/* A node joins the set: what the set pays for the node's nets from now on. */
static void join(struct split *split, int32_t v, struct step *step) {
    const struct shard_devices *devices = split->devices;
    for (int64_t i = devices->net_start[v]; i < devices->net_start[v + 1]; i++) {
        struct net *net = &split->nets[devices->net[i]];
        const int32_t taken = ++net->taken;
        if (taken == 1) {
            step->paid += net->transfer;
            step->stuck += net->inside ? net->transfer : 0.0;
        }
        if (taken == net->members)
            step->paid -= net->transfer;
    }
}

static void leave(struct split *split, int32_t v) {
    const struct shard_devices *devices = split->devices;
    for (int64_t i = devices->net_start[v]; i < devices->net_start[v + 1]; i++)
        split->nets[devices->net[i]].taken--;
}

/* Set out from an ideal. */
static struct step *first_step(struct split *split, int32_t ideal) {
    split->steps[0] = (struct step){.link = split->up_start[ideal + 1], .ideal = ideal, .node = -1};
    return split->steps;
}

/* Whether a node is left to be added; then the step's link leads to it. */
static bool follow(const struct split *split, struct step *step) {
    return step->link-- > split->up_start[step->ideal] && split->up_node[step->link] > step->node;
}

/* Walk from an ideal through those that leave an accelerator a load below the limit. */
static void walk_accelerator(struct split *split, int32_t ideal) {
    const struct shard_devices *devices = split->devices;
    for (struct step *step = first_step(split, ideal);;) {
        if (!follow(split, step)) {
            if (step == split->steps)
                return;
            leave(split, step->node);
            step--;
            continue;
        }
        struct step *next = step + 1;
        *next = *step;
        next->node = split->up_node[step->link];
        next->time += devices->accelerator_time[next->node];
        next->size += devices->size[next->node];
        if (next->time + next->stuck >= split->limit || next->size > devices->memory)
            continue;
        join(split, next->node, next);
        split->pairs++;
        next->ideal = split->up_ideal[step->link];
        next->link = split->up_start[next->ideal + 1];
        if (next->time + next->paid < split->limit)
            offer(split, &split->accelerator, next->ideal, next->time + next->paid, ideal);
        step = next;
    }
}

/* The same for a CPU. */
static void walk_cpu(struct split *split, int32_t ideal) {
    const struct shard_devices *devices = split->devices;
    for (struct step *step = first_step(split, ideal);;) {
        if (!follow(split, step)) {
            if (step-- == split->steps)
                return;
            continue;
        }
        struct step *next = step + 1;
        next->node = split->up_node[step->link];
        next->time = step->time + devices->cpu_time[next->node];
        if (next->time >= split->limit)
            continue;
        split->pairs++;
        next->ideal = split->up_ideal[step->link];
        next->link = split->up_start[next->ideal + 1];
        offer(split, &split->cpu, next->ideal, next->time, ~ideal);
        step = next;
    }
}

/* Fill all rows; false if stopped. */
static bool find_rows(struct split *split, const int32_t *stop) {
    for (int32_t ideal = 0; ideal < split->ideals - 1; ideal++) {
        if (is_stopped(stop))
            return false;
        begin_with(split, ideal);
        find_entries(split, ideal);
        if (split->accelerator.count)
            walk_accelerator(split, ideal);
        if (split->cpu.count)
            walk_cpu(split, ideal);
    }
    return true;
}

/* The least entry of the row of the whole graph. */
static size_t least_entry(const struct split *split) {
    const double *row = split->best + ((size_t)split->ideals - 1) * split->length;
    size_t least = 0;
    for (size_t i = 1; i < split->length; i++)
        least = row[i] < row[least] ? i : least;
    return least;
}

/* Go back from the whole graph to where an entry of its row came from, and so on: a device for each node. */
static void trace(const struct split *split, size_t entry, int32_t *device) {
    int32_t ideal = split->ideals - 1;
    while (ideal) {
        const int32_t a = (int32_t)entry / split->width, b = (int32_t)entry % split->width;
        const int32_t origin = split->origin[(size_t)ideal * split->length + entry];
        for (int32_t i = ideal; i; i = without_last(split, i)) /* those of the origin get another one yet */
            device[last_node(split, i)] = origin < 0 ? split->devices->accelerators + a - 1 : b - 1;
        entry -= origin < 0 ? (size_t)split->width : 1;
        ideal = origin < 0 ? ~origin : origin;
    }
}

int shard_split_ideals(const struct shard_devices *devices, int64_t ideals, const int64_t *link_start,
                       const int32_t *link_node, const int32_t *link_ideal, double limit,
                       const double *relief, const int32_t *stop, double *best, double *cost, int32_t *device,
                       int64_t *pairs) {
    struct split split = {
        .devices = devices,
        .ideals = (int32_t)ideals,
        .link_start = link_start,
        .link_node = link_node,
        .link_ideal = link_ideal,
        .limit = limit,
        .relief = relief,
        .width = devices->accelerators + 1,
        .length = row_length(devices),
        .best = best,
    };
    const int status = split_allocate(&split);
    if (!status) {
        prepare(&split);
        const bool whole = find_rows(&split, stop);
        const size_t entry = least_entry(&split);
        *cost = whole ? best[((size_t)ideals - 1) * split.length + entry] : INFINITY;
        *pairs = split.pairs;
        if (isfinite(*cost))
            trace(&split, entry, device);
    }
    split_free(&split);
    return status;
}
