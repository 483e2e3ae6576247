/* A heap holds the events; each device has a heap of its executable vertices, in its part of one array. */
#include "scheduling/simulate.h"

#include "scheduling/msr_queue.h"

/* An event: vertex v finishes (v) or becomes executable (nodes + v), or the next tensor of link l is through
 * (-1 - l), unless the link has changed since. */
struct event {
    double time;
    int64_t what, change;
};

static inline bool sooner(struct event a, struct event b) {
    return a.time < b.time || (a.time <= b.time && a.what < b.what);
}
HEAP(event_heap, struct event, sooner)

/* A tensor on a shared link: it arrives once each tensor there has been served `through`. */
struct passing {
    double through;
    int64_t edge;
};

static inline bool served_sooner(struct passing a, struct passing b) {
    return a.through < b.through;
}
HEAP(passing_heap, struct passing, served_sooner)

/* A link that is shared or on which tensors queue. */
struct link {
    double bandwidth;
    double served;               /* size served to each tensor since the link was last empty, up to `since` */
    double since;                /* if tensors queue: when it is free */
    int64_t change;              /* changes of the number of its tensors */
    int32_t carried;             /* tensors that it carries in the run */
    struct passing_heap passing; /* the tensors on it */
};

struct simulation {
    struct shard_system system;
    /* by event */
    struct event_heap events;
    /* by vertex */
    int32_t *pending; /* inputs that have not arrived */
    int32_t *indegree;
    double *latest;           /* the last arrival of an input so far */
    struct ready *executable; /* device d has executable[first[d]] .. */
    /* by device */
    int32_t *first;             /* devices + 1 elements */
    struct ready_heap *waiting; /* its part of `executable` */
    int32_t *next;              /* if in order: the place of its next vertex */
    int32_t *marked;
    bool *busy;
    double *free_at; /* when its last vertex so far finishes */
    bool *listed;    /* it is among those marked */
    /* by link */
    int32_t *number; /* of each pair of devices, plus 1; 0: none yet */
    struct link *links;
    int32_t link_count;
    struct passing *passing;
    /* by edge */
    int32_t *link_of;
};

/* A run under way. */
struct run {
    struct simulation *s;
    const struct shard_policy *policy;
    const int32_t *device;
    struct msr_queue *msr; /* NULL for other rules */
    double *start, *finish, *arrival;
    int32_t *sequence;
    int32_t started, marked;
    double now;   /* when the moment began */
    double until; /* events up to then belong to the moment */
};

/* Mark device d to be checked at the end of the moment. */
static void mark_device(struct run *run, int32_t d) {
    struct simulation *s = run->s;
    if (s->listed[d])
        return;
    s->listed[d] = true;
    s->marked[run->marked++] = d;
}

static void make_executable(struct run *run, int32_t v) {
    struct simulation *s = run->s;
    const struct shard_policy *policy = run->policy;
    const int32_t d = run->device[v];
    mark_device(run, d);
    if (policy->rule == SHARD_BY_PRIORITY)
        ready_heap_push(s->waiting + d, (struct ready){policy->priority[v], run->now, policy->rank[v], v});
    else if (policy->rule == SHARD_BY_SUCCESSORS)
        msr_queue_add(run->msr, v, run->now, policy->rank[v]);
    /* SHARD_IN_ORDER needs `pending` only */
}

static double next_end(const struct link *link) {
    double left = link->passing.item[0].through - link->served;
    if (left < 0)
        left = 0;
    return link->since + left / (link->bandwidth / (double)link->passing.count);
}

static void schedule_end(struct run *run, int32_t number) {
    struct simulation *s = run->s;
    const struct link *link = s->links + number;
    event_heap_push(&s->events, (struct event){next_end(link), -1 - (int64_t)number, link->change});
}

static void join_link(struct run *run, int64_t e, double time) {
    struct simulation *s = run->s;
    struct link *link = s->links + s->link_of[e];
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
    if (run->arrival)
        run->arrival[e] = time;
    if (time > s->latest[v])
        s->latest[v] = time;
    if (--s->pending[v] > 0)
        return;
    if (s->latest[v] > run->until)
        event_heap_push(&s->events, (struct event){s->latest[v], (int64_t)s->system.nodes + v, 0});
    else
        make_executable(run, v);
}

/* Let the next tensor of a link arrive, and those that end at the same time. */
static void leave_link(struct run *run, int32_t number, double time) {
    struct simulation *s = run->s;
    struct link *link = s->links + number;
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
    const int32_t to = run->device[s->system.out_head[e]];
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
            struct link *link = s->links + s->link_of[e];
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

/* The vertex that an idle device starts, or -1. */
static int32_t take(struct run *run, int32_t d) {
    struct simulation *s = run->s;
    if (run->policy->rule == SHARD_IN_ORDER) {
        if (s->next[d] == s->first[d + 1])
            return -1;
        const int32_t v = run->policy->order[s->next[d]];
        if (s->pending[v] > 0 || s->latest[v] > run->until)
            return -1;
        s->next[d]++;
        return v;
    }
    if (run->policy->rule == SHARD_BY_SUCCESSORS)
        return msr_queue_take(run->msr, d, s->busy);
    return s->waiting[d].count == 0 ? -1 : ready_heap_pop(s->waiting + d).number;
}

static void start_idle(struct run *run) {
    struct simulation *s = run->s;
    for (int32_t i = 0; i < run->marked; i++) {
        const int32_t d = s->marked[i];
        s->listed[d] = false;
        const int32_t v = s->busy[d] ? -1 : take(run, d);
        if (v < 0)
            continue;
        s->busy[d] = true;
        run->start[v] = s->latest[v] > s->free_at[d] ? s->latest[v] : s->free_at[d];
        run->finish[v] = s->free_at[d] = run->start[v] + s->system.complexity[v] / s->system.speed[d];
        run->sequence[run->started++] = v;
        event_heap_push(&s->events, (struct event){run->finish[v], v, 0});
    }
    run->marked = 0;
}

static void end_vertex(struct run *run, int32_t v) {
    struct simulation *s = run->s;
    const int32_t d = run->device[v];
    s->busy[d] = false;
    mark_device(run, d);
    if (run->msr)
        msr_queue_finish(run->msr, v);
    for (int64_t e = s->system.out_start[v]; e < s->system.out_start[v + 1]; e++)
        send(run, e, d, run->finish[v]);
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
        if (event.what >= n)
            make_executable(run, (int32_t)(event.what - n));
        else if (event.what >= 0)
            end_vertex(run, (int32_t)event.what);
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
                s->links[s->link_count++] = (struct link){.bandwidth = bandwidth};
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
    memcpy(s->pending, s->indegree, n * sizeof *s->pending);
    memset(s->busy, 0, (size_t)k * sizeof *s->busy);
    memset(s->free_at, 0, (size_t)k * sizeof *s->free_at);
    memset(s->listed, 0, (size_t)k * sizeof *s->listed);
    memset(s->first, 0, ((size_t)k + 1) * sizeof *s->first);
    s->events.count = 0;
    for (size_t v = 0; v < n; v++) {
        s->latest[v] = 0;
        run->start[v] = run->finish[v] = INFINITY;
        s->first[run->device[v] + 1]++;
    }
    for (int32_t d = 0; d < k; d++)
        s->first[d + 1] += s->first[d];
    for (int32_t d = 0; d < k; d++)
        s->waiting[d] = (struct ready_heap){s->executable + s->first[d], 0};
    memcpy(s->next, s->first, (size_t)k * sizeof *s->next);
    if (s->system.links != SHARD_INDEPENDENT)
        number_links(s, run->device);
    for (int32_t v = 0; v < s->system.nodes; v++)
        if (s->pending[v] == 0)
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
    struct run run = {simulation, policy, device, NULL, start, finish, arrival, sequence, 0, 0, 0.0, 0.0};
    if (policy->rule == SHARD_BY_SUCCESSORS)
        run.msr = msr_queue_new(&arena, &simulation->system, device, policy->weight);
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

struct simulation *simulation_new(struct arena *arena, const struct shard_system *system) {
    const int64_t n = system->nodes, k = system->devices, m = system->out_start[n];
    const int64_t linked = system->links != SHARD_INDEPENDENT;
    struct simulation *s;
    if (!ARENA_ZEROS(arena, 1, s))
        return NULL;
    s->system = *system;
    ARENA_ARRAYS(arena, 2 * n + linked * 2 * m, s->events.item);
    ARENA_ARRAYS(arena, n, s->pending, s->latest, s->executable);
    ARENA_ZEROS(arena, n, s->indegree);
    ARENA_ARRAYS(arena, k + 1, s->first);
    ARENA_ARRAYS(arena, k, s->waiting, s->next, s->marked, s->busy, s->free_at, s->listed);
    ARENA_ZEROS(arena, linked * k * k, s->number);
    ARENA_ARRAYS(arena, linked * (m < k * k ? m : k * k), s->links);
    ARENA_ARRAYS(arena, linked * m, s->passing, s->link_of);
    for (int64_t e = 0; e < m && !arena->failed; e++)
        s->indegree[system->out_head[e]]++;
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
