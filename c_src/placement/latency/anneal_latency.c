/* Latency of placements: a schedule is worked out in one pass over calls and nodes of the pool, in the order
 * of time. */
#include "placement/latency/anneal_latency.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/random.h"

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

/* Most arrays that a search has. */
#define BLOCKS 40

/* What a move has changed, and what it was before: the call of a node, the owner and the delay of a call, the
 * device of a unit, or whether the passes of an accelerator are mixed. */
enum kind { CALL, OWNER, DEVICE, PASSES };
struct change {
    enum kind kind;
    int32_t of, was;
    double delay;
};

struct invoking {
    const struct shard_latency_problem *load;
    struct shard_latency_placement *now;
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
    double last, sum; /* when all has ended, fees added; when each has, summed */
    double calm;      /* weight of the mean end beside the last one */
    double *finish;   /* nodes elements or NULL: where to write when each node ends, and turns beside it */
    int32_t *turn;
    /* of one move */
    struct change *change;
    int64_t changes, moved;  /* changes; number of the move */
    int32_t *dirty, dirtied; /* calls that the move has changed */
    int64_t *dirty_mark;     /* calls elements: the last move that has changed each */
    double *before;          /* calls elements: duration of each dirty call before the move */
    int64_t *net_mark, *node_mark, stamp;
    int32_t *group, grouped;
    int64_t *group_mark;        /* nodes elements: of those in the group */
    int32_t *frontier, waiting; /* ranks of the nodes that a group may grow by, as a heap */
    int32_t *rank, *order;      /* the place of each node in a topological order, and the node of each */
    struct random random;
    void *block[BLOCKS]; /* what is to be freed */
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
    const struct shard_latency_problem *load = at->load;
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
    const struct shard_latency_problem *load = at->load;
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
    const struct shard_latency_problem *load = at->load;
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
    at->last = at->sum = 0.0;
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

static void end_all(struct invoking *at, double end, int32_t nodes) {
    at->last = end > at->last ? end : at->last;
    at->sum += end * nodes;
}

/* Latency, fees and what the mean end counts; infinite if that is above a limit, or if calls wait for one
 * another. */
static double energy(struct invoking *at, double limit) {
    const struct shard_latency_problem *load = at->load;
    const double fees = load->fee * at->pooled, each = load->nodes > 0 ? at->calm / load->nodes : 0.0;
    int32_t head = 0, done = 0;
    begin_schedule(at);
    for (int32_t turn = 0;; turn++) {
        for (; head < at->queued; head++, done++) {
            const int32_t v = at->queue[head];
            const double end = at->ready[v] + load->cpu_time[v];
            end_all(at, end, 1);
            note(at, v, end, -1);
            if (!release(at, v, end, limit - fees - each * at->sum))
                return (double)INFINITY;
        }
        if (at->heaped == 0)
            break;
        const int32_t call = pop(at);
        const double end = run_call(at, call, limit - fees - each * at->sum, turn);
        if (isinf(end))
            return end;
        end_all(at, end, at->count[call]);
        done += at->count[call];
    }
    at->last += fees;
    const double found = at->last + each * at->sum;
    return done == load->nodes && found <= limit ? found : (double)INFINITY;
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
    const struct shard_latency_problem *load = at->load;
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
    const struct shard_latency_problem *load = at->load;
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
    const struct shard_latency_problem *load = at->load;
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
                const bool fits = own >= 0 || !isinf(load->accelerator_time[ends[j]]);
                if (call[ends[j]] == own && fits && at->node_mark[ends[j]] != mark) {
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
    const struct shard_latency_problem *load = at->load;
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

static inline bool can_join(const struct invoking *at, int32_t v, int32_t own, double room) {
    const struct shard_latency_problem *load = at->load;
    return at->now->call[v] == own && load->size[load->unit[v]] <= room && !isinf(load->accelerator_time[v]);
}

static void await(struct invoking *at, int32_t rank) {
    int32_t i = at->waiting++;
    for (; i > 0 && rank < at->frontier[(i - 1) / 2]; i = (i - 1) / 2)
        at->frontier[i] = at->frontier[(i - 1) / 2];
    at->frontier[i] = rank;
}

/* The least rank that waits, taken off the heap. Each waits once: `sweep` gives a node its mark when it does.
 */
static int32_t take_next(struct invoking *at) {
    const int32_t top = at->frontier[0], last = at->frontier[--at->waiting];
    int32_t i = 0;
    for (int32_t child = 1; child < at->waiting; child = 2 * i + 1) {
        child += child + 1 < at->waiting && at->frontier[child + 1] < at->frontier[child];
        if (at->frontier[child] >= last)
            break;
        at->frontier[i] = at->frontier[child];
        i = child;
    }
    at->frontier[i] = last;
    return top;
}

/* Whether all that have been seen of the nodes on one side are in the group, or if `all`, all that there are.
 * Nodes have been seen whose `node_mark` is `mark`, and are in the group whose `group_mark` is: a number of
 * one sweep alone, so that marks of earlier ones need not be cleared. */
static bool follows(const struct invoking *at, int32_t v, bool outwards, bool all, int64_t mark) {
    const struct shard_latency_problem *load = at->load;
    const int64_t *start = outwards ? load->out_start : load->in_start;
    const int32_t *ends = outwards ? load->out : load->in;
    for (int64_t i = start[v]; i < start[v + 1]; i++) {
        if (at->group_mark[ends[i]] != mark && (all || at->node_mark[ends[i]] == mark))
            return false;
    }
    return true;
}

static void gather_node(struct invoking *at, int32_t v, int64_t mark, double *room) {
    at->group_mark[v] = mark;
    at->group[at->grouped++] = v;
    *room -= at->load->size[at->load->unit[v]];
}

/* Gather nodes of the call of v, from v on along the edges or against them, that no path leaves and comes
 * back to, as far as room and a number allow; then those that only they read, or that only read them. */
static void sweep(struct invoking *at, int32_t v, bool forwards, int32_t most, double room) {
    const struct shard_latency_problem *load = at->load;
    const int64_t *start = forwards ? load->out_start : load->in_start, mark = ++at->stamp;
    const int32_t *ends = forwards ? load->out : load->in, own = at->now->call[v], n = load->nodes;
    at->grouped = at->waiting = 0;
    at->node_mark[v] = mark;
    await(at, forwards ? at->rank[v] : n - 1 - at->rank[v]);
    for (int64_t seen = 0; at->waiting > 0 && at->grouped < most && seen < 64 + 4 * (int64_t)most; seen++) {
        const int32_t next = take_next(at), u = at->order[forwards ? next : n - 1 - next];
        if (can_join(at, u, own, room) && follows(at, u, !forwards, false, mark))
            gather_node(at, u, mark, &room);
        for (int64_t i = start[u]; i < start[u + 1]; i++) {
            if (at->node_mark[ends[i]] != mark) {
                at->node_mark[ends[i]] = mark;
                await(at, forwards ? at->rank[ends[i]] : n - 1 - at->rank[ends[i]]);
            }
        }
    }
    start = forwards ? load->in_start : load->out_start;
    ends = forwards ? load->in : load->out;
    for (int32_t i = 0; i < at->grouped; i++) {
        for (int64_t j = start[at->group[i]]; j < start[at->group[i] + 1]; j++) {
            const int32_t u = ends[j];
            if (at->group_mark[u] != mark && can_join(at, u, own, room) &&
                follows(at, u, forwards, true, mark))
                gather_node(at, u, mark, &room);
        }
    }
}

static bool dissolve(struct invoking *at, int32_t call) {
    gather_call(at, call);
    return carry_group(at, POOL);
}

/* Make a call of nodes of the pool, on an accelerator that has other calls no more, or as well. */
static bool move_call(struct invoking *at) {
    const struct shard_latency_problem *load = at->load;
    int32_t v = -1, a = draw(at, load->accelerators);
    if (draw(at, 4) && load->many && at->active > 0) {
        const int32_t call = at->listed[draw(at, at->active)];
        a = at->now->owner[call];
        dissolve(at, call);
    } else if (draw(at, 4) && !load->many) {
        dissolve(at, 2 * a);
        dissolve(at, 2 * a + 1);
    }
    for (int32_t i = 0; i < TRIES && (v < 0 || !can_join(at, v, POOL, at->room[a])); i++)
        v = draw(at, load->nodes);
    if (!can_join(at, v, POOL, at->room[a]))
        return false;
    sweep(at, v, draw(at, 2), draw(at, 2) ? load->nodes : 1 << draw(at, LARGEST_GROUP), at->room[a]);
    const int32_t to = load->many ? open_call(at, a) : 2 * a;
    return carry_group(at, to) && (at->over == 0 || evict(at, a, POOL));
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
    const struct shard_latency_problem *load = at->load;
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
    if (kind < 6 && at->load->accelerators > 0)
        return move_call(at);
    return move_nodes(at);
}

/* ---------------------------------------------------------------- beginning and annealing */

static void *grab(struct invoking *at, int64_t count, size_t size) {
    void *block = at->blocks < BLOCKS ? calloc((size_t)count + 1, size) : NULL;
    at->lacks |= !block;
    if (block)
        at->block[at->blocks++] = block;
    return block;
}

static void drop(struct invoking *at) {
    while (at->blocks > 0)
        free(at->block[--at->blocks]);
}

static bool allocate(struct invoking *at) {
    const int64_t n = at->load->nodes, calls = at->load->calls, k = at->load->accelerators;
    int32_t **const of_nodes[] = {&at->next,  &at->previous, &at->degree,   &at->left, &at->source,
                                  &at->queue, &at->group,    &at->frontier, &at->rank, &at->order};
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
    at->group_mark = grab(at, n, sizeof *at->group_mark);
    /* four of a node and group at most, and of those are two, and what is evicted */
    at->change = grab(at, 4 * (n + 1) * (3 + EVICTIONS), sizeof *at->change);
    return !at->lacks;
}

static void rank_nodes(struct invoking *at) {
    const struct shard_latency_problem *load = at->load;
    int32_t found = at->sources;
    memcpy(at->order, at->source, (size_t)found * sizeof *at->order);
    memcpy(at->left, at->degree, (size_t)load->nodes * sizeof *at->left);
    for (int32_t i = 0; i < found; i++) {
        const int32_t v = at->order[i];
        at->rank[v] = i;
        for (int64_t j = load->out_start[v]; j < load->out_start[v + 1]; j++) {
            if (--at->left[load->out[j]] == 0)
                at->order[found++] = load->out[j];
        }
    }
}

static int begin(struct invoking *at, const struct shard_latency_problem *load, struct shard_latency_placement *now) {
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
    rank_nodes(at);
    return SHARD_OK;
}

static void keep(const struct invoking *at, struct shard_latency_placement *best) {
    const size_t calls = (size_t)at->load->calls;
    memcpy(best->call, at->now->call, (size_t)at->load->nodes * sizeof *best->call);
    memcpy(best->owner, at->now->owner, calls * sizeof *best->owner);
    memcpy(best->delay, at->now->delay, calls * sizeof *best->delay);
    memcpy(best->mixed, at->now->mixed, (size_t)at->load->accelerators * sizeof *best->mixed);
}

/* Try a move, and keep it if the energy that it leaves is below a limit; otherwise undo it. */
static bool step(struct invoking *at, double *now, double limit) {
    if (move(at, *now)) {
        for (int32_t i = 0; i < at->dirtied; i++) {
            if (at->count[at->dirty[i]] > 0)
                at->duration[at->dirty[i]] = duration_of(at, at->dirty[i]);
        }
        const double found = energy(at, limit);
        if (found <= limit) {
            *now = found;
            return true;
        }
    }
    undo(at);
    return false;
}

static void anneal(struct invoking *at, const struct shard_latency_cooling *chill, struct shard_latency_placement *best,
                   double *cost, double now) {
    double temperature = chill->hot;
    for (int64_t i = 0; i < chill->moves; i++) {
        if (i % BREATH == 0)
            temperature = chill->hot * pow(chill->cold / chill->hot, (double)i / (double)chill->moves);
        const double limit = now - temperature * log(1.0 - random_share(&at->random));
        if (step(at, &now, limit) && at->last < *cost * (1.0 - TOLERANCE)) {
            *cost = at->last;
            keep(at, best);
        }
    }
}

int shard_anneal_latency(const struct shard_latency_problem *workload, const struct shard_latency_cooling *chill, uint64_t *random,
                 struct shard_latency_placement *now, struct shard_latency_placement *best, double *cost) {
    struct invoking at = {.random = {*random}, .calm = chill->calm};
    int status = begin(&at, workload, now);
    if (status == SHARD_OK) {
        const double begun = energy(&at, (double)INFINITY);
        if (isinf(begun)) {
            status = SHARD_CYCLE;
        } else {
            if (at.last < *cost) {
                *cost = at.last;
                keep(&at, best);
            }
            if (workload->nodes > 0)
                anneal(&at, chill, best, cost, begun);
            *random = at.random.state;
        }
    }
    drop(&at);
    return status;
}

int shard_latency_schedule(const struct shard_latency_problem *workload, struct shard_latency_placement *now, double *finish,
                   int32_t *turn, double *cost) {
    struct invoking at = {.finish = finish, .turn = turn};
    int status = begin(&at, workload, now);
    if (status == SHARD_OK) {
        status = isinf(energy(&at, (double)INFINITY)) ? SHARD_CYCLE : SHARD_OK;
        *cost = at.last;
    }
    drop(&at);
    return status;
}
