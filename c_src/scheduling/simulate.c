/* Events in a heap; each device keeps what is executable there in its own part of one array. */
#include "scheduling/simulate.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "scheduling/msr_queue.h"

/* What happens at a time: the next tensor of link l is through (-1 - l), unless the link has changed since;
 * vertex v finishes (v), or becomes executable (nodes + v). */
struct event {
    double time;
    int64_t what;
    int64_t change;
};

/* A tensor on a link that is shared: it is through when each tensor there has been served so much. */
struct passing {
    double through;
    int64_t edge;
};

/* A link that is shared or on which tensors queue. */
struct link {
    double bandwidth;
    double served;   /* size that each tensor has got that has been there since it was empty, up to `since` */
    double since;    /* where tensors queue: when it is free */
    int64_t change;  /* how often the number of its tensors has changed */
    int64_t first;   /* of its places in `passing` */
    int32_t count;   /* of tensors on it */
    int32_t carried; /* of tensors that will ever be on it */
};

struct simulation {
    struct shard_system system;
    /* by event */
    struct event *events;
    int64_t event_count;
    /* by vertex */
    int32_t *missing; /* inputs that are not there yet */
    int32_t *indegree;
    double *latest;           /* the last arrival so far of an input */
    struct ready *executable; /* of device d: first[d] .. first[d] + waiting[d] - 1 */
    /* by device */
    int32_t *first; /* one more */
    int32_t *waiting;
    int32_t *next; /* by order: the place of its next vertex */
    int32_t *touched;
    bool *busy;
    double *free_at; /* when its last vertex so far finishes */
    bool *listed;    /* whether it is among those touched */
    /* by link */
    int32_t *number; /* of each pair of devices, plus 1; 0: not yet */
    struct link *links;
    int32_t link_count;
    struct passing *passing;
    /* by edge */
    int32_t *link_of;
};

/* A run under way. */
struct run {
    struct simulation *s;
    const struct shard_choice *choice;
    const int32_t *device;
    struct successors *successors; /* null by other rules */
    double *start;
    double *finish;
    double *arrival;
    int32_t *sequence;
    int32_t started;
    int32_t touched;
    double now;   /* when this moment began */
    double until; /* what happens no later is in it */
};

static bool sooner(struct event a, struct event b) {
    return a.time < b.time || (a.time <= b.time && a.what < b.what);
}

static void push_event(struct simulation *s, double time, int64_t what, int64_t change) {
    const struct event item = {time, what, change};
    int64_t at = s->event_count++;
    while (at > 0) {
        const int64_t parent = (at - 1) / 2;
        if (!sooner(item, s->events[parent]))
            break;
        s->events[at] = s->events[parent];
        at = parent;
    }
    s->events[at] = item;
}

static struct event pop_event(struct simulation *s) {
    const struct event top = s->events[0];
    const int64_t count = --s->event_count;
    const struct event item = s->events[count];
    int64_t at = 0;
    for (int64_t child = 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && sooner(s->events[child + 1], s->events[child]))
            child++;
        if (!sooner(s->events[child], item))
            break;
        s->events[at] = s->events[child];
        at = child;
    }
    s->events[at] = item;
    return top;
}

static void push_ready(struct ready *heap, int32_t count, struct ready item) {
    int32_t at = count;
    while (at > 0) {
        const int32_t parent = (at - 1) / 2;
        if (!runs_before(item, heap[parent]))
            break;
        heap[at] = heap[parent];
        at = parent;
    }
    heap[at] = item;
}

/* Remove the top of a heap of `count` elements, at least one. */
static int32_t pop_ready(struct ready *heap, int32_t count) {
    const int32_t node = heap[0].node;
    const struct ready item = heap[count - 1];
    int32_t at = 0;
    for (int32_t child = 1; child < count - 1; child = 2 * at + 1) {
        if (child + 1 < count - 1 && runs_before(heap[child + 1], heap[child]))
            child++;
        if (!runs_before(heap[child], item))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = item;
    return node;
}

static void push_passing(struct passing *heap, int32_t count, struct passing item) {
    int32_t at = count;
    while (at > 0 && item.through < heap[(at - 1) / 2].through) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = item;
}

static struct passing pop_passing(struct passing *heap, int32_t count) {
    const struct passing top = heap[0];
    const struct passing item = heap[count - 1];
    int32_t at = 0;
    for (int32_t child = 1; child < count - 1; child = 2 * at + 1) {
        if (child + 1 < count - 1 && heap[child + 1].through < heap[child].through)
            child++;
        if (heap[child].through >= item.through)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = item;
    return top;
}

/* Look at device d at the end of this round. */
static void touch(struct run *run, int32_t d) {
    struct simulation *s = run->s;
    if (s->listed[d])
        return;
    s->listed[d] = true;
    s->touched[run->touched++] = d;
}

static void make_executable(struct run *run, int32_t v) {
    struct simulation *s = run->s;
    const struct shard_choice *choice = run->choice;
    const int32_t d = run->device[v];
    touch(run, d);
    if (choice->rule == SHARD_BY_PRIORITY)
        push_ready(s->executable + s->first[d], s->waiting[d]++,
                   (struct ready){choice->priority[v], run->now, choice->rank[v], v});
    else if (choice->rule == SHARD_BY_SUCCESSORS)
        successors_add(run->successors, v, run->now, choice->rank[v]);
    /* in order `missing` says it */
}

static double next_end(const struct link *link, const struct passing *passing) {
    double left = passing[link->first].through - link->served;
    if (left < 0)
        left = 0;
    return link->since + left / (link->bandwidth / link->count);
}

static void expect(struct run *run, int32_t number) {
    struct simulation *s = run->s;
    const struct link *link = s->links + number;
    push_event(s, next_end(link, s->passing), -1 - (int64_t)number, link->change);
}

static void join_link(struct run *run, int64_t e, double time) {
    struct simulation *s = run->s;
    struct link *link = s->links + s->link_of[e];
    if (time < link->since)
        time = link->since; /* within a moment */
    link->served =
        link->count > 0 ? link->served + (time - link->since) * (link->bandwidth / link->count) : 0;
    link->since = time;
    push_passing(s->passing + link->first, link->count++,
                 (struct passing){link->served + s->system.size[e], e});
    link->change++;
    expect(run, s->link_of[e]);
}

/* The tensor of edge e arrives at a time, now or later. */
static inline void arrives(struct run *run, int64_t e, double time) {
    struct simulation *s = run->s;
    const int32_t v = s->system.out_head[e];
    if (run->arrival)
        run->arrival[e] = time;
    if (time > s->latest[v])
        s->latest[v] = time;
    if (--s->missing[v] > 0)
        return;
    if (s->latest[v] > run->until)
        push_event(s, s->latest[v], (int64_t)s->system.nodes + v, 0);
    else
        make_executable(run, v);
}

/* The next tensor of a link arrives, and those that do so with it. */
static void leave_link(struct run *run, int32_t number, double time) {
    struct simulation *s = run->s;
    struct link *link = s->links + number;
    struct passing *heap = s->passing + link->first;
    link->served = heap[0].through;
    link->since = time;
    link->change++;
    while (link->count > 0 && heap[0].through <= link->served)
        arrives(run, pop_passing(heap, link->count--).edge, time);
    if (link->count > 0)
        expect(run, number);
}

/* The tensor of edge e departs from device `from`. Unless it shares a link, its arrival is certain. */
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
    if (run->choice->rule == SHARD_IN_ORDER) {
        if (s->next[d] == s->first[d + 1])
            return -1;
        const int32_t v = run->choice->order[s->next[d]];
        if (s->missing[v] > 0 || s->latest[v] > run->until)
            return -1;
        s->next[d]++;
        return v;
    }
    if (run->choice->rule == SHARD_BY_SUCCESSORS)
        return successors_take(run->successors, d, s->busy);
    return s->waiting[d] == 0 ? -1 : pop_ready(s->executable + s->first[d], s->waiting[d]--);
}

static void start_idle(struct run *run) {
    struct simulation *s = run->s;
    for (int32_t i = 0; i < run->touched; i++) {
        const int32_t d = s->touched[i];
        s->listed[d] = false;
        const int32_t v = s->busy[d] ? -1 : take(run, d);
        if (v < 0)
            continue;
        s->busy[d] = true;
        run->start[v] = s->latest[v] > s->free_at[d] ? s->latest[v] : s->free_at[d];
        run->finish[v] = s->free_at[d] = run->start[v] + s->system.complexity[v] / s->system.speed[d];
        run->sequence[run->started++] = v;
        push_event(s, run->finish[v], v, 0);
    }
    run->touched = 0;
}

static void end_vertex(struct run *run, int32_t v) {
    struct simulation *s = run->s;
    const int32_t d = run->device[v];
    s->busy[d] = false;
    touch(run, d);
    if (run->successors)
        successors_finish(run->successors, v);
    for (int64_t e = s->system.out_start[v]; e < s->system.out_start[v + 1]; e++)
        send(run, e, d, run->finish[v]);
}

/* All that ends in this moment, or in the next one, in the order of time; then idle devices start what they
 * have. */
static void next_round(struct run *run) {
    struct simulation *s = run->s;
    const int64_t n = s->system.nodes;
    if (s->events[0].time > run->until) {
        run->now = s->events[0].time;
        run->until = run->now;
        if (run->choice->rule != SHARD_IN_ORDER)
            run->until *= 1 + s->system.tolerance;
    }
    while (s->event_count > 0 && s->events[0].time <= run->until) {
        const struct event event = pop_event(s);
        if (event.what >= n)
            make_executable(run, (int32_t)(event.what - n));
        else if (event.what >= 0)
            end_vertex(run, (int32_t)event.what);
        else if (s->links[-1 - event.what].change == event.change)
            leave_link(run, (int32_t)(-1 - event.what), event.time);
    }
    start_idle(run);
}

/* Number the links that tensors use, and the place of each tensor on its own. */
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
    int64_t first = 0;
    for (int32_t i = 0; i < s->link_count; i++) {
        s->links[i].first = first;
        first += s->links[i].carried;
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
    memcpy(s->missing, s->indegree, n * sizeof *s->missing);
    memset(s->waiting, 0, (size_t)k * sizeof *s->waiting);
    memset(s->busy, 0, (size_t)k * sizeof *s->busy);
    memset(s->free_at, 0, (size_t)k * sizeof *s->free_at);
    memset(s->listed, 0, (size_t)k * sizeof *s->listed);
    memset(s->first, 0, ((size_t)k + 1) * sizeof *s->first);
    s->event_count = 0;
    for (size_t v = 0; v < n; v++) {
        s->latest[v] = 0;
        run->start[v] = run->finish[v] = INFINITY;
        s->first[run->device[v] + 1]++;
    }
    for (int32_t d = 0; d < k; d++)
        s->first[d + 1] += s->first[d];
    memcpy(s->next, s->first, (size_t)k * sizeof *s->next);
    if (s->system.links != SHARD_INDEPENDENT)
        number_links(s, run->device);
    for (int32_t v = 0; v < s->system.nodes; v++)
        if (s->missing[v] == 0)
            make_executable(run, v);
    start_idle(run);
}

/* What vertices that never ran would have sent never arrives. */
static void forget_unsent(const struct run *run) {
    const struct shard_system *system = &run->s->system;
    for (int32_t v = 0; v < system->nodes; v++)
        for (int64_t e = system->out_start[v]; isinf(run->start[v]) && e < system->out_start[v + 1]; e++)
            run->arrival[e] = INFINITY;
}

int simulation_run(struct simulation *simulation, const struct shard_choice *choice, const int32_t *device,
                   double *start, double *finish, double *arrival, int32_t *sequence, int32_t *ran) {
    struct run run = {simulation, choice, device, NULL, start, finish, arrival, sequence, 0, 0, 0.0, 0.0};
    if (choice->rule == SHARD_BY_SUCCESSORS) {
        run.successors = successors_new(&simulation->system, device, choice->weight);
        if (!run.successors)
            return SHARD_NO_MEMORY;
    }
    begin(&run);
    while (simulation->event_count > 0)
        next_round(&run);
    *ran = run.started;
    if (run.started < simulation->system.nodes && arrival)
        forget_unsent(&run);
    if (simulation->system.links != SHARD_INDEPENDENT)
        forget_links(simulation, device);
    successors_free(run.successors);
    return SHARD_OK;
}

static void *array(size_t count, size_t size) {
    return calloc(count + 1, size); /* never zero bytes */
}

struct simulation *simulation_new(const struct shard_system *system) {
    struct simulation *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    const size_t n = (size_t)system->nodes;
    const size_t k = (size_t)system->devices;
    const size_t m = (size_t)system->out_start[system->nodes];
    const bool numbered = system->links != SHARD_INDEPENDENT;
    s->system = *system;
    s->events = array(2 * n + (numbered ? 2 * m : 0), sizeof *s->events);
    s->missing = array(n, sizeof *s->missing);
    s->indegree = array(n, sizeof *s->indegree);
    s->latest = array(n, sizeof *s->latest);
    s->executable = array(n, sizeof *s->executable);
    s->first = array(k + 1, sizeof *s->first);
    s->waiting = array(k, sizeof *s->waiting);
    s->next = array(k, sizeof *s->next);
    s->touched = array(k, sizeof *s->touched);
    s->busy = array(k, sizeof *s->busy);
    s->free_at = array(k, sizeof *s->free_at);
    s->listed = array(k, sizeof *s->listed);
    s->number = array(numbered ? k * k : 0, sizeof *s->number);
    s->links = array(numbered ? (m < k * k ? m : k * k) : 0, sizeof *s->links);
    s->passing = array(numbered ? m : 0, sizeof *s->passing);
    s->link_of = array(numbered ? m : 0, sizeof *s->link_of);
    const bool complete = s->events && s->missing && s->indegree && s->latest && s->executable && s->first &&
                          s->waiting && s->next && s->touched && s->busy && s->free_at && s->listed &&
                          s->number && s->links && s->passing && s->link_of;
    if (!complete) {
        simulation_free(s);
        return NULL;
    }
    for (size_t e = 0; e < m; e++)
        s->indegree[system->out_head[e]]++;
    return s;
}

void simulation_free(struct simulation *s) {
    if (!s)
        return;
    free(s->events);
    free(s->missing);
    free(s->indegree);
    free(s->latest);
    free(s->executable);
    free(s->first);
    free(s->waiting);
    free(s->next);
    free(s->touched);
    free(s->busy);
    free(s->free_at);
    free(s->listed);
    free(s->number);
    free(s->links);
    free(s->passing);
    free(s->link_of);
    free(s);
}

int shard_simulate(const struct shard_system *system, const struct shard_choice *choice,
                   const int32_t *device, double *start, double *finish, double *arrival, int32_t *sequence,
                   int32_t *ran) {
    struct simulation *simulation = simulation_new(system);
    if (!simulation)
        return SHARD_NO_MEMORY;
    const int status = simulation_run(simulation, choice, device, start, finish, arrival, sequence, ran);
    simulation_free(simulation);
    return status;
}
