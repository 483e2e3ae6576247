/* Loads are sums: a net costs a device the same whichever node makes the tensor. */
#include "placement/ideals/split_dp.h"

#include "placement/ideals/walk.h"

/* Add a node to the set: update the cost of its nets. */
static void join(struct split *split, int32_t v, struct step *step) {
    const struct shard_devices *devices = split->devices;
    const int64_t begin = devices->net_start[v], end = devices->net_start[v + 1];
    double opened = 0.0, closed = 0.0, committed = 0.0;
    for (int64_t i = begin; i < end; i++) {
        struct net *net = &split->nets[devices->net[i]];
        const int32_t taken = ++net->taken;
        if (taken == 1) {
            opened += net->transfer;
            committed += net->inside ? net->transfer : 0.0;
        }
        if (taken == net->members)
            closed += net->transfer;
    }
    step->paid += opened;
    step->drift += (double)(2 * (end - begin) + 2) * step->paid;
    step->paid -= closed;
    step->committed += committed;
}

/* Recompute the cost of the nets of the set. */
static void resum(struct split *split, struct step *last) {
    const struct shard_devices *devices = split->devices;
    struct total paid = {0.0, 0.0};
    split->resums++;
    for (const struct step *step = split->steps + 1; step <= last; step++) {
        for (int64_t i = devices->net_start[step->node]; i < devices->net_start[step->node + 1]; i++) {
            const int32_t number = devices->net[i];
            if (is_paid_anew(split, number))
                add_to(&paid, split->nets[number].transfer);
        }
    }
    last->paid = paid.sum;
    last->drift = TOTAL_DRIFT * paid.sum;
}

static void leave(struct split *split, int32_t v) {
    const struct shard_devices *devices = split->devices;
    for (int64_t i = devices->net_start[v]; i < devices->net_start[v + 1]; i++)
        split->nets[devices->net[i]].taken--;
}

/* Walk through the ideals that give an accelerator a load below the limit; false if stopped. */
static bool walk_accelerator(struct split *split, int32_t ideal) {
    const struct shard_devices *devices = split->devices;
    for (struct step *step = first_step(split, ideal);;) {
        if (!next_link(split, step)) {
            if (step == split->steps)
                return true;
            if (is_stopped(split->stop))
                return false;
            leave(split, step->node);
            step--;
            continue;
        }
        struct step *next = step + 1;
        *next = *step;
        next->node = split->up_node[step->link];
        next->time += devices->accelerator_time[next->node];
        next->size += devices->size[next->node];
        if (next->time + next->committed >= split->limit || next->size > devices->memory)
            continue;
        join(split, next->node, next);
        if (next->drift > MAX_DRIFT * (next->time + next->paid))
            resum(split, next);
        step_to(split, step, next);
        if (next->time + next->paid < split->limit)
            relax(split, &split->accelerator, next->ideal, next->time + next->paid, ideal);
        step = next;
    }
}

/* Walk through the ideals that give a CPU a load below the limit; false if stopped. */
static bool walk_cpu(struct split *split, int32_t ideal) {
    const struct shard_devices *devices = split->devices;
    for (struct step *step = first_step(split, ideal);;) {
        if (!next_link(split, step)) {
            if (step-- == split->steps)
                return true;
            if (is_stopped(split->stop))
                return false;
            continue;
        }
        struct step *next = step + 1;
        next->node = split->up_node[step->link];
        next->time = step->time + devices->cpu_time[next->node];
        if (next->time >= split->limit)
            continue;
        step_to(split, step, next);
        relax(split, &split->cpu, next->ideal, next->time, ~ideal);
        step = next;
    }
}

/* Fill all rows; false if stopped. */
static bool find_rows(struct split *split) {
    for (int32_t ideal = 0; ideal < split->ideals - 1; ideal++) {
        if (is_stopped(split->stop))
            return false;
        set_base(split, ideal);
        find_entries(split, ideal);
        if (split->accelerator.count && !walk_accelerator(split, ideal))
            return false;
        if (split->cpu.count && !walk_cpu(split, ideal))
            return false;
    }
    return true;
}

/* Trace an entry of the row of the whole graph back to the empty ideal: a device for each node. */
static void trace(const struct split *split, size_t entry, int32_t *device) {
    int32_t ideal = split->ideals - 1;
    while (ideal) {
        const int32_t a = (int32_t)entry / split->width, b = (int32_t)entry % split->width;
        const int32_t origin = split->origin[(size_t)ideal * split->length + entry];
        for (int32_t i = ideal; i; i = without_last(split, i)) /* nodes of the origin are overwritten */
            device[last_node(split, i)] = origin < 0 ? split->devices->accelerators + a - 1 : b - 1;
        entry -= origin < 0 ? (size_t)split->width : 1;
        ideal = origin < 0 ? ~origin : origin;
    }
}

int shard_split_dp(const struct shard_devices *devices, int64_t ideals, const int64_t *link_start,
                   const int32_t *link_node, const int32_t *link_ideal, double limit, const double *offload,
                   const int32_t *stop, double *best, double *cost, int32_t *device, int64_t *pairs) {
    struct split split =
        split_of(devices, ideals, link_start, link_node, link_ideal, limit, offload, stop, best);
    split_allocate(&split);
    const int status = arena_status(&split.arena);
    if (status == SHARD_OK) {
        *cost = INFINITY;
        if (prepare(&split) && find_rows(&split)) {
            const double *row = best + ((size_t)ideals - 1) * split.length;
            const size_t entry = least_entry(row, split.length);
            *cost = row[entry];
            if (isfinite(*cost))
                trace(&split, entry, device);
        }
        *pairs = split.pairs;
    }
    arena_free(&split.arena);
    return status;
}
