/* Counts of consumers per stage determine what a move changes. */
#include "pipeline/partition.h"

void partition_allocate(struct partition *partition, struct arena *arena,
                        const struct shard_pipeline *problem) {
    const int64_t n = problem->nodes, k = problem->stages;
    *partition = (struct partition){.problem = problem, .limited = isfinite(problem->memory)};
    ARENA_ARRAYS(arena, n, partition->home, partition->next, partition->prior, partition->mark,
                 partition->left, partition->member);
    ARENA_ARRAYS(arena, n * k, partition->readers);
    ARENA_ARRAYS(arena, k, partition->stage, partition->rank, partition->at, partition->first,
                 partition->waiting);
    ARENA_ARRAYS(arena, LONGEST_RUN, partition->run, partition->place);
    ARENA_ARRAYS(arena, k + 2, partition->start);
}

static int32_t out_degree(const struct shard_pipeline *problem, int32_t v) {
    return (int32_t)(problem->out_start[v + 1] - problem->out_start[v]);
}

/* The number of consumers of u in each stage: stages elements. */
static int32_t *readers_of(const struct partition *partition, int32_t u) {
    return partition->readers + (int64_t)u * partition->problem->stages;
}

void partition_start(struct partition *partition, const int32_t *order, const int32_t *cut) {
    const struct shard_pipeline *problem = partition->problem;
    for (int32_t b = 0; b < problem->stages; b++) {
        partition->rank[b] = partition->at[b] = b;
        partition->first[b] = NO_NODE;
        for (int32_t p = cut[b + 1] - 1; p >= cut[b]; p--) {
            partition->home[order[p]] = b;
            partition_link(partition, order[p], b, NO_NODE);
        }
    }
    memset(partition->readers, 0,
           (size_t)problem->nodes * (size_t)problem->stages * sizeof *partition->readers);
    for (int32_t v = 0; v < problem->nodes; v++) {
        partition->mark[v] = NO_NODE;
        for (int64_t e = problem->in_start[v]; e < problem->in_start[v + 1]; e++)
            readers_of(partition, problem->in_tail[e])[partition->home[v]]++;
    }
    partition_recount(partition);
}

void partition_recount(struct partition *partition) {
    const struct shard_pipeline *problem = partition->problem;
    memset(partition->stage, 0, (size_t)problem->stages * sizeof *partition->stage);
    for (int32_t v = 0; v < problem->nodes; v++) {
        const int32_t *readers = readers_of(partition, v);
        struct stage *home = &partition->stage[partition->home[v]];
        home->work += problem->work[v];
        home->param += partition->limited ? problem->param_size[v] : 0.0;
        for (int32_t b = 0; b < problem->stages; b++) {
            if (readers[b] > 0 && b != partition->home[v]) {
                partition->stage[b].incoming += problem->output_size[v];
                partition->stage[b].crossing += problem->output_size[v];
            }
        }
        if (readers[partition->home[v]] < out_degree(problem, v))
            home->crossing += problem->output_size[v];
    }
    for (int32_t b = 0; b < problem->stages; b++) {
        struct stage *stage = &partition->stage[b];
        const double peak = partition->limited ? partition_peak(partition, b, stage->incoming) : 0.0;
        stage->cost = partition_cost(partition, stage, peak);
    }
}

/* Fill `start` and `member` as a CSR structure: nodes by stage, in the order of `order` (NULL: by index). */
static void group(struct partition *partition, const int32_t *order) {
    const struct shard_pipeline *problem = partition->problem;
    int32_t *start = partition->start;
    memset(start, 0, ((size_t)problem->stages + 2) * sizeof *start);
    for (int32_t v = 0; v < problem->nodes; v++)
        start[partition->home[v] + 2]++;
    for (int32_t b = 2; b <= problem->stages; b++)
        start[b] += start[b - 1];
    for (int32_t p = 0; p < problem->nodes; p++) {
        const int32_t v = order ? order[p] : p;
        partition->member[start[partition->home[v] + 1]++] = v;
    }
}

void partition_slicing(struct partition *partition, const int32_t *order, int32_t *sliced, int32_t *cut) {
    const struct shard_pipeline *problem = partition->problem;
    int32_t placed = 0;
    if (!partition->limited)
        group(partition, order);
    for (int32_t rank = 0; rank < problem->stages; rank++) {
        const int32_t b = partition->at[rank];
        cut[rank] = placed;
        if (partition->limited)
            for (int32_t v = partition->first[b]; v != NO_NODE; v = partition->next[v])
                sliced[placed++] = v;
        else
            for (int32_t i = partition->start[b]; i < partition->start[b + 1]; i++)
                sliced[placed++] = partition->member[i];
    }
    cut[problem->stages] = placed;
}

void partition_rerank(struct partition *partition, struct random *random) {
    const struct shard_pipeline *problem = partition->problem;
    const int32_t *home = partition->home;
    int32_t *ready = partition->at; /* at[rank ..] is free until a stage of that rank is known */
    int32_t known = 0;
    group(partition, NULL);
    memset(partition->waiting, 0, (size_t)problem->stages * sizeof *partition->waiting);
    for (int32_t u = 0; u < problem->nodes; u++)
        for (int64_t e = problem->out_start[u]; e < problem->out_start[u + 1]; e++)
            partition->waiting[home[problem->out_head[e]]] += home[problem->out_head[e]] != home[u];
    for (int32_t b = 0; b < problem->stages; b++)
        if (partition->waiting[b] == 0)
            ready[known++] = b;
    for (int32_t rank = 0; rank < problem->stages; rank++) {
        const int32_t chosen = rank + random_below(random, known - rank), b = ready[chosen];
        ready[chosen] = ready[rank];
        ready[rank] = b;
        partition->rank[b] = rank;
        for (int32_t i = partition->start[b]; i < partition->start[b + 1]; i++) {
            const int32_t u = partition->member[i];
            for (int64_t e = problem->out_start[u]; e < problem->out_start[u + 1]; e++) {
                const int32_t to = home[problem->out_head[e]];
                if (to != b && --partition->waiting[to] == 0)
                    ready[known++] = to;
            }
        }
    }
}

double partition_cost(const struct partition *partition, const struct stage *stage, double peak) {
    const struct shard_pipeline *problem = partition->problem;
    const double excess = partition->limited ? stage->param + peak - problem->memory : 0.0;
    return stage->work + (stage->crossing + (excess > 0.0 ? excess : 0.0)) / problem->bandwidth;
}

/* Apply the changes of the tensors that v consumes to the two stages. */
static void preview_inputs(const struct partition *partition, int32_t v, int32_t to, struct stage *leaves,
                           struct stage *joins) {
    const struct shard_pipeline *problem = partition->problem;
    const int32_t from = partition->home[v];
    for (int64_t e = problem->in_start[v]; e < problem->in_start[v + 1]; e++) {
        const int32_t u = problem->in_tail[e];
        const int32_t *readers = readers_of(partition, u);
        const double size = problem->output_size[u];
        if (partition->home[u] == from) {
            if (readers[from] == out_degree(problem, u))
                leaves->crossing += size;
        } else if (readers[from] == 1) {
            leaves->crossing -= size;
            leaves->incoming -= size;
        }
        if (partition->home[u] == to) {
            if (readers[to] + 1 == out_degree(problem, u))
                joins->crossing -= size;
        } else if (readers[to] == 0) {
            joins->crossing += size;
            joins->incoming += size;
        }
    }
}

void partition_preview(const struct partition *partition, int32_t v, int32_t to, struct stage *leaves,
                       struct stage *joins) {
    const struct shard_pipeline *problem = partition->problem;
    const int32_t from = partition->home[v], consumers = out_degree(problem, v);
    const int32_t *readers = readers_of(partition, v);
    const double size = problem->output_size[v];
    const double param = partition->limited ? problem->param_size[v] : 0.0;
    *leaves = partition->stage[from];
    *joins = partition->stage[to];
    preview_inputs(partition, v, to, leaves, joins);
    const double kept = readers[from] > 0 ? size : 0.0, fetched = readers[to] > 0 ? size : 0.0;
    leaves->incoming += kept;
    leaves->crossing += kept - (readers[from] < consumers ? size : 0.0);
    joins->incoming -= fetched;
    joins->crossing += (readers[to] < consumers ? size : 0.0) - fetched;
    leaves->work -= problem->work[v];
    joins->work += problem->work[v];
    leaves->param -= param;
    joins->param += param;
    leaves->cost = partition_cost(partition, leaves, leaves->incoming);
    joins->cost = partition_cost(partition, joins, joins->incoming);
}

void partition_move(struct partition *partition, int32_t v, int32_t to) {
    const struct shard_pipeline *problem = partition->problem;
    for (int64_t e = problem->in_start[v]; e < problem->in_start[v + 1]; e++) {
        int32_t *readers = readers_of(partition, problem->in_tail[e]);
        readers[partition->home[v]]--;
        readers[to]++;
    }
    partition->home[v] = to;
}

/* A tensor is in memory from the start, or from when it is made, until its last consumer in the stage has
 * run; if it was made here and is consumed elsewhere too, until the end. */
double partition_peak(struct partition *partition, int32_t b, double incoming) {
    const struct shard_pipeline *problem = partition->problem;
    double in_use = incoming, peak = 0.0;
    for (int32_t v = partition->first[b]; v != NO_NODE; v = partition->next[v])
        for (int64_t e = problem->in_start[v]; e < problem->in_start[v + 1]; e++)
            partition->left[problem->in_tail[e]] = readers_of(partition, problem->in_tail[e])[b];
    for (int32_t v = partition->first[b]; v != NO_NODE; v = partition->next[v]) {
        in_use += problem->output_size[v];
        peak = in_use > peak ? in_use : peak;
        for (int64_t e = problem->in_start[v]; e < problem->in_start[v + 1]; e++) {
            const int32_t u = problem->in_tail[e];
            const bool kept = partition->home[u] == b && readers_of(partition, u)[b] < out_degree(problem, u);
            if (--partition->left[u] == 0 && !kept)
                in_use -= problem->output_size[u];
        }
        if (out_degree(problem, v) == 0)
            in_use -= problem->output_size[v];
    }
    return peak;
}

void partition_unlink(struct partition *partition, int32_t v, int32_t b) {
    const int32_t next = partition->next[v], prior = partition->prior[v];
    if (prior == NO_NODE)
        partition->first[b] = next;
    else
        partition->next[prior] = next;
    if (next != NO_NODE)
        partition->prior[next] = prior;
}

void partition_link(struct partition *partition, int32_t v, int32_t b, int32_t after) {
    const int32_t next = after == NO_NODE ? partition->first[b] : partition->next[after];
    partition->next[v] = next;
    partition->prior[v] = after;
    if (after == NO_NODE)
        partition->first[b] = v;
    else
        partition->next[after] = v;
    if (next != NO_NODE)
        partition->prior[next] = v;
}

/* Mark the producers and the consumers of a node. */
static void mark_neighbours(struct partition *partition, int32_t v, int32_t producers, int32_t consumers) {
    const struct shard_pipeline *problem = partition->problem;
    for (int64_t e = problem->in_start[v]; e < problem->in_start[v + 1]; e++)
        partition->mark[problem->in_tail[e]] = producers;
    for (int64_t e = problem->out_start[v]; e < problem->out_start[v + 1]; e++)
        partition->mark[problem->out_head[e]] = consumers;
}

int32_t partition_place(struct partition *partition, int32_t v, int32_t b, struct random *random) {
    int32_t after = NO_NODE, room = 1;
    mark_neighbours(partition, v, v, partition->problem->nodes);
    for (int32_t u = partition->first[b]; u != NO_NODE; u = partition->next[u]) {
        if (partition->mark[u] == partition->problem->nodes)
            break;
        room = partition->mark[u] == v ? 1 : room + 1;
        after = partition->mark[u] == v ? u : after;
    }
    mark_neighbours(partition, v, NO_NODE, NO_NODE);
    for (int32_t step = random_below(random, room); step > 0; step--)
        after = after == NO_NODE ? partition->first[b] : partition->next[after];
    return after;
}

/* Sort the nodes of the run, which are marked with themselves meanwhile, into the order of the list. */
static void sort_run(struct partition *partition, int32_t count, int32_t b) {
    int32_t sorted = 0;
    for (int32_t i = 0; i < count; i++)
        partition->mark[partition->run[i]] = partition->run[i];
    for (int32_t v = partition->first[b]; sorted < count; v = partition->next[v])
        if (partition->mark[v] == v)
            partition->run[sorted++] = v;
    for (int32_t i = 0; i < count; i++)
        partition->mark[partition->run[i]] = NO_NODE;
}

/* Gather the run that begins with v, breadth first; true if it fits. *nearest is the number of ranks to the
 * next neighbour in another stage, and untouched if there is none. */
static bool gather_run(struct partition *partition, int32_t v, bool forwards, int32_t *count,
                       int32_t *nearest) {
    const struct shard_pipeline *problem = partition->problem;
    const int64_t *start = forwards ? problem->out_start : problem->in_start;
    const int32_t *end = forwards ? problem->out_head : problem->in_tail;
    const int32_t from = partition->home[v];
    bool fits = true;
    partition->run[0] = v;
    *count = 1;
    for (int32_t i = 0; i < *count && fits; i++) {
        for (int64_t e = start[partition->run[i]]; e < start[partition->run[i] + 1] && fits; e++) {
            const int32_t u = end[e], b = partition->home[u];
            const int32_t distance = abs(partition->rank[b] - partition->rank[from]);
            if (b != from) {
                *nearest = distance < *nearest ? distance : *nearest;
            } else if (partition->mark[u] == NO_NODE) {
                fits = *count < LONGEST_RUN;
                if (fits) {
                    partition->mark[u] = v;
                    partition->run[(*count)++] = u;
                }
            }
        }
    }
    for (int32_t i = 1; i < *count; i++)
        partition->mark[partition->run[i]] = NO_NODE;
    return fits;
}

int32_t partition_run(struct partition *partition, int32_t v, bool forwards, int32_t *to) {
    const int32_t from = partition->home[v];
    int32_t count, nearest = INT32_MAX;
    if (!gather_run(partition, v, forwards, &count, &nearest))
        return 0;
    const int32_t further = nearest < INT32_MAX ? nearest : 1;
    const int32_t rank = partition->rank[from] + (forwards ? further : -further);
    if (rank < 0 || rank >= partition->problem->stages)
        return 0;
    if (partition->limited)
        sort_run(partition, count, from);
    *to = partition->at[rank];
    return count;
}

/* The last node of a list, NO_NODE if it is empty. */
static int32_t last_of(const struct partition *partition, int32_t b) {
    int32_t last = NO_NODE;
    for (int32_t v = partition->first[b]; v != NO_NODE; v = partition->next[v])
        last = v;
    return last;
}

void partition_move_run(struct partition *partition, int32_t count, bool forwards, int32_t to,
                        struct stage *leaves, struct stage *joins) {
    const int32_t from = partition->home[partition->run[0]];
    const struct stage had[2] = {partition->stage[from], partition->stage[to]};
    int32_t after = partition->limited && !forwards ? last_of(partition, to) : NO_NODE;
    for (int32_t i = 0; i < count && partition->limited; i++)
        partition->place[i] = partition->prior[partition->run[i]];
    for (int32_t i = 0; i < count; i++) {
        const int32_t v = partition->run[i];
        partition_preview(partition, v, to, leaves, joins);
        partition_move(partition, v, to);
        partition->stage[from] = *leaves;
        partition->stage[to] = *joins;
        if (partition->limited) {
            partition_unlink(partition, v, from);
            partition_link(partition, v, to, after);
            after = v;
        }
    }
    partition->stage[from] = had[0];
    partition->stage[to] = had[1];
}

void partition_return_run(struct partition *partition, int32_t count, int32_t from) {
    for (int32_t i = 0; i < count; i++) {
        const int32_t v = partition->run[i];
        if (partition->limited) {
            partition_unlink(partition, v, partition->home[v]);
            partition_link(partition, v, from, partition->place[i]);
        }
        partition_move(partition, v, from);
    }
}
