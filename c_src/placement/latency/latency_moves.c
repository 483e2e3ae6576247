/* A move carries a group of nodes to a subgraph or to the pool; what it changes is logged. */
#include "placement/latency/latency_moves.h"

enum {
    TRIES = 64,        /* draws to find a node of an accelerator */
    EVICTIONS = 3,     /* groups of nodes that leave an accelerator whose memory is exceeded */
    MAX_GROUP_LOG = 7, /* base-2 logarithm of the nodes of the largest group from the pool */
};

/* Save the duration of a subgraph before the current move changes it. */
static void save_subgraph(struct latency_moves *moves, int32_t subgraph) {
    if (subgraph < 0 || moves->dirty_mark[subgraph] == moves->move)
        return;
    moves->dirty_mark[subgraph] = moves->move;
    moves->before[subgraph] = moves->now->duration[subgraph];
    moves->dirty[moves->dirtied++] = subgraph;
}

static void log_change(struct latency_moves *moves, enum change_kind kind, int32_t of, int32_t was) {
    const double delay = kind == OWNER ? moves->now->placement->delay[of] : 0.0;
    moves->change[moves->changes++] = (struct change){kind, of, was, delay};
}

static void move_node(struct latency_moves *moves, int32_t v, int32_t to) {
    const int32_t from = moves->now->placement->subgraph[v];
    if (from == to)
        return;
    save_subgraph(moves, from);
    save_subgraph(moves, to);
    log_change(moves, SUBGRAPH, v, from);
    move_to_subgraph(moves->now, v, to);
}

/* An empty subgraph for an accelerator. */
static int32_t open_subgraph(struct latency_moves *moves, int32_t accelerator) {
    const int32_t subgraph = moves->now->listed[moves->now->active];
    log_change(moves, OWNER, subgraph, moves->now->placement->owner[subgraph]);
    moves->now->placement->owner[subgraph] = accelerator;
    moves->now->placement->delay[subgraph] = 0.0;
    return subgraph;
}

/* The subgraph that a node joins on an accelerator: that of an adjacent node if there is one. */
static int32_t subgraph_for(struct latency_moves *moves, int32_t v, int32_t accelerator) {
    const struct shard_latency_problem *problem = moves->now->problem;
    const int32_t *subgraph = moves->now->placement->subgraph;
    if (accelerator < 0)
        return POOL;
    if (!problem->unlimited)
        return 2 * accelerator + (problem->backward[v] && !moves->now->placement->merged[accelerator]);
    for (int64_t i = problem->in_start[v]; i < problem->in_start[v + 1]; i++)
        if (owner_of(moves->now, subgraph[problem->in[i]]) == accelerator)
            return subgraph[problem->in[i]];
    for (int64_t i = problem->out_start[v]; i < problem->out_start[v + 1]; i++)
        if (owner_of(moves->now, subgraph[problem->out[i]]) == accelerator)
            return subgraph[problem->out[i]];
    return open_subgraph(moves, accelerator);
}

/* Move a node to a subgraph or the pool, and its unit to that device. False if the device cannot run it. */
static bool carry(struct latency_moves *moves, int32_t v, int32_t to) {
    const struct shard_latency_problem *problem = moves->now->problem;
    const int32_t unit = problem->unit[v], device = owner_of(moves->now, to);
    if (device >= 0 && isinf(problem->accelerator_time[v]))
        return false;
    if (moves->now->device[unit] != device) {
        log_change(moves, DEVICE, unit, moves->now->device[unit]);
        move_unit(moves->now, unit, device);
        for (int64_t i = problem->unit_start[unit]; i < problem->unit_start[unit + 1]; i++)
            if (problem->member[i] != v)
                move_node(moves, problem->member[i], subgraph_for(moves, problem->member[i], device));
    }
    move_node(moves, v, device >= 0 && !problem->unlimited ? subgraph_for(moves, v, device) : to);
    return true;
}

void undo_move(struct latency_moves *moves) {
    while (moves->changes > 0) {
        const struct change *change = &moves->change[--moves->changes];
        switch (change->kind) {
        case SUBGRAPH:
            move_to_subgraph(moves->now, change->of, change->was);
            break;
        case OWNER:
            moves->now->placement->owner[change->of] = change->was;
            moves->now->placement->delay[change->of] = change->delay;
            break;
        case DEVICE:
            move_unit(moves->now, change->of, change->was);
            break;
        case MERGED:
            moves->now->placement->merged[change->of] = change->was;
        }
    }
    for (int32_t i = 0; i < moves->dirtied; i++)
        moves->now->duration[moves->dirty[i]] = moves->before[moves->dirty[i]];
}

/* ---------------------------------------------------------------- drawing moves */

static int32_t draw(struct latency_moves *moves, int32_t below) {
    return random_below(&moves->random, below);
}

/* Gather up to `most` nodes of a subgraph from v on: descendants (direction 1), ancestors (-1) or both (0). */
static void gather(struct latency_moves *moves, int32_t v, int32_t direction, int32_t most) {
    const struct shard_latency_problem *problem = moves->now->problem;
    const int32_t *subgraph = moves->now->placement->subgraph, own = subgraph[v];
    const int64_t mark = ++moves->mark;
    moves->group[0] = v;
    moves->grouped = 1;
    moves->node_mark[v] = mark;
    for (int32_t i = 0; i < moves->grouped && moves->grouped < most; i++) {
        const int32_t u = moves->group[i];
        for (int way = 0; way < 2; way++) {
            const int64_t *start = way ? problem->out_start : problem->in_start;
            const int32_t *ends = way ? problem->out : problem->in;
            if (direction == (way ? -1 : 1))
                continue;
            for (int64_t j = start[u]; j < start[u + 1] && moves->grouped < most; j++) {
                const bool fits = own >= 0 || !isinf(problem->accelerator_time[ends[j]]);
                if (subgraph[ends[j]] == own && fits && moves->node_mark[ends[j]] != mark) {
                    moves->node_mark[ends[j]] = mark;
                    moves->group[moves->grouped++] = ends[j];
                }
            }
        }
    }
}

static void gather_subgraph(struct latency_moves *moves, int32_t subgraph) {
    moves->grouped = 0;
    for (int32_t v = moves->now->first[subgraph]; v >= 0; v = moves->now->next[v])
        moves->group[moves->grouped++] = v;
}

/* A random successor (direction 1) or predecessor (-1) in another subgraph; -1 if four draws find none. */
static int32_t draw_neighbour(struct latency_moves *moves, int32_t v, int32_t *direction) {
    const struct shard_latency_problem *problem = moves->now->problem;
    const int32_t before = (int32_t)(problem->in_start[v + 1] - problem->in_start[v]);
    const int32_t behind = (int32_t)(problem->out_start[v + 1] - problem->out_start[v]);
    for (int32_t i = 0; i < 4 && before + behind > 0; i++) {
        const int32_t j = draw(moves, before + behind);
        const int32_t w = j < before ? problem->in[problem->in_start[v] + j]
                                     : problem->out[problem->out_start[v] + j - before];
        *direction = j < before ? -1 : 1;
        if (moves->now->placement->subgraph[w] != moves->now->placement->subgraph[v])
            return w;
    }
    return -1;
}

/* A random subgraph of an accelerator, or an empty one. */
static int32_t draw_subgraph(struct latency_moves *moves, int32_t accelerator) {
    if (!moves->now->problem->unlimited)
        return 2 * accelerator;
    for (int32_t i = 0; i < 4 && moves->now->active > 0; i++) {
        const int32_t subgraph = moves->now->listed[draw(moves, moves->now->active)];
        if (moves->now->placement->owner[subgraph] == accelerator)
            return subgraph;
    }
    return open_subgraph(moves, accelerator);
}

static bool carry_group(struct latency_moves *moves, int32_t to) {
    for (int32_t i = 0; i < moves->grouped; i++)
        if (!carry(moves, moves->group[i], to))
            return false;
    return true;
}

/* A random target: the subgraph of an adjacent node, the pool, any subgraph, or an empty one. */
static int32_t draw_target(struct latency_moves *moves, int32_t v, int32_t *direction) {
    const int32_t own = moves->now->placement->subgraph[v], kind = draw(moves, 16);
    *direction = draw(moves, 2) ? 1 : -1;
    if (kind < 10) {
        const int32_t w = draw_neighbour(moves, v, direction);
        if (w >= 0)
            return moves->now->placement->subgraph[w];
    }
    if (kind < 12 || moves->now->problem->accelerators == 0)
        return POOL;
    if (kind < 14 && own >= 0 && moves->now->problem->unlimited)
        return open_subgraph(moves, moves->now->placement->owner[own]);
    return draw_subgraph(moves, draw(moves, moves->now->problem->accelerators));
}

/* Move nodes away from an accelerator whose memory is exceeded. False if some memory remains exceeded. */
static bool evict(struct latency_moves *moves, int32_t full, int32_t relief) {
    for (int32_t i = 0; i < EVICTIONS && full >= 0 && moves->now->room[full] < 0.0; i++) {
        int32_t v = -1, direction;
        for (int32_t j = 0; j < TRIES && (v < 0 || moves->now->device[moves->now->problem->unit[v]] != full);
             j++)
            v = draw(moves, moves->now->problem->nodes);
        if (moves->now->device[moves->now->problem->unit[v]] != full)
            return false;
        int32_t to = draw_target(moves, v, &direction);
        if (draw(moves, 2))
            to = relief;
        if (owner_of(moves->now, to) == full || moves->now->placement->subgraph[v] < 0)
            continue;
        gather(moves, v, direction, draw(moves, 2) ? 1 : moves->now->problem->nodes);
        if (!carry_group(moves, to))
            return false;
    }
    return moves->now->overfull == 0;
}

static bool move_nodes(struct latency_moves *moves) {
    const int32_t v = draw(moves, moves->now->problem->nodes), own = moves->now->placement->subgraph[v];
    int32_t direction;
    const int32_t to = draw_target(moves, v, &direction);
    if (to == own)
        return false;
    const int32_t kind = draw(moves, 8);
    if (kind < 3)
        gather(moves, v, 0, 1);
    else if (kind == 3 && own >= 0)
        gather_subgraph(moves, own);
    else if (kind < 6 && own >= 0)
        gather(moves, v, direction, moves->now->problem->nodes);
    else
        gather(moves, v, kind % 2 ? direction : 0, 1 << draw(moves, MAX_GROUP_LOG));
    const int32_t full = owner_of(moves->now, to);
    return carry_group(moves, to) && (moves->now->overfull == 0 || evict(moves, full, own));
}

static inline bool can_join(const struct latency_moves *moves, int32_t v, int32_t own, double room) {
    const struct shard_latency_problem *problem = moves->now->problem;
    return moves->now->placement->subgraph[v] == own && problem->size[problem->unit[v]] <= room &&
           !isinf(problem->accelerator_time[v]);
}

/* True if all successors of v (predecessors if not `outwards`) that the sweep has reached, or all of them if `all`,
 * are in the group. The marks of earlier sweeps differ, so they need not be cleared. */
static bool follows(const struct latency_moves *moves, int32_t v, bool outwards, bool all, int64_t mark) {
    const struct shard_latency_problem *problem = moves->now->problem;
    const int64_t *start = outwards ? problem->out_start : problem->in_start;
    const int32_t *ends = outwards ? problem->out : problem->in;
    for (int64_t i = start[v]; i < start[v + 1]; i++)
        if (moves->group_mark[ends[i]] != mark && (all || moves->node_mark[ends[i]] == mark))
            return false;
    return true;
}

static void gather_node(struct latency_moves *moves, int32_t v, int64_t mark, double *room) {
    moves->group_mark[v] = mark;
    moves->group[moves->grouped++] = v;
    *room -= moves->now->problem->size[moves->now->problem->unit[v]];
}

/* Gather up to `most` nodes of the subgraph of v that fit in `room`, in topological order from v on, or
 * reversed, so that no path leaves the group and returns; then nodes that only the group reads or, if
 * reversed, that read only the group. */
static void sweep(struct latency_moves *moves, int32_t v, bool forwards, int32_t most, double room) {
    const struct shard_latency_problem *problem = moves->now->problem;
    const int64_t *start = forwards ? problem->out_start : problem->in_start, mark = ++moves->mark;
    const int32_t *ends = forwards ? problem->out : problem->in, own = moves->now->placement->subgraph[v],
                  n = problem->nodes;
    moves->grouped = 0;
    moves->frontier.count = 0;
    moves->node_mark[v] = mark;
    rank_heap_push(&moves->frontier, forwards ? moves->rank[v] : n - 1 - moves->rank[v]);
    for (int64_t seen = 0;
         moves->frontier.count > 0 && moves->grouped < most && seen < 64 + 4 * (int64_t)most; seen++) {
        const int32_t next = rank_heap_pop(&moves->frontier),
                      u = moves->order[forwards ? next : n - 1 - next];
        if (can_join(moves, u, own, room) && follows(moves, u, !forwards, false, mark))
            gather_node(moves, u, mark, &room);
        for (int64_t i = start[u]; i < start[u + 1]; i++) {
            if (moves->node_mark[ends[i]] != mark) {
                moves->node_mark[ends[i]] = mark;
                rank_heap_push(&moves->frontier,
                               forwards ? moves->rank[ends[i]] : n - 1 - moves->rank[ends[i]]);
            }
        }
    }
    start = forwards ? problem->in_start : problem->out_start;
    ends = forwards ? problem->in : problem->out;
    for (int32_t i = 0; i < moves->grouped; i++) {
        for (int64_t j = start[moves->group[i]]; j < start[moves->group[i] + 1]; j++) {
            const int32_t u = ends[j];
            if (moves->group_mark[u] != mark && can_join(moves, u, own, room) &&
                follows(moves, u, forwards, true, mark))
                gather_node(moves, u, mark, &room);
        }
    }
}

static bool dissolve(struct latency_moves *moves, int32_t subgraph) {
    gather_subgraph(moves, subgraph);
    return carry_group(moves, POOL);
}

/* Make a subgraph of nodes of the pool, mostly in place of a subgraph that goes to the pool. */
static bool move_subgraph(struct latency_moves *moves) {
    const struct shard_latency_problem *problem = moves->now->problem;
    int32_t v = -1, a = draw(moves, problem->accelerators);
    if (draw(moves, 4) && problem->unlimited && moves->now->active > 0) {
        const int32_t subgraph = moves->now->listed[draw(moves, moves->now->active)];
        a = moves->now->placement->owner[subgraph];
        dissolve(moves, subgraph);
    } else if (draw(moves, 4) && !problem->unlimited) {
        dissolve(moves, 2 * a);
        dissolve(moves, 2 * a + 1);
    }
    for (int32_t i = 0; i < TRIES && (v < 0 || !can_join(moves, v, POOL, moves->now->room[a])); i++)
        v = draw(moves, problem->nodes);
    if (!can_join(moves, v, POOL, moves->now->room[a]))
        return false;
    sweep(moves, v, draw(moves, 2), draw(moves, 2) ? problem->nodes : 1 << draw(moves, MAX_GROUP_LOG),
          moves->now->room[a]);
    const int32_t to = problem->unlimited ? open_subgraph(moves, a) : 2 * a;
    return carry_group(moves, to) && (moves->now->overfull == 0 || evict(moves, a, POOL));
}

/* Set the delay of a subgraph to a random value or to 0. */
static bool move_delay(struct latency_moves *moves, double scale) {
    if (moves->now->active == 0)
        return false;
    const int32_t subgraph = moves->now->listed[draw(moves, moves->now->active)];
    log_change(moves, OWNER, subgraph, moves->now->placement->owner[subgraph]);
    moves->now->placement->delay[subgraph] =
        draw(moves, 2) ? 0.0 : scale * (random_share(&moves->random) - 0.5);
    return true;
}

/* Merge or separate the passes of an accelerator. */
static bool merge_passes(struct latency_moves *moves) {
    const struct shard_latency_problem *problem = moves->now->problem;
    const int32_t a = draw(moves, problem->accelerators);
    log_change(moves, MERGED, a, moves->now->placement->merged[a]);
    moves->now->placement->merged[a] = !moves->now->placement->merged[a];
    gather_subgraph(moves, moves->now->placement->merged[a] ? 2 * a + 1 : 2 * a);
    for (int32_t i = 0; i < moves->grouped; i++)
        move_node(moves, moves->group[i], subgraph_for(moves, moves->group[i], a));
    return moves->dirtied > 0;
}

bool make_move(struct latency_moves *moves, double scale) {
    const bool many = moves->now->problem->unlimited;
    const int32_t kind = draw(moves, 32);
    moves->changes = moves->dirtied = 0;
    moves->move++;
    if (kind == 0 && (many || moves->two_passes))
        return move_delay(moves, scale);
    if (kind == 1 && !many && moves->two_passes && moves->now->problem->accelerators > 0)
        return merge_passes(moves);
    if (kind < 6 && moves->now->problem->accelerators > 0)
        return move_subgraph(moves);
    return move_nodes(moves);
}

/* ---------------------------------------------------------------- setup */

static void rank_nodes(struct latency_moves *moves, int32_t *left) {
    const struct shard_latency_problem *problem = moves->now->problem;
    int32_t found = 0;
    for (int32_t v = 0; v < problem->nodes; v++) {
        left[v] = (int32_t)(problem->in_start[v + 1] - problem->in_start[v]);
        if (left[v] == 0)
            moves->order[found++] = v;
    }
    for (int32_t i = 0; i < found; i++) {
        const int32_t v = moves->order[i];
        moves->rank[v] = i;
        for (int64_t j = problem->out_start[v]; j < problem->out_start[v + 1]; j++)
            if (--left[problem->out[j]] == 0)
                moves->order[found++] = problem->out[j];
    }
}

void latency_moves_begin(struct latency_moves *moves, struct subgraphs *now, struct arena *arena) {
    const struct shard_latency_problem *problem = now->problem;
    const int64_t n = problem->nodes;
    int32_t *left;
    moves->now = now;
    ARENA_ZEROS(arena, n, moves->rank, moves->order);
    /* at most four changes per node of every group that a move carries */
    ARENA_ZEROS(arena, 4 * (n + 1) * (3 + EVICTIONS), moves->change);
    ARENA_ZEROS(arena, problem->subgraphs, moves->dirty, moves->dirty_mark, moves->before);
    ARENA_ZEROS(arena, n + 1, moves->group, moves->frontier.item);
    ARENA_ZEROS(arena, n, moves->group_mark, moves->node_mark);
    ARENA_ARRAYS(arena, n, left);
    if (arena->failed)
        return;
    for (int32_t v = 0; v < n; v++)
        moves->two_passes |= problem->backward[v] != 0;
    rank_nodes(moves, left);
}
