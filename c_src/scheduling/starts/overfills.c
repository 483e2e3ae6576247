/* Every time here is a lower bound, so that what stays until then stays in each schedule. */
#include "scheduling/starts/overfills.h"

/* Vertices in a path that are looked back along. */
enum { DEEPEST = 40 };

void outlook_allocate(struct outlook *o, struct arena *arena, const struct setting *s) {
    const int64_t n = s->system->nodes, m = s->system->out_start[n];
    *o = (struct outlook){0};
    ARENA_ARRAYS(arena, n, o->start, o->finish);
    ARENA_ARRAYS(arena, m, o->arrival);
    ARENA_ARRAYS(arena, s->system->devices, o->busy);
    ARENA_ZEROS(arena, n, o->start_mark, o->finish_mark);
    ARENA_ZEROS(arena, m, o->arrival_mark);
    ARENA_ARRAYS(arena, m + s->system->devices, o->held);
    for (int32_t d = 0; d < s->system->devices; d++)
        o->speed = fmax(o->speed, s->system->speed[d]);
}

/* Note the next moment, and what runs or is under way. */
static void look(struct outlook *o, const struct partial *p, const struct setting *s) {
    o->round++;
    o->next = partial_next(p, s);
    for (int32_t d = 0; d < s->system->devices; d++)
        o->busy[d] = 0;
    for (int64_t i = 0; i < p->head->comings; i++) {
        const struct coming it = p->coming[i];
        if (it.number < s->system->nodes) {
            o->finish[it.number] = o->busy[p->home[s->units->unit[it.number]]] = it.time;
            o->finish_mark[it.number] = o->round;
        } else {
            o->arrival[it.number - s->system->nodes] = it.time;
            o->arrival_mark[it.number - s->system->nodes] = o->round;
        }
    }
    for (int64_t i = 0; i < p->head->shares; i++) {
        o->arrival[p->shared[i].edge] = o->next;
        o->arrival_mark[p->shared[i].edge] = o->round;
    }
}

static double earliest_start(struct outlook *o, const struct partial *p, const struct setting *s, int32_t v,
                             int32_t deep);

/* The earliest arrival of an input, at a place of in_tail, of a vertex on device d, or -1: any. */
static double earliest_arrival(struct outlook *o, const struct partial *p, const struct setting *s, int64_t i,
                               int32_t d, int32_t deep) {
    const int64_t e = s->edge_of[i];
    const int32_t u = s->units->in_tail[i], from = p->home[s->units->unit[u]];
    if (o->arrival_mark[e] == o->round)
        return o->arrival[e];
    if (p->pending[u] < 0)
        return 0;
    double time;
    if (o->finish_mark[u] == o->round)
        time = o->finish[u];
    else
        time = earliest_start(o, p, s, u, deep + 1) +
               s->system->complexity[u] / (from < 0 ? o->speed : s->system->speed[from]);
    if (from < 0 || d < 0 || from == d || s->system->size[e] <= 0)
        return time;
    return time + s->system->size[e] / s->system->bandwidth[from * s->system->devices + d];
}

/* The earliest start of a vertex that has not started. */
static double earliest_start(struct outlook *o, const struct partial *p, const struct setting *s, int32_t v,
                             int32_t deep) {
    if (o->start_mark[v] == o->round)
        return o->start[v];
    const int32_t d = p->home[s->units->unit[v]];
    double time = d < 0 ? o->next : fmax(o->next, o->busy[d]);
    for (int64_t i = s->units->in_start[v]; deep < DEEPEST && i < s->units->in_start[v + 1]; i++)
        time = fmax(time, earliest_arrival(o, p, s, i, d, deep));
    o->start_mark[v] = o->round;
    o->start[v] = time;
    return time;
}

/* List the inputs of a reader on device d that are there, or will be at a known time. */
static int64_t list_inputs(struct outlook *o, const struct partial *p, const struct setting *s, int32_t w,
                           int32_t d, int64_t count) {
    double until = earliest_start(o, p, s, w, 0);
    if (s->reserved)
        until += s->system->complexity[w] / s->system->speed[d];
    for (int64_t i = s->units->in_start[w]; i < s->units->in_start[w + 1]; i++) {
        if (p->pending[s->units->in_tail[i]] >= 0)
            continue;
        const int64_t e = s->edge_of[i];
        const bool under_way = !s->reserved && o->arrival_mark[e] == o->round;
        if (under_way && s->system->links == SHARD_SHARE)
            continue; /* others may join it and delay it */
        const double from = under_way ? o->arrival[e] : p->head->now;
        o->held[count++] = (struct held){from, until, s->weight[e]};
    }
    return count;
}

/* True if listed tensors reach a limit just after one of the times from which they are held. */
static bool reaches(const struct held *held, int64_t count, double limit) {
    double all = 0;
    for (int64_t i = 0; i < count; i++)
        all += held[i].size;
    for (int64_t i = 0; i < count && all >= limit; i++) {
        const double time = held[i].from;
        double sum = 0;
        for (int64_t j = 0; j < count; j++)
            if (held[j].from <= time && held[j].until > time + SLACK * held[j].until)
                sum += held[j].size;
        if (sum >= limit)
            return true;
    }
    return false;
}

/* The longest that a tensor from a device takes to where it is held; infinite if nothing is known. */
static double longest_transfer(const struct setting *s, int32_t from, double size) {
    if (s->reserved || size <= 0)
        return 0;
    if (s->system->links != SHARD_INDEPENDENT)
        return INFINITY;
    double longest = 0;
    for (int32_t d = 0; d < s->system->devices; d++)
        if (d != from)
            longest = fmax(longest, size / s->system->bandwidth[from * s->system->devices + d]);
    return longest;
}

/* List the outputs of the vertex that runs on a device, which will be held on some device. */
static int64_t list_outputs(struct outlook *o, const struct partial *p, const struct setting *s, int32_t d,
                            int64_t count) {
    const int32_t v = p->running[d];
    for (int64_t e = s->system->out_start[v]; e < s->system->out_start[v + 1]; e++) {
        const int32_t w = s->system->out_head[e];
        const double from = o->busy[d] + longest_transfer(s, d, s->system->size[e]);
        double until = earliest_start(o, p, s, w, 0);
        if (s->reserved)
            until += s->system->complexity[w] / o->speed;
        if (from < until)
            o->held[count++] = (struct held){from, until, s->weight[e]};
    }
    return count;
}

bool overfills(struct outlook *o, const struct partial *p, const struct setting *s) {
    look(o, p, s);
    double limits = 0;
    int64_t count = 0;
    for (int32_t d = 0; d < s->system->devices; d++) {
        const int64_t first = count;
        limits += s->limit[d];
        for (int64_t i = 0; i < p->head->readers; i++)
            if (p->home[s->units->unit[p->reader[i]]] == d)
                count = list_inputs(o, p, s, p->reader[i], d, count);
        if (s->reserved && p->running[d] >= 0)
            o->held[count++] = (struct held){p->head->now, o->busy[d], s->read[p->running[d]]};
        if (reaches(o->held + first, count - first, s->limit[d]))
            return true;
    }
    for (int32_t d = 0; d < s->system->devices; d++)
        if (p->running[d] >= 0)
            count = list_outputs(o, p, s, d, count);
    return reaches(o->held, count, limits);
}

bool is_stuck(const struct partial *p, const struct setting *s, int32_t d) {
    double held = p->held[d];
    if (p->running[d] >= 0)
        held -= s->read[p->running[d]];
    bool any = false;
    for (int64_t at = 0; at < p->head->readers; at++) {
        const int32_t w = p->reader[at];
        if (p->home[s->units->unit[w]] != d)
            continue;
        double more = 0;
        for (int64_t i = s->units->in_start[w]; i < s->units->in_start[w + 1]; i++)
            if (p->pending[s->units->in_tail[i]] >= 0)
                more += s->weight[s->edge_of[i]];
        if (held + more < s->limit[d])
            return false;
        any = true;
    }
    return any;
}
