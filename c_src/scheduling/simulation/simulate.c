/* A heap holds the events; each device has a heap of its executable vertices, in its part of one array. The
 * run time of large graphs is mostly memory latency: what an event reads is fetched before it (`fetch.h`). */
#include "scheduling/simulation/fetch.h"

/* Mark device d to be checked at the end of the moment. */
static void mark_device(struct run *run, int32_t d) {
    struct simulation *s = run->s;
    if (s->listed[d])
        return;
    s->listed[d] = true;
    s->marked[run->marked++] = d;
}

/* The turn of vertex v, which becomes executable now. */
static uint64_t next_turn(struct run *run, int32_t v) {
    run->moments += run->now > run->since;
    run->since = run->now;
    return turn_of(run->moments, run->policy->rank[v]);
}

/* The entry of a vertex whose inputs have arrived. */
static struct entry describe(const struct run *run, int32_t v) {
    const struct simulation *s = run->s;
    const struct vertex *vertex = s->vertex + v;
    const double duration = s->system.complexity[v] / s->system.speed[vertex->device];
    return (struct entry){vertex->latest, duration, s->system.out_start[v], v};
}

static void make_executable(struct run *run, int32_t v) {
    struct simulation *s = run->s;
    const struct shard_policy *policy = run->policy;
    const int32_t d = s->vertex[v].device;
    mark_device(run, d);
    if (policy->rule == SHARD_IN_ORDER)
        return; /* it needs `pending` only */
    const uint64_t turn = next_turn(run, v);
    const int32_t number = enter(&s->table, describe(run, v));
    if (run->msr)
        msr_queue_add(run->msr, d, turn, number);
    else
        ready_heap_push(s->waiting + d, (struct ready){policy->priority[v], turn, number});
}

static double next_end(const struct transfer_link *link) {
    double left = link->passing.item[0].through - link->served;
    if (left < 0)
        left = 0;
    return link->since + left / (link->bandwidth / (double)link->passing.count);
}

static void schedule_end(struct run *run, int32_t number) {
    struct simulation *s = run->s;
    const struct transfer_link *link = s->links + number;
    event_heap_push(&s->events, (struct event){next_end(link), -1 - (int64_t)number, link->change});
}

static void join_link(struct run *run, int64_t e, double time) {
    struct simulation *s = run->s;
    struct transfer_link *link = s->links + s->link_of[e];
    if (time < link->since)
        time = link->since; /* within a moment */
    const double count = (double)link->passing.count;
    link->served = count > 0 ? link->served + (time - link->since) * (link->bandwidth / count) : 0;
    link->since = time;
    passing_heap_push(&link->passing, (struct passing){link->served + s->system.size[e], e});
    link->change++;
    schedule_end(run, s->link_of[e]);
}

/* Let the tensor of edge e arrive at a time, now or later. */
static inline void arrives(struct run *run, int64_t e, double time) {
    struct simulation *s = run->s;
    const int32_t v = s->system.out_head[e];
    struct vertex *vertex = s->vertex + v;
    if (run->arrival)
        run->arrival[e] = time;
    if (time > vertex->latest)
        vertex->latest = time;
    if (--vertex->pending > 0)
        return;
    if (vertex->latest <= run->until) {
        make_executable(run, v);
        return;
    }
    event_heap_push(&s->events, (struct event){vertex->latest, (int64_t)s->system.nodes + v, 0});
    if (run->fetches)
        fetch_vertex(run, v);
}

/* Let the next tensor of a link arrive, and those that end at the same time. */
static void leave_link(struct run *run, int32_t number, double time) {
    struct simulation *s = run->s;
    struct transfer_link *link = s->links + number;
    struct passing_heap *passing = &link->passing;
    link->served = passing->item[0].through;
    link->since = time;
    link->change++;
    while (passing->count > 0 && passing->item[0].through <= link->served)
        arrives(run, passing_heap_pop(passing).edge, time);
    if (passing->count > 0)
        schedule_end(run, number);
}

/* Let the tensor of edge e depart from device `from`. Unless it shares a link, its arrival is known now. */
static void send(struct run *run, int64_t e, int32_t from, double time) {
    struct simulation *s = run->s;
    const int32_t to = s->vertex[s->system.out_head[e]].device;
    if (from != to && s->system.size[e] > 0) {
        const double bandwidth = s->system.bandwidth[(size_t)from * (size_t)s->system.devices + (size_t)to];
        if (bandwidth <= 0) {
            if (run->arrival)
                run->arrival[e] = INFINITY;
            return;
        }
        if (s->system.links == SHARD_SHARE) {
            join_link(run, e, time);
            return;
        }
        if (s->system.links == SHARD_QUEUE) {
            struct transfer_link *link = s->links + s->link_of[e];
            if (link->since > time)
                time = link->since;
            time += s->system.size[e] / bandwidth;
            link->since = time;
        } else {
            time += s->system.size[e] / bandwidth;
        }
    }
    arrives(run, e, time);
}

/* The number of the vertex that an idle device starts, unless in order; -1 if there is none. */
static int32_t choose(const struct run *run, int32_t d) {
    if (run->msr)
        return msr_queue_choose(run->msr, d, run->s->idle);
    const struct ready_heap *waiting = run->s->waiting + d;
    return waiting->count > 0 ? waiting->item[0].number : -1;
}

/* Take the vertex that an idle device starts; false if there is none. */
static bool take(struct run *run, int32_t d, struct entry *entry) {
    struct simulation *s = run->s;
    if (run->policy->rule == SHARD_IN_ORDER) {
        if (s->next[d] == s->first[d + 1])
            return false;
        const int32_t v = run->policy->order[s->next[d]];
        if (s->vertex[v].pending > 0 || s->vertex[v].latest > run->until)
            return false;
        s->next[d]++;
        *entry = describe(run, v);
        return true;
    }
    const int32_t number = choose(run, d);
    if (number < 0)
        return false;
    if (run->fetches)
        fetch_start(run, s->table.entry[number].node);
    if (run->msr)
        msr_queue_remove(run->msr, d, number);
    else
        ready_heap_pop(s->waiting + d);
    *entry = leave(&s->table, number);
    return true;
}

static void start_vertex(struct run *run, int32_t d, const struct entry *entry) {
    struct simulation *s = run->s;
    const int32_t v = entry->node;
    remove_device(s->idle, d);
    run->start[v] = entry->latest > s->free_at[d] ? entry->latest : s->free_at[d];
    run->finish[v] = s->free_at[d] = run->start[v] + entry->duration;
    run->sequence[run->started++] = v;
    event_heap_push(&s->events, (struct event){s->free_at[d], v, 0});
    if (run->fetches)
        fetch_outputs(run, v, entry->first);
}

static void start_idle(struct run *run) {
    struct simulation *s = run->s;
    for (int32_t i = 0; i < run->marked; i++) {
        const int32_t d = s->marked[i];
        struct entry entry;
        s->listed[d] = false;
        if (has_device(s->idle, d) && take(run, d, &entry))
            start_vertex(run, d, &entry);
    }
    run->marked = 0;
}

static void end_vertex(struct run *run, int32_t v, double time) {
    struct simulation *s = run->s;
    const int32_t d = s->vertex[v].device;
    add_device(s->idle, d);
    mark_device(run, d);
    if (run->msr)
        msr_queue_finish(run->msr, v, d);
    for (int64_t e = s->system.out_start[v]; e < s->system.out_start[v + 1]; e++)
        send(run, e, d, time);
}

/* Process all events of a moment in order of time; then idle devices start vertices. */
static void next_round(struct run *run) {
    struct simulation *s = run->s;
    const int64_t n = s->system.nodes;
    if (s->events.item[0].time > run->until) {
        run->now = s->events.item[0].time;
        run->until = run->now;
        if (run->policy->rule != SHARD_IN_ORDER)
            run->until *= 1 + s->system.tolerance;
    }
    while (s->events.count > 0 && s->events.item[0].time <= run->until) {
        const struct event event = event_heap_pop(&s->events);
        if (run->fetches)
            fetch_next(run);
        if (event.what >= n)
            make_executable(run, (int32_t)(event.what - n));
        else if (event.what >= 0)
            end_vertex(run, (int32_t)event.what, event.time);
        else if (s->links[-1 - event.what].change == event.change)
            leave_link(run, (int32_t)(-1 - event.what), event.time);
    }
    start_idle(run);
}

/* Number the links that tensors use, and give each its part of `passing`. */
static void number_links(struct simulation *s, const int32_t *device) {
    const struct shard_system *system = &s->system;
    const size_t k = (size_t)system->devices;
    for (int32_t v = 0; v < system->nodes; v++) {
        for (int64_t e = system->out_start[v]; e < system->out_start[v + 1]; e++) {
            const int32_t to = device[system->out_head[e]];
            if (to == device[v])
                continue;
            int32_t *number = s->number + (size_t)device[v] * k + (size_t)to;
            if (*number == 0) {
                const double bandwidth = system->bandwidth[(size_t)device[v] * k + (size_t)to];
                s->links[s->link_count++] = (struct transfer_link){.bandwidth = bandwidth};
                *number = s->link_count;
            }
            s->link_of[e] = *number - 1;
            s->links[*number - 1].carried++;
        }
    }
    struct passing *item = s->passing;
    for (int32_t i = 0; i < s->link_count; i++) {
        s->links[i].passing.item = item;
        item += s->links[i].carried;
    }
}

static void forget_links(struct simulation *s, const int32_t *device) {
    for (int32_t v = 0; v < s->system.nodes; v++)
        for (int64_t e = s->system.out_start[v]; e < s->system.out_start[v + 1]; e++)
            s->number[(size_t)device[v] * (size_t)s->system.devices + (size_t)device[s->system.out_head[e]]] =
                0;
    s->link_count = 0;
}

static void begin(struct run *run) {
    struct simulation *s = run->s;
    const size_t n = (size_t)s->system.nodes;
    const int32_t k = s->system.devices;
    memset(s->idle, 0, (size_t)device_words(k) * sizeof *s->idle);
    memset(s->free_at, 0, (size_t)k * sizeof *s->free_at);
    memset(s->listed, 0, (size_t)k * sizeof *s->listed);
    memset(s->first, 0, ((size_t)k + 1) * sizeof *s->first);
    s->events.count = 0;
    s->table.count = 0;
    s->table.unused = -1;
    for (size_t v = 0; v < n; v++) {
        s->vertex[v] = (struct vertex){0, s->indegree[v], run->device[v]};
        run->start[v] = run->finish[v] = INFINITY;
        s->first[run->device[v] + 1]++;
    }
    for (int32_t d = 0; d < k; d++)
        s->first[d + 1] += s->first[d];
    for (int32_t d = 0; d < k; d++) {
        s->waiting[d] = (struct ready_heap){s->executable + s->first[d], 0};
        add_device(s->idle, d);
    }
    memcpy(s->next, s->first, (size_t)k * sizeof *s->next);
    if (s->system.links != SHARD_INDEPENDENT)
        number_links(s, run->device);
    for (int32_t v = 0; v < s->system.nodes; v++)
        if (s->indegree[v] == 0)
            make_executable(run, v);
    start_idle(run);
}

/* The tensors of vertices that never ran never arrive. */
static void forget_unsent(const struct run *run) {
    const struct shard_system *system = &run->s->system;
    for (int32_t v = 0; v < system->nodes; v++)
        for (int64_t e = system->out_start[v]; isinf(run->start[v]) && e < system->out_start[v + 1]; e++)
            run->arrival[e] = INFINITY;
}

int simulation_run(struct simulation *simulation, const struct shard_policy *policy, const int32_t *device,
                   double *start, double *finish, double *arrival, int32_t *sequence, int32_t *ran) {
    struct arena arena = {0};
    struct run run = {.s = simulation, .policy = policy, .device = device};
    run.start = start;
    run.finish = finish;
    run.arrival = arrival;
    run.sequence = sequence;
    run.fetches = simulation->reach >= LONG_EDGES;
    if (policy->rule == SHARD_BY_SUCCESSORS)
        run.msr = msr_queue_new(&arena, &simulation->system, device, simulation->table.entry, policy->weight,
                                run.fetches);
    const int status = arena_status(&arena);
    if (status == SHARD_OK) {
        begin(&run);
        while (simulation->events.count > 0)
            next_round(&run);
        *ran = run.started;
        if (run.started < simulation->system.nodes && arrival)
            forget_unsent(&run);
        if (simulation->system.links != SHARD_INDEPENDENT)
            forget_links(simulation, device);
    }
    arena_free(&arena);
    return status;
}

static void measure_edges(struct simulation *s) {
    const struct shard_system *system = &s->system;
    const int64_t m = system->out_start[system->nodes];
    int64_t sum = 0;
    for (int32_t v = 0; v < system->nodes; v++) {
        for (int64_t e = system->out_start[v]; e < system->out_start[v + 1]; e++) {
            s->indegree[system->out_head[e]]++;
            sum += llabs((int64_t)system->out_head[e] - v);
        }
    }
    s->reach = m > 0 ? (double)sum / (double)m : 0;
}

struct simulation *simulation_new(struct arena *arena, const struct shard_system *system) {
    const int64_t n = system->nodes, k = system->devices, m = system->out_start[n];
    const int64_t linked = system->links != SHARD_INDEPENDENT;
    struct simulation *s;
    if (!ARENA_ZEROS(arena, 1, s))
        return NULL;
    s->system = *system;
    ARENA_ARRAYS(arena, 2 * n + linked * 2 * m, s->events.item);
    ARENA_ARRAYS(arena, n, s->vertex, s->table.entry, s->executable);
    ARENA_ZEROS(arena, n, s->indegree);
    ARENA_ARRAYS(arena, k + 1, s->first);
    ARENA_ARRAYS(arena, k, s->waiting, s->next, s->marked, s->free_at, s->listed);
    ARENA_ARRAYS(arena, device_words(system->devices), s->idle);
    ARENA_ZEROS(arena, linked * k * k, s->number);
    ARENA_ARRAYS(arena, linked * (m < k * k ? m : k * k), s->links);
    ARENA_ARRAYS(arena, linked * m, s->passing, s->link_of);
    if (!arena->failed)
        measure_edges(s);
    return s;
}

int shard_simulate(const struct shard_system *system, const struct shard_policy *policy,
                   const int32_t *device, double *start, double *finish, double *arrival, int32_t *sequence,
                   int32_t *ran) {
    struct arena arena = {0};
    struct simulation *simulation = simulation_new(&arena, system);
    int status = arena_status(&arena);
    if (status == SHARD_OK)
        status = simulation_run(simulation, policy, device, start, finish, arrival, sequence, ran);
    arena_free(&arena);
    return status;
}
