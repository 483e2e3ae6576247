/* The part of the graph between any two ideals is split on its own over a cluster and CPUs; a second table has the
 * best chains of such parts. */
#include "placement/ideals/clusters_dp.h"

#include "placement/ideals/stages.h"

/* The devices of a part of the graph. */
enum kind { CPUS_ONLY, EQUAL_CLUSTER, REST_CLUSTER };

/* Origin of an entry of the second table. */
struct part {
    int32_t origin; /* the ideal that the part begins with */
    int32_t kind;   /* of enum kind */
    int32_t entry;  /* of the first table's row of the ideal that the part ends with */
};

/* The caller owns `clusters` and `outer`, the arena of the split the other arrays. */
struct hierarchy {
    struct stages stages;
    const struct shard_clusters *clusters;
    size_t length; /* of a row of the second table: at (f * 2 + p) * (cpus + 1) + a its least greatest load on
                   f equal clusters, the rest if p, and a CPUs; infinite if that is not below the limit */
    double *outer;
    struct part *part; /* like outer */
    int32_t *ends;     /* ideals elements: those at which parts may end */
    int32_t *members;  /* nets elements: nodes in the part */
};

static void hierarchy_allocate(struct hierarchy *hierarchy) {
    struct split *split = &hierarchy->stages.split;
    const size_t entries = (size_t)split->ideals * hierarchy->length;
    stages_allocate(&hierarchy->stages);
    ARENA_ARRAYS(&split->arena, entries, hierarchy->part);
    ARENA_ARRAYS(&split->arena, split->ideals, hierarchy->ends);
    ARENA_ARRAYS(&split->arena, split->devices->nets, hierarchy->members);
    if (split->arena.failed)
        return;
    for (size_t i = 0; i < entries; i++)
        hierarchy->outer[i] = INFINITY;
    hierarchy->outer[0] = 0.0;
}

/* List the ideals at which a part from `ideal` on can end if a cluster does its work; return their number, -1 if
 * stopped. */
static int32_t find_ends(struct hierarchy *hierarchy, int32_t ideal) {
    struct split *split = &hierarchy->stages.split;
    const struct shard_devices *devices = split->devices;
    const double all = split->work[split->ideals - 1];
    const double most = devices->accelerators * split->limit + split->offload[devices->cpus] + SLACK * all +
                        split->work[ideal];
    int32_t count = 0;
    for (struct step *step = first_step(split, ideal);;) {
        if (!next_link(split, step)) {
            if (step-- == split->steps)
                return count;
            if (is_stopped(split->stop))
                return -1;
            continue;
        }
        struct step *next = step + 1;
        next->node = split->up_node[step->link];
        if (split->work[split->up_ideal[step->link]] > most)
            continue;
        step_to(split, step, next);
        hierarchy->ends[count++] = next->ideal;
        step = next;
    }
}

/* Allow the nodes of a part and set the rates of their nets. */
static void enter_part(struct hierarchy *hierarchy, int32_t first, int32_t last) {
    struct stages *stages = &hierarchy->stages;
    const struct split *split = &stages->split;
    const struct shard_devices *devices = split->devices;
    memset(stages->allowed, 0, (size_t)devices->nodes);
    memset(hierarchy->members, 0, (size_t)devices->nets * sizeof *hierarchy->members);
    for (int32_t i = last; i; i = without_last(split, i))
        stages->allowed[last_node(split, i)] = 1;
    for (int32_t i = first; i; i = without_last(split, i))
        stages->allowed[last_node(split, i)] = 0;
    for (int32_t v = 0; v < devices->nodes; v++)
        for (int64_t i = devices->net_start[v]; i < devices->net_start[v + 1]; i++)
            hierarchy->members[devices->net[i]] += stages->allowed[v];
    for (int32_t i = 0; i < devices->nets; i++) {
        const double far = devices->transfer[i] * hierarchy->clusters->slowdown;
        const bool within = hierarchy->members[i] == devices->members[i];
        stages->arriving[i] = stages->allowed[stages->model->maker[i]] ? devices->transfer[i] : far;
        stages->leaving[i] = within ? devices->transfer[i] : far;
    }
}

/* Split a part over the accelerators of a cluster and CPUs; false if stopped. */
static bool split_part(struct hierarchy *hierarchy, int32_t first, int32_t last) {
    struct split *split = &hierarchy->stages.split;
    enter_part(hierarchy, first, last);
    split->target_work = split->work[last];
    split->best[(size_t)first * split->length] = 0.0;
    return stages_find_rows(&hierarchy->stages, first, last);
}

static void clear_part(struct hierarchy *hierarchy, int32_t first, int32_t last) {
    struct split *split = &hierarchy->stages.split;
    for (size_t i = (size_t)first * split->length; i < ((size_t)last + 1) * split->length; i++)
        split->best[i] = INFINITY;
}

/* The entry of the second table after a part on `cpus` CPUs and devices of a kind; -1 if too few are left. */
static int64_t next_entry(const struct hierarchy *hierarchy, size_t entry, int32_t cpus, enum kind kind) {
    const size_t width = (size_t)hierarchy->stages.split.devices->cpus + 1;
    const size_t a = entry % width + (size_t)cpus, p = entry / width % 2 + (kind == REST_CLUSTER);
    const size_t f = entry / width / 2 + (kind == EQUAL_CLUSTER);
    if (a >= width || p > 1 || f > (size_t)hierarchy->clusters->equal)
        return -1;
    return (int64_t)((f * 2 + p) * width + a);
}

/* Append a part to all chains that end where it begins, with the devices of an entry of its row. */
static void relax_part(struct hierarchy *hierarchy, int32_t first, int32_t last, int32_t entry,
                       enum kind kind) {
    const struct split *split = &hierarchy->stages.split;
    const double load = split->best[(size_t)last * split->length + (size_t)entry];
    for (size_t i = 0; i < hierarchy->length; i++) {
        const double before = hierarchy->outer[(size_t)first * hierarchy->length + i];
        const int64_t next = next_entry(hierarchy, i, entry / split->width, kind);
        if (before == INFINITY || next < 0)
            continue;
        const size_t at = (size_t)last * hierarchy->length + (size_t)next;
        if (larger_of(before, load) < hierarchy->outer[at]) {
            hierarchy->outer[at] = larger_of(before, load);
            hierarchy->part[at] = (struct part){first, (int32_t)kind, entry};
        }
    }
}

/* True if some chain to an ideal leaves enough devices for the remaining work. */
static bool is_promising(const struct hierarchy *hierarchy, int32_t ideal) {
    const struct split *split = &hierarchy->stages.split;
    const int32_t size = split->devices->accelerators, cpus = split->devices->cpus;
    const double all = split->work[split->ideals - 1];
    for (size_t i = 0; i < hierarchy->length; i++) {
        const size_t a = i % ((size_t)cpus + 1), p = i / ((size_t)cpus + 1) % 2,
                     f = i / ((size_t)cpus + 1) / 2;
        const double left = (double)((size_t)hierarchy->clusters->equal - f) * size +
                            (p ? 0.0 : (double)hierarchy->clusters->rest);
        const double after = all - split->work[ideal] - split->offload[(size_t)cpus - a] - SLACK * all;
        if (hierarchy->outer[(size_t)ideal * hierarchy->length + i] < INFINITY &&
            (after <= 0.0 || after <= left * split->limit))
            return true;
    }
    return false;
}

/* Fill the second table; false if stopped. */
static bool find_parts(struct hierarchy *hierarchy) {
    struct split *split = &hierarchy->stages.split;
    for (int32_t first = 0; first < split->ideals - 1; first++) {
        const int32_t count = is_promising(hierarchy, first) ? find_ends(hierarchy, first) : 0;
        if (count < 0)
            return false;
        for (int32_t i = 0; i < count; i++) {
            const int32_t last = hierarchy->ends[i];
            if (!split_part(hierarchy, first, last))
                return false;
            for (int32_t entry = 0; entry < (int32_t)split->length; entry++) {
                if (split->best[(size_t)last * split->length + (size_t)entry] == INFINITY)
                    continue;
                const int32_t b = entry % split->width;
                relax_part(hierarchy, first, last, entry, b ? EQUAL_CLUSTER : CPUS_ONLY);
                if (b && b <= hierarchy->clusters->rest)
                    relax_part(hierarchy, first, last, entry, REST_CLUSTER);
            }
            clear_part(hierarchy, first, last);
        }
    }
    return true;
}

/* Trace the best chain of parts back and split each again: a device for each node; false if stopped. */
static bool trace_parts(struct hierarchy *hierarchy, size_t entry, int32_t *device) {
    const struct split *split = &hierarchy->stages.split;
    const int32_t size = split->devices->accelerators, equal = hierarchy->clusters->equal;
    const int32_t cpus = split->devices->cpus + 1;
    for (int32_t ideal = split->ideals - 1; ideal;) {
        const struct part part = hierarchy->part[(size_t)ideal * hierarchy->length + entry];
        const int32_t a = part.entry / split->width;
        int32_t f = (int32_t)entry / cpus / 2, p = (int32_t)entry / cpus % 2;
        f -= part.kind == EQUAL_CLUSTER;
        p -= part.kind == REST_CLUSTER;
        entry = (size_t)((f * 2 + p) * cpus + (int32_t)entry % cpus - a);
        const struct numbers from = {
            (part.kind == REST_CLUSTER ? equal : f) * size,
            equal * size + hierarchy->clusters->rest + (int32_t)entry % cpus,
        };
        if (!split_part(hierarchy, part.origin, ideal))
            return false;
        stages_trace(&hierarchy->stages, part.origin, ideal, (size_t)part.entry, from, device, NULL);
        clear_part(hierarchy, part.origin, ideal);
        ideal = part.origin;
    }
    return true;
}

int shard_clusters_dp(const struct shard_devices *devices, const struct shard_stage_model *model,
                      const struct shard_clusters *clusters, int64_t ideals, const int64_t *link_start,
                      const int32_t *link_node, const int32_t *link_ideal, double limit,
                      const double *offload, const int32_t *stop, double *best, double *outer, double *cost,
                      int32_t *device, int64_t *pairs) {
    struct hierarchy hierarchy = {
        .stages = {.split = split_of(devices, ideals, link_start, link_node, link_ideal, limit, offload, stop,
                                     best),
                   .model = model},
        .clusters = clusters,
        .length = ((size_t)clusters->equal + 1) * 2 * ((size_t)devices->cpus + 1),
        .outer = outer,
    };
    struct split *split = &hierarchy.stages.split;
    hierarchy_allocate(&hierarchy);
    const int status = arena_status(&split->arena);
    if (status == SHARD_OK) {
        *cost = INFINITY;
        if (prepare(split)) {
            clear_part(&hierarchy, 0, 0);
            if (find_parts(&hierarchy)) {
                const double *row = outer + ((size_t)ideals - 1) * hierarchy.length;
                const size_t least = least_entry(row, hierarchy.length);
                if (isfinite(row[least]) && trace_parts(&hierarchy, least, device))
                    *cost = row[least];
            }
        }
        *pairs = split->pairs;
    }
    arena_free(&split->arena);
    return status;
}
