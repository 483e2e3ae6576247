/* The walks of walk.h, with separate sums and rates for nets in and nets out. */
#include "placement/ideals/stages_dp.h"

#include "placement/ideals/stages.h"

/* The entries that a stage of one or more devices can extend. */
struct choice {
    const struct entries *entries;
    const int32_t *left; /* devices left at each of them */
    size_t stride;       /* of rows, for one device more */
    int32_t most;        /* devices of a stage */
    int32_t origin;
};

void stages_allocate(struct stages *stages) {
    const struct shard_devices *devices = stages->split.devices;
    struct arena *arena = &stages->split.arena;
    split_allocate(&stages->split);
    ARENA_ARRAYS(arena, devices->nodes + 1, stages->net_costs);
    ARENA_ARRAYS(arena, devices->nets, stages->arriving, stages->leaving);
    ARENA_ARRAYS(arena, devices->nodes, stages->allowed);
    ARENA_ARRAYS(arena, stages->split.length, stages->accelerators_left, stages->cpus_left);
    if (arena->failed)
        return;
    memset(stages->allowed, 1, (size_t)devices->nodes);
    for (int32_t i = 0; i < devices->nets; i++)
        stages->arriving[i] = stages->leaving[i] = devices->transfer[i];
}

static double overlapped(const struct stages *stages, double in, double time, double out) {
    if (stages->model->overlap == SHARD_OVERLAP_NONE)
        return time + in + out;
    if (stages->model->overlap == SHARD_OVERLAP_HALF)
        return larger_of(time, in + out);
    return larger_of(time, larger_of(in, out));
}

/* Load of a stage of `count` replicas, which synchronise their nodes. */
static double shared(const struct stages *stages, double load, double size, int32_t count) {
    if (count == 1)
        return load;
    const double part = load / count, sync = (count - 1) * size / (count * stages->model->bandwidth);
    return stages->model->overlap == SHARD_OVERLAP_NONE ? part + sync : larger_of(part, sync);
}

/* True if some number of replicas up to `most` brings a load below the limit. */
static bool is_bearable(const struct stages *stages, double load, double size, int32_t most) {
    for (int32_t count = 1; count <= most; count++)
        if (shared(stages, load, size, count) < stages->split.limit)
            return true;
    return false;
}

/* Update the row of an ideal: one more stage, of any size, takes the added nodes; false if stopped. */
static bool relax_stage(struct stages *stages, const struct choice *choice, int32_t ideal, double load,
                        double size) {
    const size_t begin = (size_t)ideal * stages->split.length;
    for (int32_t count = 1; count <= choice->most; count++) {
        const double part = shared(stages, load, size, count);
        if (part >= stages->split.limit)
            continue;
        if (is_stopped(stages->split.stop))
            return false;
        for (int32_t i = 0; i < choice->entries->count; i++) {
            const struct entry *entry = &choice->entries->entry[i];
            const double greatest = larger_of(entry->load, part);
            const size_t at = begin + entry->next + (size_t)(count - 1) * choice->stride;
            if (choice->left[i] < count || greatest >= stages->split.best[at])
                continue;
            stages->split.best[at] = greatest;
            stages->split.origin[at] = choice->origin;
            if (stages->share)
                stages->share[at] = count;
        }
    }
    return true;
}

/* Add a node to the set: update the cost of its nets. */
static void join(struct stages *stages, int32_t v, struct net_cost *net_cost) {
    struct split *split = &stages->split;
    const struct shard_devices *devices = split->devices;
    const bool full = stages->model->overlap == SHARD_OVERLAP_FULL;
    const int64_t begin = devices->net_start[v], end = devices->net_start[v + 1];
    double opened_in = 0.0, closed_in = 0.0, opened_out = 0.0, closed_out = 0.0;
    split->place[v] = ADDED;
    for (int64_t i = begin; i < end; i++) {
        const int32_t number = devices->net[i], maker = stages->model->maker[number];
        struct net *net = &split->nets[number];
        const double arriving = stages->arriving[number], leaving = stages->leaving[number];
        const bool makes = maker == v, sends = split->place[maker] == ADDED, first = ++net->taken == 1;
        const bool open = net->taken < net->members;
        if (first && open) {
            *(sends ? &opened_out : &opened_in) += sends ? leaving : arriving;
        } else if (!first && !open) {
            *(sends && !makes ? &closed_out : &closed_in) += sends && !makes ? leaving : arriving;
        } else if (makes) { /* the tensor was received, and is sent now */
            closed_in += first ? 0.0 : arriving;
            opened_out += first ? 0.0 : leaving;
        }
        if (!net->inside)
            continue;
        if (makes)
            net_cost->committed_out += first || full ? leaving : 0.0;
        else if (first && split->place[maker] == IN_BASE)
            net_cost->committed_in += arriving;
        else if (first && !full) /* the maker may still be added, which only changes the rate */
            net_cost->committed_in += (arriving < leaving ? arriving : leaving);
    }
    net_cost->in += opened_in;
    net_cost->out += opened_out;
    net_cost->drift += (double)(2 * (end - begin) + 2) * (net_cost->in + net_cost->out);
    net_cost->in -= closed_in;
    net_cost->out -= closed_out;
}

/* Recompute the cost of the nets of the set. */
static void resum(struct stages *stages, const struct step *last, struct net_cost *net_cost) {
    struct split *split = &stages->split;
    const struct shard_devices *devices = split->devices;
    struct total in = {0.0, 0.0}, out = {0.0, 0.0};
    split->resums++;
    for (const struct step *step = split->steps + 1; step <= last; step++) {
        for (int64_t i = devices->net_start[step->node]; i < devices->net_start[step->node + 1]; i++) {
            const int32_t number = devices->net[i];
            if (!is_paid_anew(split, number))
                continue;
            if (split->place[stages->model->maker[number]] == ADDED)
                add_to(&out, stages->leaving[number]);
            else
                add_to(&in, stages->arriving[number]);
        }
    }
    net_cost->in = in.sum;
    net_cost->out = out.sum;
    net_cost->drift = TOTAL_DRIFT * (in.sum + out.sum);
}

static void leave(struct stages *stages, int32_t v) {
    const struct shard_devices *devices = stages->split.devices;
    stages->split.place[v] = BEYOND;
    for (int64_t i = devices->net_start[v]; i < devices->net_start[v + 1]; i++)
        stages->split.nets[devices->net[i]].taken--;
}

/* Walk through the ideals that give accelerators a load below the limit; false if stopped. */
static bool walk_accelerators(struct stages *stages, const struct choice *choice, int32_t ideal) {
    struct split *split = &stages->split;
    const struct shard_devices *devices = split->devices;
    struct net_cost *net_cost = stages->net_costs;
    *net_cost = (struct net_cost){.in = 0.0};
    for (struct step *step = first_step(split, ideal);;) {
        if (!next_link(split, step)) {
            if (step == split->steps)
                return true;
            if (is_stopped(split->stop))
                return false;
            leave(stages, step->node);
            step--;
            net_cost--;
            continue;
        }
        struct step *next = step + 1;
        *next = *step;
        next->node = split->up_node[step->link];
        next->time += devices->accelerator_time[next->node];
        next->size += devices->size[next->node];
        const double least = overlapped(stages, net_cost->committed_in, next->time, net_cost->committed_out);
        if (!stages->allowed[next->node] || next->size > devices->memory ||
            !is_bearable(stages, least, next->size, choice->most))
            continue;
        net_cost[1] = *net_cost;
        join(stages, next->node, ++net_cost);
        step_to(split, step, next);
        double load = overlapped(stages, net_cost->in, next->time, net_cost->out);
        if (net_cost->drift > MAX_DRIFT * load) {
            resum(stages, next, net_cost);
            load = overlapped(stages, net_cost->in, next->time, net_cost->out);
        }
        if (!relax_stage(stages, choice, next->ideal, load, next->size))
            return false;
        step = next;
    }
}

/* Walk through the ideals that give CPUs a load below the limit; false if stopped. */
static bool walk_cpus(struct stages *stages, const struct choice *choice, int32_t ideal) {
    struct split *split = &stages->split;
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
        next->size = step->size + devices->size[next->node];
        if (!stages->allowed[next->node] || !is_bearable(stages, next->time, next->size, choice->most))
            continue;
        step_to(split, step, next);
        if (!relax_stage(stages, choice, next->ideal, next->time, next->size))
            return false;
        step = next;
    }
}

/* Count the devices left at each entry. */
static void count_left(struct stages *stages) {
    const struct split *split = &stages->split;
    const size_t width = (size_t)split->width;
    for (int32_t i = 0; i < split->accelerator.count; i++)
        stages->accelerators_left[i] = split->width - (int32_t)(split->accelerator.entry[i].next % width);
    for (int32_t i = 0; i < split->cpu.count; i++)
        stages->cpus_left[i] = split->devices->cpus + 1 - (int32_t)(split->cpu.entry[i].next / width);
}

bool stages_find_rows(struct stages *stages, int32_t first, int32_t last) {
    struct split *split = &stages->split;
    const bool several = stages->share;
    for (int32_t ideal = first; ideal < last; ideal++) {
        if (is_stopped(split->stop))
            return false;
        find_entries(split, ideal);
        if (!split->accelerator.count && !split->cpu.count)
            continue;
        set_base(split, ideal);
        count_left(stages);
        const struct choice accelerators = {&split->accelerator, stages->accelerators_left, 1,
                                            several ? split->devices->accelerators : 1, ideal};
        const struct choice cpus = {&split->cpu, stages->cpus_left, (size_t)split->width,
                                    several ? split->devices->cpus : 1, ~ideal};
        if (split->accelerator.count && !walk_accelerators(stages, &accelerators, ideal))
            return false;
        if (split->cpu.count && !walk_cpus(stages, &cpus, ideal))
            return false;
    }
    return true;
}

void stages_trace(const struct stages *stages, int32_t first, int32_t ideal, size_t entry,
                  struct numbers from, int32_t *device, int32_t *replicas) {
    const struct split *split = &stages->split;
    while (ideal != first) {
        const size_t at = (size_t)ideal * split->length + entry;
        const int32_t a = (int32_t)entry / split->width, b = (int32_t)entry % split->width;
        const int32_t origin = split->origin[at], count = stages->share ? stages->share[at] : 1;
        for (int32_t i = ideal; i; i = without_last(split, i)) { /* nodes of the origin are overwritten */
            device[last_node(split, i)] = origin < 0 ? from.cpu + a - count : from.accelerator + b - count;
            if (replicas)
                replicas[last_node(split, i)] = count;
        }
        entry -= (size_t)count * (origin < 0 ? (size_t)split->width : 1);
        ideal = origin < 0 ? ~origin : origin;
    }
}

int shard_stages_dp(const struct shard_devices *devices, const struct shard_stage_model *model,
                    int64_t ideals, const int64_t *link_start, const int32_t *link_node,
                    const int32_t *link_ideal, double limit, const double *offload, const int32_t *stop,
                    double *best, int32_t *share, double *cost, int32_t *device, int32_t *replicas,
                    int64_t *pairs) {
    struct stages stages = {
        .split = split_of(devices, ideals, link_start, link_node, link_ideal, limit, offload, stop, best),
        .model = model,
        .share = model->bandwidth > 0.0 ? share : NULL,
    };
    struct split *split = &stages.split;
    stages_allocate(&stages);
    const int status = arena_status(&split->arena);
    if (status == SHARD_OK) {
        *cost = INFINITY;
        if (prepare(split) && stages_find_rows(&stages, 0, split->ideals - 1)) {
            const double *row = best + ((size_t)ideals - 1) * split->length;
            const size_t entry = least_entry(row, split->length);
            *cost = row[entry];
            if (isfinite(*cost))
                stages_trace(&stages, 0, split->ideals - 1, entry, (struct numbers){0, devices->accelerators},
                             device, replicas);
        }
        *pairs = split->pairs;
    }
    arena_free(&split->arena);
    return status;
}
