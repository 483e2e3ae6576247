/* The network has a vertex for each vertex of the graph, or with prices two. Both branches of a node of the tree begin
 * with its flow: one adds a source, the other a sink. */
#include "scheduling/bounds/set_cuts.h"

#include "common/flow.h"
#include "common/stop.h"

/* Most levels of the tree, and most rewards that are tried at a node. */
enum { DEPTH = 64, TRIALS = 3 };

/* Verdict of a bound on the sets of a node: all exceed the memory, neither is known, or one fits. */
enum result { REFUTED, OPEN, FITS };

/* The size of a set of vertices, and the memory that it holds. */
struct point {
    int64_t size, held;
};

/* A node of the tree that branches. */
struct node {
    int64_t *left, *excess; /* its flow */
    int32_t *follows;       /* vertices that are decided in the current branch */
};

struct search {
    struct arena arena;
    const struct shard_system *system;
    const struct shard_held *held;
    const int8_t *counted;
    int64_t least, most;
    double end, share;
    bool fits, ended;
    struct flow flow;
    int64_t *capacity;   /* arcs elements */
    double *made, *read; /* network vertices elements: sizes of the tensors that each makes, and reads */
    int8_t *decided;     /* network vertices elements: 1 in the set, -1 not, 0 open */
    bool *side;          /* network vertices elements: true in the set at hand */
    int32_t *queue;      /* network vertices elements: of a breadth-first search */
    int64_t *seen,
        searches; /* network vertices elements: the last search that reached each; number of searches */
    struct node node[DEPTH];
};

/* The vertex of the network that says whether v has started. With prices, vertex v itself says whether it has finished;
 * without them, both are one. */
static int32_t started(const struct search *s, int32_t v) {
    return s->held->prices ? s->system->nodes + v : v;
}

/* The point of the set that `side` marks. */
static struct point measure(const struct search *s) {
    struct point point = {0, 0};
    for (int32_t v = 0; v < s->flow.vertices; v++)
        for (int32_t e = s->flow.start[v]; s->side[v] && e < s->flow.start[v + 1]; e++)
            point.held += s->side[s->flow.tip[e]] ? 0 : s->capacity[e];
    for (int32_t v = 0; v < s->system->nodes; v++)
        point.size += s->side[started(s, v)] ? s->counted[v] : 0;
    return point;
}

/* Queue an open vertex and all open ones that must be in the set with it (1), or outside with it (-1); return their
 * number. */
static int32_t follow(struct search *s, int32_t from, int value) {
    int32_t count = 1;
    s->seen[from] = ++s->searches;
    s->queue[0] = from;
    for (int32_t at = 0; at < count; at++) {
        const int32_t v = s->queue[at];
        for (int32_t e = s->flow.start[v]; e < s->flow.start[v + 1]; e++) {
            const int32_t w = s->flow.tip[e];
            const int64_t capacity = s->capacity[value > 0 ? e : s->flow.reverse[e]];
            if (capacity < s->held->whole || s->decided[w] || s->seen[w] == s->searches)
                continue;
            s->seen[w] = s->searches;
            s->queue[count++] = w;
        }
    }
    return count;
}

/* The size of all tensors that a vertex and what follows make if in the set (1), or read if outside (-1). */
static double effect(struct search *s, int32_t from, int value) {
    const int32_t count = follow(s, from, value);
    const double *size = value > 0 ? s->made : s->read;
    double sum = 0;
    for (int32_t at = 0; at < count; at++)
        sum += size[s->queue[at]];
    return sum;
}

/* The open vertex with the greatest product of its effects; -1 if there is none, or no time is left. */
static int32_t choose(struct search *s) {
    int32_t best = -1;
    double greatest = -1;
    for (int32_t v = 0; v < s->system->nodes; v++) {
        const int32_t at = started(s, v);
        if (s->decided[at] || !s->counted[v])
            continue;
        if (monotonic_seconds() >= s->end)
            return -1;
        const double product = effect(s, at, 1) * effect(s, at, -1);
        if (product > greatest) {
            greatest = product;
            best = at;
        }
    }
    return best;
}

/* The smallest set of the node, or the largest. */
static struct point extreme(struct search *s, bool largest) {
    for (int32_t v = 0; v < s->flow.vertices; v++)
        s->side[v] = largest ? s->decided[v] >= 0 : s->decided[v] > 0;
    return measure(s);
}

static bool fits(const struct search *s, struct point point) {
    return s->least <= point.size && point.size <= s->most && point.held < s->held->enough;
}

static void set_reward(struct search *s, int64_t *reward, int64_t next) {
    for (int32_t v = 0; v < s->system->nodes; v++)
        s->flow.excess[started(s, v)] += (next - *reward) * s->counted[v];
    *reward = next;
}

/* The reward at which two points cost the same, between limits. Its sign does not change at once, since the size that
 * counts depends on it. */
static int64_t reward_between(const struct search *s, struct point low, struct point high, int64_t reward) {
    const int64_t limit = s->held->whole / (s->system->nodes + 1);
    int64_t next = (high.held - low.held) / (high.size - low.size);
    if ((reward > 0 && next < 0) || (reward < 0 && next > 0))
        next = 0;
    return next > limit ? limit : next < -limit ? -limit : next;
}

/* Bound what a set of the right size holds: held >= min (held' - reward * size') + reward * size, with the minimum over
 * all sets of the node, and the least size for a reward >= 0, else the greatest. The next reward is the slope between
 * two points, one too small and one too large (the secant method on the convex hull of all points). */
static enum result bound(struct search *s, int64_t *reward) {
    struct point low = extreme(s, false), high = extreme(s, true);
    if (high.size < s->least || low.size > s->most)
        return REFUTED;
    for (int trial = 0; trial < TRIALS && monotonic_seconds() < s->end; trial++) {
        const int64_t size = *reward >= 0 ? s->least : s->most;
        if (!flow_run_until(&s->flow, *reward * size - s->held->enough))
            return REFUTED;
        flow_least_side(&s->flow, s->side);
        const struct point smallest = measure(s);
        flow_greatest_side(&s->flow, s->side);
        const struct point largest = measure(s);
        if (fits(s, smallest) || fits(s, largest))
            return FITS;
        if (largest.size < (*reward ? size : s->least))
            low = largest;
        else if (smallest.size > (*reward ? size : s->most))
            high = smallest;
        else
            return OPEN;
        const int64_t next = low.size < high.size ? reward_between(s, low, high, *reward) : 0;
        if (next == *reward)
            return OPEN;
        set_reward(s, reward, next);
    }
    return OPEN;
}

/* Keep the flow of a node; false if there is no memory. */
static bool keep(struct search *s, struct node *node) {
    const size_t arcs = (size_t)s->flow.arcs, vertices = (size_t)s->flow.vertices;
    if (!node->left) {
        ARENA_ARRAYS(&s->arena, arcs, node->left);
        ARENA_ARRAYS(&s->arena, vertices, node->excess, node->follows);
    }
    if (s->arena.failed)
        return false;
    memcpy(node->left, s->flow.left, arcs * sizeof *node->left);
    memcpy(node->excess, s->flow.excess, vertices * sizeof *node->excess);
    return true;
}

static void search(struct search *s, int depth, int64_t reward);

/* Decide that an open vertex is in the set (1) or not (-1), and what follows; return the number of vertices queued. */
static int32_t decide(struct search *s, int32_t v, int value) {
    const int32_t count = follow(s, v, value);
    for (int32_t i = 0; i < count; i++)
        s->decided[s->queue[i]] = (int8_t)value;
    s->flow.excess[v] += value * FLOW_INFINITE;
    return count;
}

/* Search the branch of a node in which a vertex is in the set (1) or not (-1). */
static void branch(struct search *s, int depth, int64_t reward, int32_t v, int value) {
    struct node *node = &s->node[depth];
    memcpy(s->flow.left, node->left, (size_t)s->flow.arcs * sizeof *node->left);
    memcpy(s->flow.excess, node->excess, (size_t)s->flow.vertices * sizeof *node->excess);
    const int32_t count = decide(s, v, value);
    memcpy(node->follows, s->queue, (size_t)count * sizeof *s->queue);
    search(s, depth + 1, reward);
    for (int32_t i = 0; i < count; i++)
        s->decided[node->follows[i]] = 0;
}

static void search(struct search *s, int depth, int64_t reward) {
    s->ended = s->ended || depth == DEPTH || monotonic_seconds() >= s->end;
    if (s->ended)
        return;
    const enum result result = bound(s, &reward);
    if (result == REFUTED) {
        s->share += ldexp(1, -depth);
        return;
    }
    const int32_t v = result == OPEN ? choose(s) : -1;
    s->fits = result == FITS;
    s->ended = v < 0 || !keep(s, &s->node[depth]);
    if (s->ended)
        return;
    branch(s, depth, reward, v, 1);
    branch(s, depth, reward, v, -1);
}

static int allocate(struct search *s) {
    struct arena *arena = &s->arena;
    const int64_t n = s->system->nodes, m = s->system->out_start[n];
    const int64_t arcs = s->held->prices ? 2 * n + 6 * m : 2 * m, vertices = s->held->prices ? 2 * n : n;
    flow_allocate(&s->flow, arena, (int32_t)vertices, arcs);
    ARENA_ARRAYS(arena, arcs, s->capacity);
    ARENA_ARRAYS(arena, vertices, s->side, s->queue);
    ARENA_ZEROS(arena, vertices, s->made, s->read, s->decided, s->seen);
    return arena_status(arena);
}

/* Build the network. Arcs of infinite capacity lead from each vertex to those that are in every set with it. */
static void lay_out(struct search *s) {
    const struct shard_system *system = s->system;
    const struct shard_held *held = s->held;
    const int64_t whole = held->whole;
    for (int32_t v = 0; v < system->nodes && held->prices; v++)
        flow_join(&s->flow, started(s, v), v, held->prices[v], whole);
    for (int32_t u = 0; u < system->nodes; u++) {
        for (int64_t e = system->out_start[u]; e < system->out_start[u + 1]; e++) {
            const int32_t v = system->out_head[e];
            flow_join(&s->flow, u, started(s, v), held->parts[e], held->prices ? 0 : whole);
            if (held->prices) {
                flow_join(&s->flow, v, u, whole, 0);
                flow_join(&s->flow, started(s, v), started(s, u), whole, 0);
            }
            s->made[started(s, u)] += (double)held->parts[e];
            s->read[started(s, v)] += (double)held->parts[e];
        }
    }
    flow_sort(&s->flow);
    memcpy(s->capacity, s->flow.left, (size_t)s->flow.arcs * sizeof *s->capacity);
}

int shard_set_cuts(const struct shard_system *system, const struct shard_held *held, const int8_t *fixed,
                   const int8_t *counted, int64_t least, int64_t most, double seconds, double *share) {
    struct search s = {.system = system, .held = held, .counted = counted, .least = least, .most = most};
    s.end = monotonic_seconds() + seconds;
    int status = allocate(&s);
    *share = 0;
    if (status == SHARD_OK) {
        lay_out(&s);
        for (int32_t v = 0; v < system->nodes; v++)
            if (fixed[v] && !s.decided[started(&s, v)])
                decide(&s, started(&s, v), fixed[v]);
        search(&s, 0, 0);
        *share = !s.ended ? 1 : s.fits ? 0 : fmin(s.share, 1 - 1e-9);
    }
    arena_free(&s.arena);
    return status;
}
