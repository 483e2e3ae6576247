/* Latency of placements: a schedule is worked out in one pass over calls and nodes of the pool, in the order
 * of time. */
#include "invoking.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"

/* Moves between two looks at the temperature. */
#define BREATH 64

/* Latencies that differ by less than this, relatively, are equal. */
#define TOLERANCE 1e-9

/* Tries to find a node of an accelerator, and sets of nodes that leave an accelerator that is too full. */
#define TRIES 64
#define EVICTIONS 3

/* Most nodes of the pool that move together, as a power of 2. */
#define LARGEST_GROUP 7

#define POOL (-1)

/* What a move has changed, and what it was before: the call of a node, the owner and the delay of a call, the
 * device of a unit, or whether the passes of an accelerator are mixed. */
enum kind { CALL, OWNER, DEVICE, PASSES };
struct change {
    enum kind kind;
    int32_t of, was;
    double delay;
};

struct invoking {
    const struct shard_workload *load;
    struct shard_invocation *now;
    int32_t *first, *next, *previous; /* the nodes of each call as a list */
    int32_t *count;                   /* calls elements: nodes of each call */
    int32_t *waits;                   /* calls elements: edges into each call */
    int32_t *listed, *place; /* calls elements: all calls, those with nodes first, and where each is */
    int32_t active;          /* calls with nodes */
    double *duration;        /* calls elements */
    int32_t *device;         /* units elements: the accelerator of each, or POOL */
    double *room;            /* accelerators elements: memory left */
    int32_t over, pooled;    /* accelerators with less than none; nodes in the pool */
    bool passes;             /* whether there are two */
    /* of one schedule */
    int32_t *degree, *left,
        *call_left;           /* edges into each node, and those that still wait, also of each call */
    int32_t *source, sources; /* nodes without edges into them */
    double *ready, *call_ready, *free_at;
    int32_t *queue, *heap;
    double *key; /* calls elements: by which the heap is ordered */
    int32_t heaped, queued;
    double *finish; /* nodes elements or NULL: where to write when each node ends, and turns beside it */
    int32_t *turn;
    /* of one move */
    struct change *change;
    int64_t changes, moved;  /* changes; number of the move */
    int32_t *dirty, dirtied; /* calls that the move has changed */
    int64_t *dirty_mark;     /* calls elements: the last move that has changed each */
    double *before;          /* calls elements: duration of each dirty call before the move */
    int64_t *net_mark, *node_mark, stamp;
    int32_t *group, grouped;
    struct random random;
    void *block[32]; /* what is to be freed */
    int32_t blocks;
    bool lacks; /* memory */
};

/* ---------------------------------------------------------------- calls and their nodes */

static inline int32_t owner_of(const struct invoking *at, int32_t call) {
    return call < 0 ? POOL : at->now->owner[call];
}

static void list_call(struct invoking *at, int32_t call, int32_t where) {
    const int32_t other = at->listed[where], there = at->place[call];
    at->listed[there] = other;
    at->place[other] = there;
    at->listed[where] = call;
    at->place[call] = where;
}

static void join(struct invoking *at, int32_t v, int32_t call) {
    at->now->call[v] = call;
    if (call < 0) {
        at->pooled++;
        return;
    }
    if (at->count[call]++ == 0)
        list_call(at, call, at->active++);
    at->next[v] = at->first[call];
    at->previous[v] = -1;
    if (at->first[call] >= 0)
        at->previous[at->first[call]] = v;
    at->first[call] = v;
}

static void part(struct invoking *at, int32_t v) {
    const int32_t call = at->now->call[v];
    if (call < 0) {
        at->pooled--;
        return;
    }
    if (at->next[v] >= 0)
        at->previous[at->next[v]] = at->previous[v];
    if (at->previous[v] >= 0)
        at->next[at->previous[v]] = at->next[v];
    else
        at->first[call] = at->next[v];
    if (--at->count[call] == 0)
        list_call(at, call, --at->active);
}

/* Move a node, and count the edges into the calls that it leaves and joins. */
static void shift(struct invoking *at, int32_t v, int32_t to) {
    const struct shard_workload *load = at->load;
    const int32_t *call = at->now->call, from = call[v];
    for (int64_t i = load->in_start[v]; i < load->in_start[v + 1]; i++) {
        const int32_t other = call[load->in[i]];
        if (from >= 0 && other != from)
            at->waits[from]--;
        if (to >= 0 && other != to)
            at->waits[to]++;
    }
    for (int64_t i = load->out_start[v]; i < load->out_start[v + 1]; i++) {
        const int32_t other = call[load->out[i]];
        if (other >= 0 && other == from)
            at->waits[from]++;
        else if (other >= 0 && other == to)
            at->waits[to]--;
    }
    part(at, v);
    join(at, v, to);
}

static double duration_of(struct invoking *at, int32_t call) {
    const struct shard_workload *load = at->load;
    const int32_t *of = at->now->call;
    double sum = 0.0;
    at->stamp++;
    for (int32_t v = at->first[call]; v >= 0; v = at->next[v]) {
        sum += load->accelerator_time[v];
        for (int64_t net = load->made_start[v]; net < load->made_start[v + 1]; net++) {
            int64_t i = load->reader_start[net];
            while (i < load->reader_start[net + 1] && of[load->reader[i]] == call)
                i++;
            sum += i < load->reader_start[net + 1] ? load->transfer[net] : 0.0;
            at->net_mark[net] = at->stamp;
        }
    }
    for (int32_t v = at->first[call]; v >= 0; v = at->next[v]) {
        for (int64_t i = load->read_start[v]; i < load->read_start[v + 1]; i++) {
            const int32_t net = load->read[i];
            sum += at->net_mark[net] == at->stamp ? 0.0 : load->transfer[net];
            at->net_mark[net] = at->stamp;
        }
    }
    return sum;
}

/* ---------------------------------------------------------------- schedules */

/* Whether a call goes before another; the order must not depend on how they came to wait. */
static inline bool goes_first(const struct invoking *at, int32_t call, int32_t other) {
    return at->key[call] < at->key[other] || (at->key[call] == at->key[other] && call < other);
}

static void push(struct invoking *at, int32_t call) {
    int32_t i = at->heaped++;
    at->key[call] = at->call_ready[call] + at->now->delay[call];
    for (; i > 0 && goes_first(at, call, at->heap[(i - 1) / 2]); i = (i - 1) / 2)
        at->heap[i] = at->heap[(i - 1) / 2];
    at->heap[i] = call;
}

static int32_t pop(struct invoking *at) {
    const int32_t top = at->heap[0], last = at->heap[--at->heaped];
    int32_t i = 0;
    for (int32_t child = 1; child < at->heaped; child = 2 * i + 1) {
        child += child + 1 < at->heaped && goes_first(at, at->heap[child + 1], at->heap[child]);
        if (!goes_first(at, at->heap[child], last))
            break;
        at->heap[i] = at->heap[child];
        i = child;
    }
    at->heap[i] = last;
    return top;
}

/* Tell those that wait for a node that it has ended, unless they will end after a limit. False if so. */
static inline bool release(struct invoking *at, int32_t v, double end, double limit) {
    const struct shard_workload *load = at->load;
    const int32_t *call = at->now->call, own = call[v];
    for (int64_t i = load->out_start[v]; i < load->out_start[v + 1]; i++) {
        const int32_t w = load->out[i], of = call[w];
        if (of < 0) {
            at->ready[w] = end > at->ready[w] ? end : at->ready[w];
            if (--at->left[w] == 0)
                at->queue[at->queued++] = w;
        } else if (of != own) {
            at->call_ready[of] = end > at->call_ready[of] ? end : at->call_ready[of];
            if (--at->call_left[of] == 0)
                push(at, of);
        }
        if (end + load->ahead[w] > limit && (of < 0 || of != own))
            return false;
    }
    return end <= limit;
}

static void begin_schedule(struct invoking *at) {
    const size_t n = (size_t)at->load->nodes;
    memcpy(at->left, at->degree, n * sizeof *at->left);
    memset(at->ready, 0, n * sizeof *at->ready);
    memset(at->free_at, 0, (size_t)at->load->accelerators * sizeof *at->free_at);
    at->heaped = at->queued = 0;
    for (int32_t i = 0; i < at->sources; i++) {
        if (at->now->call[at->source[i]] < 0)
            at->queue[at->queued++] = at->source[i];
    }
    for (int32_t i = 0; i < at->active; i++) {
        const int32_t call = at->listed[i];
        at->call_ready[call] = 0.0;
        at->call_left[call] = at->waits[call];
        if (at->waits[call] == 0)
            push(at, call);
    }
}

static inline void note(struct invoking *at, int32_t v, double end, int32_t turn) {
    if (at->finish) {
        at->finish[v] = end;
        at->turn[v] = turn;
    }
}

/* End a call as soon as its accelerator can; returns when, infinite if all end after a limit then. */
static double run_call(struct invoking *at, int32_t call, double limit, int32_t turn) {
    double *free_at = &at->free_at[at->now->owner[call]];
    const double start = at->call_ready[call] > *free_at ? at->call_ready[call] : *free_at;
    const double end = *free_at = start + at->duration[call];
    for (int32_t v = at->first[call]; v >= 0; v = at->next[v]) {
        note(at, v, end, turn);
        if (!release(at, v, end, limit))
            return (double)INFINITY;
    }
    return end;
}

/* Latency and fees; infinite if it is above a limit, or if calls wait for one another. */
static double latency(struct invoking *at, double limit) {
    const struct shard_workload *load = at->load;
    const double fees = load->fee * at->pooled;
    double last = 0.0;
    int32_t head = 0, done = 0;
    begin_schedule(at);
    for (int32_t turn = 0;; turn++) {
        for (; head < at->queued; head++, done++) {
            const int32_t v = at->queue[head];
            const double end = at->ready[v] + load->cpu_time[v];
            last = end > last ? end : last;
            note(at, v, end, -1);
            if (!release(at, v, end, limit - fees))
                return (double)INFINITY;
        }
        if (at->heaped == 0)
            break;
        const int32_t call = pop(at);
        const double end = run_call(at, call, limit - fees, turn);
        last = end > last ? end : last;
        if (isinf(last))
            return last;
        done += at->count[call];
    }
    return done == load->nodes && last + fees <= limit ? last + fees : (double)INFINITY;
}

/* ---------------------------------------------------------------- moves, and undoing them */

static void soil(struct invoking *at, int32_t call) {
    if (call < 0 || at->dirty_mark[call] == at->moved)
        return;
    at->dirty_mark[call] = at->moved;
    at->before[call] = at->duration[call];
    at->dirty[at->dirtied++] = call;
}

static void log_change(struct invoking *at, enum kind kind, int32_t of, int32_t was) {
    const double delay = kind == OWNER ? at->now->delay[of] : 0.0;
    at->change[at->changes++] = (struct change){kind, of, was, delay};
}

static void put(struct invoking *at, int32_t v, int32_t to) {
    const int32_t from = at->now->call[v];
    if (from == to)
        return;
    soil(at, from);
    soil(at, to);
    log_change(at, CALL, v, from);
    shift(at, v, to);
}

static void take_room(struct invoking *at, int32_t accelerator, double size) {
    if (accelerator < 0)
        return;
    at->over -= at->room[accelerator] < 0.0;
    at->room[accelerator] -= size;
    at->over += at->room[accelerator] < 0.0;
}

static void settle(struct invoking *at, int32_t unit, int32_t device) {
    take_room(at, at->device[unit], -at->load->size[unit]);
    at->device[unit] = device;
    take_room(at, device, at->load->size[unit]);
}

/* A call without nodes, for an accelerator. */
static int32_t open_call(struct invoking *at, int32_t accelerator) {
    const int32_t call = at->listed[at->active];
    log_change(at, OWNER, call, at->now->owner[call]);
    at->now->owner[call] = accelerator;
    at->now->delay[call] = 0.0;
    return call;
}

/* The call that a node joins on an accelerator: that of a neighbour if one is there. */
static int32_t call_for(struct invoking *at, int32_t v, int32_t accelerator) {
    const struct shard_workload *load = at->load;
    const int32_t *call = at->now->call;
    if (accelerator < 0)
        return POOL;
    if (!load->many)
        return 2 * accelerator + (load->backward[v] && !at->now->mixed[accelerator]);
    for (int64_t i = load->in_start[v]; i < load->in_start[v + 1]; i++) {
        if (owner_of(at, call[load->in[i]]) == accelerator)
            return call[load->in[i]];
    }
    for (int64_t i = load->out_start[v]; i < load->out_start[v + 1]; i++) {
        if (owner_of(at, call[load->out[i]]) == accelerator)
            return call[load->out[i]];
    }
    return open_call(at, accelerator);
}

/* Move a node to a call, or to the pool, and its unit to that device. False if it is not supported there. */
static bool carry(struct invoking *at, int32_t v, int32_t to) {
    const struct shard_workload *load = at->load;
    const int32_t unit = load->unit[v], device = owner_of(at, to);
    if (device >= 0 && isinf(load->accelerator_time[v]))
        return false;
    if (at->device[unit] != device) {
        log_change(at, DEVICE, unit, at->device[unit]);
        settle(at, unit, device);
        for (int64_t i = load->unit_start[unit]; i < load->unit_start[unit + 1]; i++) {
            if (load->member[i] != v)
                put(at, load->member[i], call_for(at, load->member[i], device));
        }
    }
    put(at, v, device >= 0 && !load->many ? call_for(at, v, device) : to);
    return true;
}

static void undo(struct invoking *at) {
    while (at->changes > 0) {
        const struct change *change = &at->change[--at->changes];
        switch (change->kind) {
        case CALL:
            shift(at, change->of, change->was);
            break;
        case OWNER:
            at->now->owner[change->of] = change->was;
            at->now->delay[change->of] = change->delay;
            break;
        case DEVICE:
            settle(at, change->of, change->was);
            break;
        case PASSES:
            at->now->mixed[change->of] = change->was;
        }
    }
    for (int32_t i = 0; i < at->dirtied; i++)
        at->duration[at->dirty[i]] = at->before[at->dirty[i]];
}

/* ---------------------------------------------------------------- drawing moves */

static int32_t draw(struct invoking *at, int32_t below) {
    return random_below(&at->random, below);
}

/* Gather a node and others of its call: those behind it (1), before it (-1), or around it up to a number (0).
 */
static void gather(struct invoking *at, int32_t v, int32_t direction, int32_t most) {
    const struct shard_workload *load = at->load;
    const int32_t *call = at->now->call, own = call[v];
    const int64_t mark = ++at->stamp;
    at->group[0] = v;
    at->grouped = 1;
    at->node_mark[v] = mark;
    for (int32_t i = 0; i < at->grouped && at->grouped < most; i++) {
        const int32_t u = at->group[i];
        for (int way = 0; way < 2; way++) {
            const int64_t *start = way ? load->out_start : load->in_start;
            const int32_t *ends = way ? load->out : load->in;
            if (direction == (way ? -1 : 1))
                continue;
            for (int64_t j = start[u]; j < start[u + 1] && at->grouped < most; j++) {
                if (call[ends[j]] == own && at->node_mark[ends[j]] != mark) {
                    at->node_mark[ends[j]] = mark;
                    at->group[at->grouped++] = ends[j];
                }
            }
        }
    }
}

static void gather_call(struct invoking *at, int32_t call) {
    at->grouped = 0;
    for (int32_t v = at->first[call]; v >= 0; v = at->next[v])
        at->group[at->grouped++] = v;
}

/* A neighbour of v in another call, and whether it is behind (1) or before v (-1); -1 if none is found. */
static int32_t draw_neighbour(struct invoking *at, int32_t v, int32_t *direction) {
    const struct shard_workload *load = at->load;
    const int32_t before = (int32_t)(load->in_start[v + 1] - load->in_start[v]);
    const int32_t behind = (int32_t)(load->out_start[v + 1] - load->out_start[v]);
    for (int32_t i = 0; i < 4 && before + behind > 0; i++) {
        const int32_t j = draw(at, before + behind);
        const int32_t w =
            j < before ? load->in[load->in_start[v] + j] : load->out[load->out_start[v] + j - before];
        *direction = j < before ? -1 : 1;
        if (at->now->call[w] != at->now->call[v])
            return w;
    }
    return -1;
}

/* Any call of an accelerator, maybe a new one. */
static int32_t draw_call(struct invoking *at, int32_t accelerator) {
    if (!at->load->many)
        return 2 * accelerator;
    for (int32_t i = 0; i < 4 && at->active > 0; i++) {
        const int32_t call = at->listed[draw(at, at->active)];
        if (at->now->owner[call] == accelerator)
            return call;
    }
    return open_call(at, accelerator);
}

static bool carry_group(struct invoking *at, int32_t to) {
    for (int32_t i = 0; i < at->grouped; i++) {
        if (!carry(at, at->group[i], to))
            return false;
    }
    return true;
}

/* Where a node might go: to a neighbour, into the pool, to any accelerator, or into a call of its own. */
static int32_t draw_target(struct invoking *at, int32_t v, int32_t *direction) {
    const int32_t own = at->now->call[v], kind = draw(at, 16);
    *direction = draw(at, 2) ? 1 : -1;
    if (kind < 10) {
        const int32_t w = draw_neighbour(at, v, direction);
        if (w >= 0)
            return at->now->call[w];
    }
    if (kind < 12 || at->load->accelerators == 0)
        return POOL;
    if (kind < 14 && own >= 0 && at->load->many)
        return open_call(at, at->now->owner[own]);
    return draw_call(at, draw(at, at->load->accelerators));
}

/* Move nodes away from accelerators that are too full; false if that is in vain. */
static bool evict(struct invoking *at, int32_t full, int32_t relief) {
    for (int32_t i = 0; i < EVICTIONS && full >= 0 && at->room[full] < 0.0; i++) {
        int32_t v = -1, direction;
        for (int32_t j = 0; j < TRIES && (v < 0 || at->device[at->load->unit[v]] != full); j++)
            v = draw(at, at->load->nodes);
        if (at->device[at->load->unit[v]] != full)
            return false;
        int32_t to = draw_target(at, v, &direction);
        if (draw(at, 2))
            to = relief;
        if (owner_of(at, to) == full || at->now->call[v] < 0)
            continue;
        gather(at, v, direction, draw(at, 2) ? 1 : at->load->nodes);
        if (!carry_group(at, to))
            return false;
    }
    return at->over == 0;
}

static bool move_nodes(struct invoking *at) {
    const int32_t v = draw(at, at->load->nodes), own = at->now->call[v];
    int32_t direction;
    const int32_t to = draw_target(at, v, &direction);
    if (to == own)
        return false;
    const int32_t kind = draw(at, 8);
    if (kind < 3)
        gather(at, v, 0, 1);
    else if (kind == 3 && own >= 0)
        gather_call(at, own);
    else if (kind < 6 && own >= 0)
        gather(at, v, direction, at->load->nodes);
    else
        gather(at, v, kind % 2 ? direction : 0, 1 << draw(at, LARGEST_GROUP));
    const int32_t full = owner_of(at, to);
    return carry_group(at, to) && (at->over == 0 || evict(at, full, own));
}

/* Let a call go before or after others, or let it wait for nobody. */
static bool move_turn(struct invoking *at, double scale) {
    if (at->active == 0)
        return false;
    const int32_t call = at->listed[draw(at, at->active)];
    log_change(at, OWNER, call, at->now->owner[call]);
    at->now->delay[call] = draw(at, 2) ? 0.0 : scale * (random_share(&at->random) - 0.5);
    return true;
}

/* Let both passes of an accelerator be one call, or two. */
static bool move_passes(struct invoking *at) {
    const struct shard_workload *load = at->load;
    const int32_t a = draw(at, load->accelerators);
    log_change(at, PASSES, a, at->now->mixed[a]);
    at->now->mixed[a] = !at->now->mixed[a];
    gather_call(at, at->now->mixed[a] ? 2 * a + 1 : 2 * a);
    for (int32_t i = 0; i < at->grouped; i++)
        put(at, at->group[i], call_for(at, at->group[i], a));
    return at->dirtied > 0;
}

/* Change something; false if that is not allowed, or nothing has changed. */
static bool move(struct invoking *at, double scale) {
    const bool many = at->load->many;
    const int32_t kind = draw(at, 32);
    at->changes = at->dirtied = 0;
    at->moved++;
    if (kind == 0 && (many || at->passes))
        return move_turn(at, scale);
    if (kind == 1 && !many && at->passes && at->load->accelerators > 0)
        return move_passes(at);
    return move_nodes(at);
}

/* ---------------------------------------------------------------- beginning and annealing */

static void *grab(struct invoking *at, int64_t count, size_t size) {
    void *block = calloc((size_t)count + 1, size);
    at->lacks |= !block;
    return at->block[at->blocks++] = block;
}

static void drop(struct invoking *at) {
    while (at->blocks > 0)
        free(at->block[--at->blocks]);
}

static bool allocate(struct invoking *at) {
    const int64_t n = at->load->nodes, calls = at->load->calls, k = at->load->accelerators;
    int32_t **const of_nodes[] = {&at->next,   &at->previous, &at->degree, &at->left,
                                  &at->source, &at->queue,    &at->group};
    int32_t **const of_calls[] = {&at->first, &at->count,     &at->waits, &at->listed,
                                  &at->place, &at->call_left, &at->heap,  &at->dirty};
    double **const times[] = {&at->duration, &at->call_ready, &at->key, &at->before};
    for (size_t i = 0; i < sizeof of_nodes / sizeof *of_nodes; i++)
        *of_nodes[i] = grab(at, n, sizeof **of_nodes[i]);
    for (size_t i = 0; i < sizeof of_calls / sizeof *of_calls; i++)
        *of_calls[i] = grab(at, calls, sizeof **of_calls[i]);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        *times[i] = grab(at, calls, sizeof **times[i]);
    at->ready = grab(at, n, sizeof *at->ready);
    at->room = grab(at, k, sizeof *at->room);
    at->free_at = grab(at, k, sizeof *at->free_at);
    at->device = grab(at, at->load->units, sizeof *at->device);
    at->dirty_mark = grab(at, calls, sizeof *at->dirty_mark);
    at->net_mark = grab(at, at->load->nets, sizeof *at->net_mark);
    at->node_mark = grab(at, n, sizeof *at->node_mark);
    at->change = grab(at, 4 * (n + 1) * (1 + EVICTIONS) + 4,
                      sizeof *at->change); /* four of a node and group at most */
    return !at->lacks;
}

static int begin(struct invoking *at, const struct shard_workload *load, struct shard_invocation *now) {
    at->load = load;
    at->now = now;
    if (!allocate(at))
        return SHARD_NO_MEMORY;
    for (int32_t call = 0; call < load->calls; call++) {
        at->first[call] = -1;
        at->listed[call] = at->place[call] = call;
    }
    for (int32_t a = 0; a < load->accelerators; a++)
        at->room[a] = load->memory;
    for (int32_t unit = 0; unit < load->units; unit++) {
        at->device[unit] = POOL;
        settle(at, unit, owner_of(at, now->call[load->member[load->unit_start[unit]]]));
    }
    for (int32_t v = 0; v < load->nodes; v++) {
        at->degree[v] = (int32_t)(load->in_start[v + 1] - load->in_start[v]);
        at->passes |= load->backward[v] != 0;
        if (at->degree[v] == 0)
            at->source[at->sources++] = v;
        join(at, v, now->call[v]);
        for (int64_t i = load->in_start[v]; i < load->in_start[v + 1] && now->call[v] >= 0; i++)
            at->waits[now->call[v]] += now->call[load->in[i]] != now->call[v];
    }
    for (int32_t i = 0; i < at->active; i++)
        at->duration[at->listed[i]] = duration_of(at, at->listed[i]);
    return SHARD_OK;
}

static void keep(const struct invoking *at, struct shard_invocation *best) {
    const size_t calls = (size_t)at->load->calls;
    memcpy(best->call, at->now->call, (size_t)at->load->nodes * sizeof *best->call);
    memcpy(best->owner, at->now->owner, calls * sizeof *best->owner);
    memcpy(best->delay, at->now->delay, calls * sizeof *best->delay);
    memcpy(best->mixed, at->now->mixed, (size_t)at->load->accelerators * sizeof *best->mixed);
}

/* Try a move, and keep it if what it leaves takes no longer than a limit; otherwise undo it. */
static double step(struct invoking *at, double cost, double limit) {
    if (move(at, cost)) {
        for (int32_t i = 0; i < at->dirtied; i++) {
            if (at->count[at->dirty[i]] > 0)
                at->duration[at->dirty[i]] = duration_of(at, at->dirty[i]);
        }
        const double found = latency(at, limit);
        if (found <= limit)
            return found;
    }
    undo(at);
    return cost;
}

static void anneal(struct invoking *at, int64_t moves, double hot, double cold, struct shard_invocation *best,
                   double *cost) {
    double temperature = hot;
    for (int64_t i = 0; i < moves; i++) {
        if (i % BREATH == 0)
            temperature = hot * pow(cold / hot, (double)i / (double)moves);
        cost[0] = step(at, cost[0], cost[0] - temperature * log(1.0 - random_share(&at->random)));
        if (cost[0] < cost[1] * (1.0 - TOLERANCE)) {
            cost[1] = cost[0];
            keep(at, best);
        }
    }
}

int shard_invoke(const struct shard_workload *workload, int64_t moves, double hot, double cold,
                 uint64_t *random, struct shard_invocation *now, struct shard_invocation *best,
                 double *cost) {
    struct invoking at = {.random = {*random}};
    int status = begin(&at, workload, now);
    if (status == SHARD_OK) {
        cost[0] = latency(&at, (double)INFINITY);
        if (isinf(cost[0]))
            status = SHARD_CYCLE;
        else {
            if (cost[0] < cost[1]) {
                cost[1] = cost[0];
                keep(&at, best);
            }
            if (workload->nodes > 0)
                anneal(&at, moves, hot, cold, best, cost);
            *random = at.random.state;
        }
    }
    drop(&at);
    return status;
}

int shard_schedule(const struct shard_workload *workload, struct shard_invocation *now, double *finish,
                   int32_t *turn, double *cost) {
    struct invoking at = {.finish = finish, .turn = turn};
    int status = begin(&at, workload, now);
    if (status == SHARD_OK) {
        *cost = latency(&at, (double)INFINITY);
        status = isinf(*cost) ? SHARD_CYCLE : SHARD_OK;
    }
    drop(&at);
    return status;
}
