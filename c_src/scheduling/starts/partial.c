/* The same steps in the same arithmetic as in `simulate.c`, so that times are equal. */
#include "scheduling/starts/partial.h"

#include "common/heap.h"

static inline bool comes_first(struct coming a, struct coming b) {
    return a.time < b.time || (a.time <= b.time && a.number < b.number);
}
HEAP(coming_heap, struct coming, comes_first)

static void push_coming(struct partial *p, double time, int64_t number) {
    struct coming_heap heap = {p->coming, p->head->comings};
    coming_heap_push(&heap, (struct coming){time, number});
    p->head->comings = heap.count;
}

static struct coming pop_coming(struct partial *p) {
    struct coming_heap heap = {p->coming, p->head->comings};
    const struct coming top = coming_heap_pop(&heap);
    p->head->comings = heap.count;
    return top;
}

static void arrives(struct partial *p, const struct setting *s, int64_t e) {
    const int32_t w = s->system->out_head[e];
    if (!s->reserved)
        p->held[p->home[s->units->unit[w]]] += s->weight[e];
    if (--p->pending[w] == 0)
        p->executable[p->head->executables++] = (struct executable){p->head->now, w, 0};
}

/* Let the tensor of edge e join a shared link. */
static void join(struct partial *p, const struct setting *s, int64_t e, int32_t link, double bandwidth) {
    const double count = p->passing[link], now = p->head->now;
    p->served[link] = count > 0 ? p->served[link] + (now - p->since[link]) * (bandwidth / count) : 0;
    p->since[link] = now;
    p->passing[link]++;
    p->shared[p->head->shares++] = (struct shared){p->served[link] + s->system->size[e], e, link, 0};
}

/* Let the tensor of edge e depart from device `from`; false if it has no link. */
static bool depart(struct partial *p, const struct setting *s, int64_t e, int32_t from) {
    const int32_t w = s->system->out_head[e], to = p->home[s->units->unit[w]];
    const double size = s->system->size[e];
    if (!p->touched[w])
        p->reader[p->head->readers++] = w;
    p->touched[w] = true;
    if (s->reserved)
        p->held[to] += s->weight[e];
    if (from == to || size <= 0) {
        arrives(p, s, e);
        return true;
    }
    const int32_t link = from * s->system->devices + to;
    const double bandwidth = s->system->bandwidth[link];
    if (bandwidth <= 0)
        return false;
    double time = p->head->now;
    if (s->system->links == SHARD_SHARE) {
        join(p, s, e, link, bandwidth);
        return true;
    }
    if (s->system->links == SHARD_QUEUE && p->since[link] > time)
        time = p->since[link];
    time += size / bandwidth;
    if (s->system->links == SHARD_QUEUE)
        p->since[link] = time;
    push_coming(p, time, s->system->nodes + e);
    return true;
}

static enum progress send(struct partial *p, const struct setting *s) {
    struct partial_head *head = p->head;
    const int32_t from = p->home[s->units->unit[head->sender]];
    for (; head->next < s->system->out_start[head->sender + 1]; head->next++) {
        if (p->home[s->units->unit[s->system->out_head[head->next]]] < 0)
            return NEEDS_HOME;
        if (!depart(p, s, head->next, from))
            return WITHOUT_LINK;
    }
    head->sender = -1;
    return SETTLED;
}

static void finishes(struct partial *p, const struct setting *s, int32_t v) {
    const int32_t d = p->home[s->units->unit[v]];
    p->running[d] = -1;
    p->free_at[d] = p->head->now;
    p->pending[v] = -1;
    if (s->reserved)
        p->held[d] -= s->read[v];
    p->head->sender = v;
    p->head->next = s->system->out_start[v];
}

/* The next arrival over shared links, at `at` in `shared`; infinite if there is none. */
static double next_shared(const struct partial *p, const struct setting *s, int64_t *at) {
    double soonest = INFINITY;
    for (int64_t i = 0; i < p->head->shares; i++) {
        const int32_t link = p->shared[i].link;
        const double left = fmax(0, p->shared[i].through - p->served[link]);
        const double time = p->since[link] + left / (s->system->bandwidth[link] / p->passing[link]);
        if (time < soonest) {
            soonest = time;
            *at = i;
        }
    }
    return soonest;
}

/* Let the tensor at a place of `shared` arrive, and those of its link that end with it. */
static void leave(struct partial *p, const struct setting *s, int64_t at) {
    const struct shared first = p->shared[at];
    p->served[first.link] = first.through;
    p->since[first.link] = p->head->now;
    for (int64_t i = 0; i < p->head->shares;) {
        const struct shared it = p->shared[i];
        if (it.link == first.link && it.through <= first.through) {
            p->shared[i] = p->shared[--p->head->shares];
            p->passing[it.link]--;
            arrives(p, s, it.edge);
        } else {
            i++;
        }
    }
}

double partial_next(const struct partial *p, const struct setting *s) {
    int64_t at;
    const double soonest = next_shared(p, s, &at);
    return p->head->comings > 0 ? fmin(soonest, p->coming[0].time) : soonest;
}

enum progress partial_process(struct partial *p, const struct setting *s) {
    for (;;) {
        if (p->head->sender >= 0) {
            const enum progress progress = send(p, s);
            if (progress != SETTLED)
                return progress;
        }
        int64_t at = 0;
        const double arrival = next_shared(p, s, &at);
        const double time = p->head->comings > 0 ? p->coming[0].time : INFINITY;
        if (fmin(time, arrival) > p->head->now)
            return SETTLED;
        if (arrival < time) {
            leave(p, s, at);
        } else {
            const struct coming first = pop_coming(p);
            if (first.number < s->system->nodes)
                finishes(p, s, (int32_t)first.number);
            else
                arrives(p, s, first.number - s->system->nodes);
        }
    }
}

void partial_start(struct partial *p, const struct setting *s, int32_t v, int32_t d) {
    int64_t i = 0;
    while (p->executable[i].vertex != v)
        i++;
    p->executable[i] = p->executable[--p->head->executables];
    for (i = 0; p->touched[v] && p->reader[i] != v;)
        i++;
    if (p->touched[v])
        p->reader[i] = p->reader[--p->head->readers];
    p->home[s->units->unit[v]] = d;
    p->running[d] = v;
    p->head->started++;
    if (!s->reserved)
        p->held[d] -= s->read[v];
    push_coming(p, p->head->now + s->system->complexity[v] / s->system->speed[d], v);
}

void partial_reset(struct partial *p, const struct setting *s) {
    const struct shard_system *system = s->system;
    memset(p->head, 0, p->fixed);
    p->head->sender = -1;
    for (int32_t d = 0; d < system->devices; d++)
        p->running[d] = -1;
    for (int32_t v = 0; v < system->nodes; v++) {
        p->home[s->units->unit[v]] = -1;
        p->pending[v] = (int32_t)(s->units->in_start[v + 1] - s->units->in_start[v]);
        if (p->pending[v] == 0)
            p->executable[p->head->executables++] = (struct executable){0, v, 0};
    }
}

static double least_step(const struct shard_system *system) {
    double speed = 0, bandwidth = 0, step = INFINITY;
    for (int32_t d = 0; d < system->devices; d++) {
        speed = fmax(speed, system->speed[d]);
        for (int32_t other = 0; other < system->devices; other++)
            if (other != d)
                bandwidth = fmax(bandwidth, system->bandwidth[d * system->devices + other]);
    }
    for (int32_t v = 0; v < system->nodes; v++)
        step = fmin(step, system->complexity[v] / speed);
    for (int64_t e = 0; e < system->out_start[system->nodes] && bandwidth > 0; e++)
        if (system->size[e] > 0)
            step = fmin(step, system->size[e] / bandwidth);
    return step;
}

void setting_allocate(struct setting *s, struct arena *arena, const struct shard_system *system,
                      const struct shard_units *units, bool reserved, const double *weight,
                      const double *limit) {
    int64_t *next; /* input of each vertex */
    *s = (struct setting){.system = system, .units = units, .reserved = reserved};
    s->weight = weight;
    s->limit = limit;
    s->step = least_step(system);
    ARENA_ZEROS(arena, system->nodes, s->read, s->made);
    ARENA_ARRAYS(arena, system->nodes, next);
    ARENA_ARRAYS(arena, system->out_start[system->nodes], s->edge_of);
    if (arena->failed)
        return;
    memcpy(next, units->in_start, (size_t)system->nodes * sizeof *next);
    for (int32_t v = 0; v < system->nodes; v++) {
        for (int64_t e = system->out_start[v]; e < system->out_start[v + 1]; e++) {
            s->edge_of[next[system->out_head[e]]++] = e;
            s->made[v] += weight[e];
            s->read[system->out_head[e]] += weight[e];
        }
    }
}

/* The address of an array of a block, which grows by it; all sizes are padded to that of a double. */
static void *place(char *block, size_t *used, size_t count, size_t size) {
    void *array = block ? block + *used : NULL;
    *used += (count * size + sizeof(double) - 1) / sizeof(double) * sizeof(double);
    return array;
}

/* Lay out the fixed part in a block, or only count its bytes. */
static void lay_out(struct partial *p, const struct setting *s, char *block) {
    const size_t n = (size_t)s->system->nodes, k = (size_t)s->system->devices;
    const size_t links = s->system->links == SHARD_INDEPENDENT ? 0 : k * k;
    size_t used = 0;
    p->head = place(block, &used, 1, sizeof *p->head);
    p->held = place(block, &used, k, sizeof *p->held);
    p->free_at = place(block, &used, k, sizeof *p->free_at);
    p->served = place(block, &used, links, sizeof *p->served);
    p->since = place(block, &used, links, sizeof *p->since);
    p->running = place(block, &used, k, sizeof *p->running);
    p->passing = place(block, &used, links, sizeof *p->passing);
    p->pending = place(block, &used, n, sizeof *p->pending);
    p->home = place(block, &used, n, sizeof *p->home); /* there are at most n units */
    p->touched = place(block, &used, n, sizeof *p->touched);
    p->fixed = used;
}

void partial_allocate(struct partial *p, struct arena *arena, const struct setting *s) {
    const int64_t n = s->system->nodes, m = s->system->out_start[n];
    lay_out(p, s, NULL);
    double *block;
    ARENA_ZEROS(arena, p->fixed / sizeof *block, block);
    if (block)
        lay_out(p, s, (char *)block);
    ARENA_ARRAYS(arena, m + s->system->devices + 1, p->coming);
    ARENA_ARRAYS(arena, m, p->shared);
    ARENA_ARRAYS(arena, n, p->executable, p->reader);
}

size_t partial_most(const struct partial *p, const struct setting *s) {
    const size_t n = (size_t)s->system->nodes, m = (size_t)s->system->out_start[n];
    return p->fixed + (m + (size_t)s->system->devices + 1) * sizeof *p->coming + m * sizeof *p->shared +
           n * sizeof *p->executable + (n + 1) * sizeof *p->reader;
}

size_t partial_size(const struct partial *p) {
    const struct partial_head *head = p->head;
    const size_t readers = (size_t)head->readers * sizeof *p->reader;
    return p->fixed + (size_t)head->comings * sizeof *p->coming + (size_t)head->shares * sizeof *p->shared +
           (size_t)head->executables * sizeof *p->executable + (readers + 7) / 8 * 8;
}

/* Copy an array to packed bytes, or from them, and return what is behind it. */
static char *copy(char *bytes, void *array, size_t size, bool pack) {
    if (pack)
        memcpy(bytes, array, size);
    else
        memcpy(array, bytes, size);
    return bytes + size;
}

static void copy_all(const struct partial *p, char *bytes, bool pack) {
    const struct partial_head *head = p->head;
    bytes = copy(bytes, p->head, p->fixed, pack);
    bytes = copy(bytes, p->coming, (size_t)head->comings * sizeof *p->coming, pack);
    bytes = copy(bytes, p->shared, (size_t)head->shares * sizeof *p->shared, pack);
    bytes = copy(bytes, p->executable, (size_t)head->executables * sizeof *p->executable, pack);
    copy(bytes, p->reader, (size_t)head->readers * sizeof *p->reader, pack);
}

void partial_pack(const struct partial *p, char *bytes) {
    copy_all(p, bytes, true);
}

void partial_unpack(struct partial *p, const char *bytes) {
    copy_all(p, (char *)(uintptr_t)bytes, false);
}
