/* For each ideal a walk through the smaller ones, nodes taken away one after the other, with the load of the
 * device that gets them kept up to date. What a device pays for work and for nets that reach beyond the ideal
 * only grows on the way, so the walk turns back where that alone is too much. */
#include "ideals_split.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "segment.h"

/* Bounds from sums of times may be off by this much, relative to all times, from rounding; they must not
 * exclude what is below the limit. */
#define SLACK 1e-9

/* A set of nodes on the way: the ideal begun with less `ideal`. */
struct step {
    int64_t link; /* of `ideal`, the next one to follow */
    int32_t ideal;
    int32_t node; /* taken away last; only lower ones follow */
    double time;  /* on the device */
    double size;
    double paid;   /* for nets */
    double beyond; /* the part of it for nets with nodes outside the ideal begun with */
};

/* Numbers of accelerators. */
struct span {
    int32_t least, most;
};

struct net {
    double transfer;
    int32_t members;
    int32_t outside; /* of the ideal begun with */
    int32_t taken;   /* in the set */
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
    double
        *best;    /* a row for each ideal: at a * width + b its least greatest load on just a CPUs and b
                     accelerators, none of them idle; infinite where that is not below the limit or of no use */
    double *work; /* ideals elements: time on accelerators of the nodes that they support */
    int32_t *
        path; /* nodes elements: the ideals on the way from the empty one to the ideal begun with, by depth */
    int32_t depth; /* nodes in the ideal begun with */
    struct net *nets;
    struct span *span;  /* cpus + 1 elements: the accelerators it may be given beside so many CPUs */
    double *row;        /* its row */
    struct step *steps; /* nodes + 1 elements */
    int32_t traced;     /* entry of the row that ends the walk when it comes down to `target`; -1: none */
    double target;
    int64_t pairs;
};

static size_t row_length(const struct shard_devices *devices) {
    return ((size_t)devices->accelerators + 1) * ((size_t)devices->cpus + 1);
}

static void split_free(struct split *split) {
    free(split->work);
    free(split->span);
    free(split->nets);
    free(split->steps);
    free(split->path);
    free(split->row);
}

static int split_allocate(struct split *split, int64_t ideals) {
    const struct shard_devices *devices = split->devices;
    const size_t n = (size_t)devices->nodes + 1, nets = (size_t)devices->nets + 1;
    split->work = malloc((size_t)ideals * sizeof *split->work);
    split->span = malloc(((size_t)devices->cpus + 1) * sizeof *split->span);
    split->nets = malloc(nets * sizeof *split->nets);
    split->steps = malloc(n * sizeof *split->steps);
    split->path = malloc(n * sizeof *split->path);
    split->row = malloc(row_length(devices) * sizeof *split->row);
    if (!(split->work && split->span && split->nets && split->steps && split->path && split->row))
        return SHARD_NO_MEMORY;
    for (int32_t i = 0; i < devices->nets; i++)
        split->nets[i] = (struct net){devices->transfer[i], devices->members[i], devices->members[i], 0};
    return SHARD_OK;
}

/* The greatest node of an ideal that is not empty, and the ideal without it. */
static int32_t last_node(const struct split *split, int32_t ideal) {
    return split->link_node[split->link_start[ideal + 1] - 1];
}

static int32_t without_last(const struct split *split, int32_t ideal) {
    return split->link_ideal[split->link_start[ideal + 1] - 1];
}

static void count_outside(struct split *split, int32_t v, int32_t change) {
    const struct shard_devices *devices = split->devices;
    for (int64_t i = devices->net_start[v]; i < devices->net_start[v + 1]; i++)
        split->nets[devices->net[i]].outside += change;
}

/* Begin with an ideal; quick if it is the next one. */
static void begin_with(struct split *split, int32_t ideal) {
    while (split->depth && split->path[split->depth - 1] != without_last(split, ideal))
        count_outside(split, last_node(split, split->path[--split->depth]), 1);
    int32_t lacking = 0;
    const int32_t top = split->depth ? split->path[split->depth - 1] : 0;
    for (int32_t i = ideal; i != top; i = without_last(split, i))
        lacking++;
    split->depth += lacking;
    for (int32_t i = ideal, at = split->depth; i != top; i = without_last(split, i)) {
        split->path[--at] = i;
        count_outside(split, last_node(split, i), -1);
    }
}

/* Find which numbers of devices an ideal may be given to: few enough that its work is too much for fewer, and
 * that the others suffice for the work of the rest. False if there are none. */
static bool find_spans(struct split *split, int32_t ideal) {
    const int32_t most = split->devices->accelerators, cpus = split->devices->cpus;
    const double all = split->work[split->ideals - 1], slack = SLACK * all;
    bool any = false;
    for (int32_t a = 0; a <= cpus; a++) {
        const double before = split->work[ideal] - split->relief[a] - slack;
        const double after = all - split->work[ideal] - split->relief[cpus - a] - slack;
        const double least = before > 0.0 ? ceil(before / split->limit) : 0.0;
        const double rest = after > 0.0 ? ceil(after / split->limit) : 0.0;
        split->span[a] = (struct span){1, 0};
        if (least + rest <= most)
            split->span[a] = (struct span){(int32_t)least, most - (int32_t)rest};
        any = any || least + rest <= most;
    }
    return any;
}

/* Offer to the rows of `split->row` that the last device, an accelerator, has this load. */
static void offer_accelerator(struct split *split, int32_t ideal, double load) {
    const double *before = split->best + (size_t)ideal * split->length;
    double *row = split->row;
    for (int32_t a = 0; a <= split->devices->cpus; a++, before += split->width, row += split->width) {
        const struct span span = split->span[a];
        for (int32_t b = span.least > 1 ? span.least : 1; b <= span.most; b++) {
            const double greatest = before[b - 1] > load ? before[b - 1] : load;
            row[b] = greatest < row[b] ? greatest : row[b];
        }
    }
}

/* The same for a CPU. */
static void offer_cpu(struct split *split, int32_t ideal, double load) {
    const double *before = split->best + (size_t)ideal * split->length;
    double *row = split->row + split->width;
    for (int32_t a = 1; a <= split->devices->cpus; a++, before += split->width, row += split->width) {
        const struct span span = split->span[a];
        for (int32_t b = span.least; b <= span.most; b++) {
            const double greatest = before[b] > load ? before[b] : load;
            row[b] = greatest < row[b] ? greatest : row[b];
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
            step->beyond += net->outside ? net->transfer : 0.0;
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

/* Whether the walk that is traced has come to its end. */
static bool arrived(const struct split *split) {
    return split->traced >= 0 && split->row[split->traced] == split->target;
}

/* Walk from an ideal through those that leave an accelerator a load below the limit; the ideal at which
 * `arrived` became true, else -1. */
static int32_t walk_accelerator(struct split *split, int32_t ideal) {
    const struct shard_devices *devices = split->devices;
    struct step *step = split->steps;
    *step = (struct step){.link = split->link_start[ideal], .ideal = ideal, .node = devices->nodes};
    for (;;) {
        const int64_t link = step->link++;
        if (link == split->link_start[step->ideal + 1] || split->link_node[link] >= step->node) {
            if (step == split->steps)
                return -1;
            leave(split, step--->node);
            continue;
        }
        const int32_t v = split->link_node[link];
        struct step *next = step + 1;
        *next = *step;
        next->time += devices->accelerator_time[v];
        next->size += devices->size[v];
        if (next->time + next->beyond >= split->limit || next->size > devices->memory)
            continue;
        join(split, v, next);
        split->pairs++;
        next->ideal = split->link_ideal[link];
        next->link = split->link_start[next->ideal];
        next->node = v;
        if (next->time + next->paid < split->limit)
            offer_accelerator(split, next->ideal, next->time + next->paid);
        step = next;
        if (arrived(split))
            break;
    }
    const int32_t found = step->ideal;
    while (step != split->steps)
        leave(split, step--->node);
    return found;
}

/* The same for a CPU. */
static int32_t walk_cpu(struct split *split, int32_t ideal) {
    const struct shard_devices *devices = split->devices;
    struct step *step = split->steps;
    *step = (struct step){.link = split->link_start[ideal], .ideal = ideal, .node = devices->nodes};
    for (;;) {
        const int64_t link = step->link++;
        if (link == split->link_start[step->ideal + 1] || split->link_node[link] >= step->node) {
            if (step-- == split->steps)
                return -1;
            continue;
        }
        struct step *next = step + 1;
        next->node = split->link_node[link];
        next->time = step->time + devices->cpu_time[next->node];
        if (next->time >= split->limit)
            continue;
        split->pairs++;
        next->ideal = split->link_ideal[link];
        next->link = split->link_start[next->ideal];
        offer_cpu(split, next->ideal, next->time);
        step = next;
        if (arrived(split))
            return step->ideal;
    }
}

static void fill(double *values, size_t count, double value) {
    for (size_t i = 0; i < count; i++)
        values[i] = value;
}

/* Fill the row of an ideal whose subsets have theirs. */
static void find_row(struct split *split, int32_t ideal) {
    const struct shard_devices *devices = split->devices;
    begin_with(split, ideal);
    fill(split->row, split->length, INFINITY);
    if (find_spans(split, ideal)) {
        if (devices->accelerators)
            walk_accelerator(split, ideal);
        if (devices->cpus)
            walk_cpu(split, ideal);
    }
    memcpy(split->best + (size_t)ideal * split->length, split->row, split->length * sizeof *split->row);
}

/* Sum the work of all ideals. */
static void find_work(struct split *split) {
    split->work[0] = 0.0;
    for (int32_t i = 1; i < split->ideals; i++) {
        const double time = split->devices->accelerator_time[last_node(split, i)];
        split->work[i] = split->work[without_last(split, i)] + (isfinite(time) ? time : 0.0);
    }
}

/* Fill the rows of all ideals; that of the whole graph is infinite if stopped. */
static void find_rows(struct split *split, const int32_t *stop) {
    find_work(split);
    fill(split->best, split->length, INFINITY);
    fill(split->best + ((size_t)split->ideals - 1) * split->length, split->length, INFINITY);
    split->best[0] = 0.0;
    for (int32_t ideal = 1; ideal < split->ideals && !is_stopped(stop); ideal++)
        find_row(split, ideal);
}

/* The least entry of the row of the whole graph. */
static size_t least_entry(const struct split *split) {
    const double *row = split->best + ((size_t)split->ideals - 1) * split->length;
    size_t least = 0;
    for (size_t i = 1; i < split->length; i++)
        least = row[i] < row[least] ? i : least;
    return least;
}

/* Walk again from the whole graph to where an entry of its row came from, and so on: a device for each node.
 */
static void trace(struct split *split, size_t entry, int32_t *device) {
    int32_t ideal = split->ideals - 1;
    while (ideal) {
        const int32_t a = (int32_t)entry / split->width, b = (int32_t)entry % split->width;
        begin_with(split, ideal);
        fill(split->row, split->length, INFINITY);
        find_spans(split, ideal);
        split->traced = (int32_t)entry;
        split->target = split->best[(size_t)ideal * split->length + entry];
        int32_t next = b ? walk_accelerator(split, ideal) : -1;
        const bool on_cpu = next < 0;
        if (on_cpu)
            next = walk_cpu(split, ideal);
        for (int32_t i = ideal; i; i = without_last(split, i))
            device[last_node(split, i)] = on_cpu ? split->devices->accelerators + a - 1 : b - 1;
        entry -= on_cpu ? (size_t)split->width : 1;
        ideal = next;
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
        .traced = -1,
    };
    const int status = split_allocate(&split, ideals);
    if (!status) {
        find_rows(&split, stop);
        const size_t entry = least_entry(&split);
        *cost = split.best[((size_t)ideals - 1) * split.length + entry];
        *pairs = split.pairs;
        if (isfinite(*cost))
            trace(&split, entry, device);
    }
    split_free(&split);
    return status;
}
