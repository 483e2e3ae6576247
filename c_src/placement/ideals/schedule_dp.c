/* A label per Pareto-optimal schedule of each ideal: accelerators used, and the ends of the nodes with
 * successors outside the ideal. The last tasks of schedules are found by removing nodes in descending
 * order. */
#include "placement/ideals/schedule_dp.h"

#include "common/arena.h"
#include "common/stop.h"

/* A schedule of an ideal. */
struct label {
    int64_t before; /* the label of the ideal without the last task */
    int64_t times;  /* place of its times */
    int32_t ideal;
    int32_t used; /* accelerators */
    bool on_cpu;  /* the last task */
};

/* Labels and their times: the end of each border node of the ideal, then the end of all its nodes. */
struct store {
    struct label *label;
    double *time;
    int64_t labels, times, label_room, time_room, most;
};

/* A step of a walk: the set is the current ideal without `ideal`. */
struct step {
    int64_t link; /* of `ideal`, the last one followed */
    int32_t ideal;
    int32_t node;    /* taken last; only smaller ones follow */
    int32_t partial; /* units of which the set has some nodes, but not all */
    bool sink;       /* some node of the set has no successor */
    double time, size;
    double out; /* for tensors */
};

struct chain {
    struct arena arena;
    const struct shard_dag *dag;
    const struct shard_tasks *tasks;
    int32_t ideals;
    const int64_t *link_start;
    const int32_t *link_node, *link_ideal;
    double limit;
    const int32_t *stop;
    struct store store;
    int64_t *first;  /* ideals + 1 elements: labels of each ideal */
    int64_t *edge;   /* ideals + 1 elements: border of ideal i is border[edge[i] ..] */
    int32_t *border; /* border nodes: nodes of an ideal with successors outside */
    int64_t border_room;
    /* Of the current ideal: */
    uint8_t *inside;  /* nodes elements */
    int32_t *missing; /* units elements: nodes that are not in it */
    double *ahead;    /* nodes elements: least time from the end of a border node to the end of all */
    /* Of the set: */
    uint8_t *taken;     /* nodes elements */
    int32_t *waits;     /* nodes elements: edges from each node into it */
    int32_t *reads;     /* tensors elements: nodes of it that read each */
    int32_t *held;      /* units elements: nodes of it */
    struct step *steps; /* nodes + 1 elements */
    int32_t *place;     /* nodes elements: index of a node in the times of the ideal below */
    int32_t *from;      /* nodes elements: index that each time of a new label comes from, -1: new task */
    int32_t *wait;      /* nodes elements: indices of the times that the new task waits for */
    double *fresh;      /* nodes + 1 elements: times of a new label */
};

static void chain_free(struct chain *chain) {
    free(chain->store.label);
    free(chain->store.time);
    free(chain->border);
    arena_free(&chain->arena);
}

static int chain_allocate(struct chain *chain) {
    const int64_t n = chain->dag->nodes, units = chain->tasks->units, ideals = chain->ideals;
    struct arena *arena = &chain->arena;
    ARENA_ARRAYS(arena, ideals + 1, chain->first, chain->edge);
    ARENA_ARRAYS(arena, n, chain->inside, chain->ahead, chain->place, chain->from, chain->wait);
    ARENA_ARRAYS(arena, units, chain->missing);
    ARENA_ZEROS(arena, n, chain->taken, chain->waits);
    ARENA_ZEROS(arena, chain->tasks->tensors, chain->reads);
    ARENA_ZEROS(arena, units, chain->held);
    ARENA_ARRAYS(arena, n + 1, chain->steps, chain->fresh);
    return arena_status(arena);
}

/* Make room for `more` elements; false if there is no memory or more than `most` bytes are needed. */
static bool reserve(void **array, int64_t *room, int64_t used, int64_t more, size_t size, int64_t most) {
    if (used + more <= *room)
        return true;
    const int64_t wanted = 2 * *room + more + 1024;
    void *moved =
        (double)wanted * (double)size <= (double)most ? realloc(*array, (size_t)wanted * size) : NULL;
    if (!moved)
        return false;
    *array = moved;
    *room = wanted;
    return true;
}

/* Set the current ideal; false if there is no memory. */
static bool enter_ideal(struct chain *chain, int32_t ideal) {
    const struct shard_dag *dag = chain->dag;
    const struct shard_tasks *tasks = chain->tasks;
    memset(chain->inside, 0, (size_t)dag->nodes);
    memcpy(chain->missing, tasks->members, (size_t)tasks->units * sizeof *chain->missing);
    for (int32_t i = ideal; i; i = chain->link_ideal[chain->link_start[i + 1] - 1]) {
        const int32_t v = chain->link_node[chain->link_start[i + 1] - 1];
        chain->inside[v] = 1;
        chain->missing[tasks->unit[v]]--;
    }
    int64_t edge = chain->edge[ideal];
    void *border = chain->border;
    if (!reserve(&border, &chain->border_room, edge, dag->nodes, sizeof *chain->border, chain->store.most))
        return false;
    chain->border = border;
    for (int32_t v = 0; v < dag->nodes; v++) {
        bool waited = false;
        chain->ahead[v] = 0.0;
        for (int64_t i = dag->out_start[v]; chain->inside[v] && i < dag->out_start[v + 1]; i++) {
            const int32_t w = dag->out_head[i];
            if (chain->inside[w])
                continue;
            waited = true;
            if (tasks->tail[w] > chain->ahead[v])
                chain->ahead[v] = tasks->tail[w];
        }
        if (waited)
            chain->border[edge++] = v;
    }
    chain->edge[ideal + 1] = edge;
    return true;
}

/* Keep a label with the fresh times unless another dominates it; false if there is no memory. */
static bool keep(struct chain *chain, int32_t ideal, int32_t width, struct label fresh) {
    struct store *store = &chain->store;
    for (int64_t i = chain->first[ideal]; i < store->labels; i++) {
        struct label *known = &store->label[i];
        const double *time = store->time + known->times;
        bool no_worse = known->used <= fresh.used, no_better = known->used >= fresh.used;
        for (int32_t j = 0; (no_worse || no_better) && j < width; j++) {
            no_worse = no_worse && time[j] <= chain->fresh[j];
            no_better = no_better && time[j] >= chain->fresh[j];
        }
        if (no_worse)
            return true;
        if (no_better) { /* dominated: the last label takes its place */
            const struct label last = store->label[--store->labels];
            memmove(store->time + known->times, store->time + last.times,
                    (size_t)width * sizeof *store->time);
            const int64_t times = known->times;
            *known = last;
            known->times = times;
            store->times -= width;
            i--;
        }
    }
    void *label = store->label, *time = store->time;
    const bool fits =
        reserve(&label, &store->label_room, store->labels, 1, sizeof *store->label, store->most);
    store->label = label;
    const bool fit = reserve(&time, &store->time_room, store->times, width, sizeof *store->time, store->most);
    store->time = time;
    if (!fits || !fit)
        return false;
    memcpy(store->time + store->times, chain->fresh, (size_t)width * sizeof *store->time);
    fresh.times = store->times;
    store->label[store->labels++] = fresh;
    store->times += width;
    return true;
}

/* Append a task to all schedules of the ideal below; false if there is no memory. */
static bool extend(struct chain *chain, int32_t ideal, const struct step *step, double time, bool on_cpu) {
    const struct store *store = &chain->store;
    const int32_t below = step->ideal;
    const int64_t low = chain->edge[below], high = chain->edge[ideal];
    const int32_t old = (int32_t)(chain->edge[below + 1] - low),
                  width = (int32_t)(chain->edge[ideal + 1] - high);
    int32_t waits = 0;
    double after = 0.0;
    for (int32_t j = 0; j < old; j++) {
        const int32_t v = chain->border[low + j];
        chain->place[v] = j;
        if (chain->waits[v])
            chain->wait[waits++] = j;
    }
    for (int32_t j = 0; j < width; j++) {
        const int32_t v = chain->border[high + j];
        chain->from[j] = chain->taken[v] ? -1 : chain->place[v];
        if (chain->taken[v] && chain->ahead[v] > after)
            after = chain->ahead[v];
    }
    for (int64_t i = chain->first[below]; i < chain->first[below + 1]; i++) {
        const struct label *known = &store->label[i];
        const int32_t used = known->used + (!on_cpu && chain->tasks->accelerators >= 0);
        if (used > chain->tasks->accelerators && chain->tasks->accelerators >= 0)
            continue;
        const double *times = store->time + known->times;
        double end = 0.0, latest = 0.0;
        for (int32_t j = 0; j < waits; j++)
            end = times[chain->wait[j]] > end ? times[chain->wait[j]] : end;
        end += time;
        if (end + after >= chain->limit)
            continue;
        for (int32_t j = 0; j < width; j++) {
            chain->fresh[j] = chain->from[j] < 0 ? end : times[chain->from[j]];
            const double least = chain->fresh[j] + chain->ahead[chain->border[high + j]];
            latest = least > latest ? least : latest;
        }
        chain->fresh[width] = step->sink && end > times[old] ? end : times[old];
        if (latest >= chain->limit || chain->fresh[width] >= chain->limit)
            continue;
        if (!keep(chain, ideal, width + 1, (struct label){i, 0, ideal, used, on_cpu}))
            return false;
    }
    return true;
}

/* Add a node to the set. */
static void take(struct chain *chain, int32_t v, struct step *step) {
    const struct shard_dag *dag = chain->dag;
    const struct shard_tasks *tasks = chain->tasks;
    const int32_t unit = tasks->unit[v];
    chain->taken[v] = 1;
    if (!chain->held[unit]++) {
        step->size += tasks->size[unit];
        step->partial++;
    }
    if (chain->held[unit] == tasks->members[unit])
        step->partial--;
    step->time += tasks->accelerator_time[v];
    step->sink = step->sink || dag->out_start[v] == dag->out_start[v + 1];
    for (int64_t i = dag->in_start[v]; i < dag->in_start[v + 1]; i++)
        chain->waits[dag->in_tail[i]]++;
    for (int64_t i = tasks->read_start[v]; i < tasks->read_start[v + 1]; i++)
        chain->reads[tasks->read[i]]++;
    for (int64_t t = tasks->made_start[v]; t < tasks->made_start[v + 1]; t++) {
        bool sent = false;
        for (int64_t i = tasks->reader_start[t]; !sent && i < tasks->reader_start[t + 1]; i++)
            sent = !chain->inside[tasks->reader[i]];
        if (sent)
            step->out += tasks->transfer[t];
    }
}

static void release(struct chain *chain, int32_t v) {
    const struct shard_dag *dag = chain->dag;
    const struct shard_tasks *tasks = chain->tasks;
    chain->taken[v] = 0;
    chain->held[tasks->unit[v]]--;
    for (int64_t i = dag->in_start[v]; i < dag->in_start[v + 1]; i++)
        chain->waits[dag->in_tail[i]]--;
    for (int64_t i = tasks->read_start[v]; i < tasks->read_start[v + 1]; i++)
        chain->reads[tasks->read[i]]--;
}

/* Time to receive the tensors that the set reads, recomputed for every set: subtracting tensors when their makers
 * join would leave the rounding errors of the largest. */
static double time_in(const struct chain *chain, int32_t below) {
    const struct shard_tasks *tasks = chain->tasks;
    double in = 0.0;
    for (int64_t i = chain->edge[below]; i < chain->edge[below + 1]; i++) {
        const int32_t v = chain->border[i];
        for (int64_t t = tasks->made_start[v]; t < tasks->made_start[v + 1]; t++)
            in += chain->reads[t] ? tasks->transfer[t] : 0.0;
    }
    return in;
}

/* True if a set can contain a node of the current ideal. */
static bool may_take(const struct chain *chain, int32_t v) {
    return chain->tasks->accelerators < 0 || !chain->missing[chain->tasks->unit[v]];
}

/* Find the schedules of an ideal whose last task is a set; false if stopped or without memory. */
static bool end_with_sets(struct chain *chain, int32_t ideal, bool *full) {
    struct step *step = chain->steps;
    *step = (struct step){.link = chain->link_start[ideal + 1], .ideal = ideal, .node = INT32_MAX};
    for (;;) {
        if (step->link-- <= chain->link_start[step->ideal]) {
            if (step == chain->steps)
                return true;
            if (is_stopped(chain->stop))
                return false;
            release(chain, step->node);
            step--;
            continue;
        }
        const int32_t v = chain->link_node[step->link];
        if (v > step->node || !may_take(chain, v) || isinf(chain->tasks->accelerator_time[v]))
            continue;
        struct step *next = step + 1;
        *next = *step;
        next->node = v;
        take(chain, v, next);
        if (next->size > chain->tasks->memory || next->time + next->out >= chain->limit) {
            release(chain, v);
            continue;
        }
        next->ideal = chain->link_ideal[step->link];
        next->link = chain->link_start[next->ideal + 1];
        if (chain->tasks->accelerators < 0 || !next->partial) {
            const double time = time_in(chain, next->ideal) + next->time + next->out;
            if (!extend(chain, ideal, next, time, false)) {
                *full = true;
                return false;
            }
        }
        step = next;
    }
}

/* Likewise if the last task is a node on CPUs. */
static bool end_with_nodes(struct chain *chain, int32_t ideal) {
    const struct shard_dag *dag = chain->dag;
    bool room = true;
    for (int64_t link = chain->link_start[ideal]; room && link < chain->link_start[ideal + 1]; link++) {
        const int32_t v = chain->link_node[link];
        if (isinf(chain->tasks->cpu_time[v]))
            continue;
        const struct step step = {.ideal = chain->link_ideal[link],
                                  .sink = dag->out_start[v] == dag->out_start[v + 1]};
        chain->taken[v] = 1;
        for (int64_t i = dag->in_start[v]; i < dag->in_start[v + 1]; i++)
            chain->waits[dag->in_tail[i]]++;
        room = extend(chain, ideal, &step, chain->tasks->cpu_time[v], true);
        for (int64_t i = dag->in_start[v]; i < dag->in_start[v + 1]; i++)
            chain->waits[dag->in_tail[i]]--;
        chain->taken[v] = 0;
    }
    return room;
}

/* Number the sets of a schedule. */
static void trace(const struct chain *chain, int64_t label, int32_t *set) {
    int32_t sets = 0;
    while (chain->store.label[label].ideal) {
        const struct label *last = &chain->store.label[label];
        const int32_t number = last->on_cpu ? -1 : sets++;
        for (int32_t i = last->ideal; i;
             i = chain->link_ideal[chain->link_start[i + 1] - 1]) /* nodes of earlier tasks are overwritten */
            set[chain->link_node[chain->link_start[i + 1] - 1]] = number;
        label = last->before;
    }
}

/* Find all labels; false if there is no memory for them. */
static bool find_labels(struct chain *chain, bool *stopped) {
    for (int32_t ideal = 0; ideal < chain->ideals; ideal++) {
        *stopped = is_stopped(chain->stop);
        if (*stopped)
            return true;
        chain->first[ideal] = chain->store.labels;
        if (!enter_ideal(chain, ideal))
            return false;
        if (ideal) {
            bool full = !end_with_nodes(chain, ideal);
            *stopped = !full && !end_with_sets(chain, ideal, &full) && !full;
            if (full || *stopped)
                return !full;
        } else {
            chain->fresh[0] = 0.0;
            if (!keep(chain, 0, 1, (struct label){-1, 0, 0, 0, true}))
                return false;
        }
        chain->first[ideal + 1] = chain->store.labels;
    }
    return true;
}

int shard_schedule_dp(const struct shard_dag *dag, const struct shard_tasks *tasks, int64_t ideals,
                      const int64_t *link_start, const int32_t *link_node, const int32_t *link_ideal,
                      double limit, int64_t most, const int32_t *stop, double *end, int32_t *set) {
    struct chain chain = {.dag = dag,
                          .tasks = tasks,
                          .ideals = (int32_t)ideals,
                          .link_start = link_start,
                          .link_node = link_node,
                          .link_ideal = link_ideal,
                          .limit = limit,
                          .stop = stop,
                          .store = {.most = most}};
    int status = chain_allocate(&chain);
    bool stopped = false;
    if (!status) {
        chain.edge[0] = 0;
        status = find_labels(&chain, &stopped) ? SHARD_OK : SHARD_NO_MEMORY;
    }
    if (!status) {
        *end = stopped ? NAN : INFINITY;
        int64_t best = -1;
        for (int64_t i = chain.first[ideals - 1]; !stopped && i < chain.first[ideals]; i++) {
            const double time = chain.store.time[chain.store.label[i].times];
            if (time < *end) {
                *end = time;
                best = i;
            }
        }
        if (best >= 0)
            trace(&chain, best, set);
    }
    chain_free(&chain);
    return status;
}
