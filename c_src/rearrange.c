/* A move, a simulation, and the move taken back if it is refused. */
#include "rearrange.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"

struct search {
    const struct shard_system *system;
    const struct shard_groups *groups;
    struct simulation *simulation;
    struct random random;
    int32_t *device;
    double *priority;
    double makespan;
    double *start;
    double *finish;
    double *arrival;
    int32_t *sequence;
    int32_t *rank;
    int32_t *before;   /* what the device of a vertex ran just before it, or -1 */
    int32_t *last;     /* of each device: the vertex looked at last */
    int32_t *critical; /* vertices that would end the whole later if they ended later */
    int32_t critical_count;
    int64_t *edge_at; /* of each input, in the order of `in_tail`: its place in the order by tail */
    int64_t *member_start;
    int32_t *member;
    double *used;
};

/* What a move changed. */
struct change {
    int32_t unit; /* -1: priorities */
    int32_t from;
    int32_t a;
    int32_t b;
};

static double simulate(struct search *s) {
    const struct shard_choice choice = {SHARD_BY_PRIORITY, s->rank, s->priority, s->rank, {0}};
    int32_t ran = 0;
    simulation_run(s->simulation, &choice, s->device, s->start, s->finish, s->arrival, s->sequence, &ran);
    if (ran < s->system->nodes)
        return INFINITY;
    double makespan = 0;
    for (int32_t v = 0; v < ran; v++)
        if (s->finish[v] > makespan)
            makespan = s->finish[v];
    return makespan;
}

/* The input that a vertex has waited for to its very start, or -1. */
static int32_t awaited(const struct search *s, int32_t v) {
    for (int64_t i = s->groups->in_start[v]; i < s->groups->in_start[v + 1]; i++)
        if (s->arrival[s->edge_at[i]] >= s->start[v])
            return s->groups->in_tail[i];
    return -1;
}

/* Follow what each vertex has waited for, from the last one back to the start. */
static void find_critical(struct search *s) {
    const int32_t n = s->system->nodes;
    memset(s->last, -1, (size_t)s->system->devices * sizeof *s->last);
    int32_t v = -1;
    for (int32_t i = 0; i < n; i++) {
        const int32_t w = s->sequence[i];
        s->before[w] = s->last[s->device[w]];
        s->last[s->device[w]] = w;
        if (v < 0 || s->finish[w] > s->finish[v])
            v = w;
    }
    s->critical_count = 0;
    while (v >= 0 && s->critical_count < n) {
        s->critical[s->critical_count++] = v;
        const int32_t input = awaited(s, v);
        v = input >= 0 ? input : s->before[v];
    }
}

/* A device other than `from` that a unit may use and that has room for it, or -1 if a few tries find none. */
static int32_t other_device(struct search *s, int32_t unit, int32_t from) {
    const struct shard_groups *groups = s->groups;
    const int32_t number = groups->choice[unit];
    const int32_t *list = number < 0 ? NULL : groups->choice_device + groups->choice_start[number];
    const int32_t count = number < 0
                              ? s->system->devices
                              : (int32_t)(groups->choice_start[number + 1] - groups->choice_start[number]);
    for (int tries = 0; tries < 4; tries++) {
        const int32_t at = random_below(&s->random, count);
        const int32_t d = list ? list[at] : at;
        if (d != from && groups->memory[d] - s->used[d] > groups->need[unit])
            return d;
    }
    return -1;
}

/* The device of a neighbour of a vertex, if its group may go there, else any. */
static int32_t near_device(struct search *s, int32_t v, int32_t unit, int32_t from) {
    const struct shard_groups *groups = s->groups;
    const int64_t inputs = groups->in_start[v + 1] - groups->in_start[v];
    const int64_t outputs = s->system->out_start[v + 1] - s->system->out_start[v];
    if (groups->choice[unit] >= 0 || inputs + outputs == 0)
        return other_device(s, unit, from);
    const int64_t at = random_below(&s->random, (int32_t)(inputs + outputs));
    const int32_t w = at < inputs ? groups->in_tail[groups->in_start[v] + at]
                                  : s->system->out_head[s->system->out_start[v] + at - inputs];
    const int32_t d = s->device[w];
    const bool fits = d != from && groups->memory[d] - s->used[d] > groups->need[unit];
    return fits ? d : other_device(s, unit, from);
}

static void put(struct search *s, int32_t unit, int32_t d) {
    const int32_t from = s->device[s->member[s->member_start[unit]]];
    for (int64_t i = s->member_start[unit]; i < s->member_start[unit + 1]; i++)
        s->device[s->member[i]] = d;
    s->used[from] -= s->groups->need[unit];
    s->used[d] += s->groups->need[unit];
}

static void exchange(struct search *s, int32_t a, int32_t b) {
    const double priority = s->priority[a];
    s->priority[a] = s->priority[b];
    s->priority[b] = priority;
}

/* Make a move; whether there was one. */
static bool move(struct search *s, struct change *change) {
    const int32_t v = s->critical[random_below(&s->random, s->critical_count)];
    const int32_t before = s->before[v];
    if (before >= 0 && awaited(s, v) < 0 && random_share(&s->random) < 0.5) {
        *change = (struct change){-1, -1, v, before};
        exchange(s, v, before);
        return true;
    }
    const int32_t unit = s->groups->unit[v];
    const int32_t from = s->device[v];
    const int32_t d =
        random_share(&s->random) < 0.5 ? near_device(s, v, unit, from) : other_device(s, unit, from);
    if (d < 0)
        return false;
    *change = (struct change){unit, from, -1, -1};
    put(s, unit, d);
    return true;
}

static void take_back(struct search *s, const struct change *change) {
    if (change->unit < 0)
        exchange(s, change->a, change->b);
    else
        put(s, change->unit, change->from);
}

static bool accepted(struct search *s, double makespan, double temperature) {
    if (makespan <= s->makespan)
        return true;
    return temperature > 0 && random_share(&s->random) < exp((s->makespan - makespan) / temperature);
}

static void keep(const struct search *s, int32_t *best_device, double *best_priority, double *best_makespan) {
    if (!(s->makespan < *best_makespan))
        return;
    *best_makespan = s->makespan;
    memcpy(best_device, s->device, (size_t)s->system->nodes * sizeof *best_device);
    memcpy(best_priority, s->priority, (size_t)s->system->nodes * sizeof *best_priority);
}

static void prepare(struct search *s) {
    const int32_t n = s->system->nodes;
    int64_t *next = s->member_start; /* for a while: of each vertex, the place of its next input */
    memcpy(next, s->groups->in_start, (size_t)n * sizeof *next);
    for (int32_t v = 0; v < n; v++) {
        s->rank[v] = v;
        for (int64_t e = s->system->out_start[v]; e < s->system->out_start[v + 1]; e++)
            s->edge_at[next[s->system->out_head[e]]++] = e;
    }
    memset(s->member_start, 0, ((size_t)n + 3) * sizeof *s->member_start);
    units_of(n, s->groups->unit, s->member_start, s->member);
    for (int32_t unit = 0; unit < n; unit++)
        if (s->member_start[unit] < s->member_start[unit + 1])
            s->used[s->device[s->member[s->member_start[unit]]]] += s->groups->need[unit];
}

static void run(struct search *s, int64_t moves, double temperature, int32_t *best_device,
                double *best_priority, double *best_makespan) {
    s->makespan = simulate(s);
    keep(s, best_device, best_priority, best_makespan);
    find_critical(s);
    struct change change;
    for (int64_t i = 0; i < moves; i++) {
        if (!move(s, &change))
            continue;
        const double makespan = simulate(s);
        if (accepted(s, makespan, temperature)) {
            s->makespan = makespan;
            keep(s, best_device, best_priority, best_makespan);
            find_critical(s);
        } else {
            take_back(s, &change);
        }
    }
}

static void release(struct search *s) {
    simulation_free(s->simulation);
    free(s->start);
    free(s->finish);
    free(s->arrival);
    free(s->sequence);
    free(s->rank);
    free(s->before);
    free(s->last);
    free(s->critical);
    free(s->edge_at);
    free(s->member_start);
    free(s->member);
    free(s->used);
}

int shard_rearrange(const struct shard_system *system, const struct shard_groups *groups, int64_t moves,
                    double temperature, uint64_t *random, int32_t *device, double *priority, double *makespan,
                    int32_t *best_device, double *best_priority, double *best_makespan) {
    const size_t n = (size_t)system->nodes + 1;
    const size_t m = (size_t)system->out_start[system->nodes] + 1;
    struct search s = {.system = system, .groups = groups, .random = {*random}};
    s.device = device;
    s.priority = priority;
    s.simulation = simulation_new(system);
    s.start = calloc(n, sizeof *s.start);
    s.finish = calloc(n, sizeof *s.finish);
    s.arrival = calloc(m, sizeof *s.arrival);
    s.sequence = calloc(n, sizeof *s.sequence);
    s.rank = calloc(n, sizeof *s.rank);
    s.before = calloc(n, sizeof *s.before);
    s.last = calloc((size_t)system->devices + 1, sizeof *s.last);
    s.critical = calloc(n, sizeof *s.critical);
    s.edge_at = calloc(m, sizeof *s.edge_at);
    s.member_start = calloc(n + 2, sizeof *s.member_start);
    s.member = calloc(n, sizeof *s.member);
    s.used = calloc((size_t)system->devices + 1, sizeof *s.used);
    const bool complete = s.simulation && s.start && s.finish && s.arrival && s.sequence && s.rank &&
                          s.before && s.last && s.critical && s.edge_at && s.member_start && s.member &&
                          s.used;
    if (complete && system->nodes > 0) {
        prepare(&s);
        run(&s, moves, temperature, best_device, best_priority, best_makespan);
        *makespan = s.makespan;
        *random = s.random.state;
    }
    release(&s);
    return complete ? SHARD_OK : SHARD_NO_MEMORY;
}
