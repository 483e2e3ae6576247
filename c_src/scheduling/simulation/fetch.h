/* Fetching ahead: hints to the cache, which change no result. A miss takes as long as some hundred
 * instructions, and misses that wait together take little longer than one. */
#pragma once

#include "common/inline.h"
#include "scheduling/simulation/run.h"

#define LONG_EDGES                                                                                           \
    15000.0           /* mean reach; if it is shorter, the cache holds what is read, and hints cost 10 % */
#define MAX_READERS 8 /* more are fetched while the first ones are read */

/* Vertex v, whose last input has departed, becomes executable later: fetch what `make_executable` reads. */
SHARD_INLINE void fetch_vertex(const struct run *run, int32_t v) {
    __builtin_prefetch(run->s->system.complexity + v);
    __builtin_prefetch(run->s->system.out_start + v);
    if (run->policy->rule != SHARD_IN_ORDER)
        __builtin_prefetch(run->policy->rank + v);
    if (run->policy->rule == SHARD_BY_PRIORITY)
        __builtin_prefetch(run->policy->priority + v);
}

/* Vertex v starts soon: fetch what `start_vertex` writes. */
SHARD_INLINE void fetch_start(const struct run *run, int32_t v) {
    __builtin_prefetch(run->start + v, 1);
    __builtin_prefetch(run->finish + v, 1);
}

/* A vertex has started: fetch what `end_vertex` reads of its outputs. */
SHARD_INLINE void fetch_outputs(const struct run *run, int32_t v, int64_t first) {
    __builtin_prefetch(run->s->vertex + v);
    __builtin_prefetch(run->s->system.out_start + v);
    __builtin_prefetch(run->s->system.out_head + first);
    __builtin_prefetch(run->s->system.size + first);
    if (run->arrival)
        __builtin_prefetch(run->arrival + first, 1);
    if (run->msr)
        msr_queue_fetch_edges(run->msr, first);
}

/* Vertex v finishes soon: fetch what `end_vertex` reads of its first readers. */
SHARD_INLINE void fetch_readers(const struct run *run, int32_t v) {
    const struct simulation *s = run->s;
    const int64_t first = s->system.out_start[v], end = s->system.out_start[v + 1];
    for (int64_t e = first; e < end && e < first + MAX_READERS; e++) {
        __builtin_prefetch(s->vertex + s->system.out_head[e], 1);
        if (run->msr)
            msr_queue_fetch_successor(run->msr, s->system.out_head[e]);
    }
}

/* Fetch what the next event reads; it is the next one unless an earlier one is added. */
SHARD_INLINE void fetch_next(const struct run *run) {
    const struct event_heap *events = &run->s->events;
    if (events->count == 0)
        return;
    const int64_t what = events->item[0].what;
    if (what >= 0 && what < run->s->system.nodes)
        fetch_readers(run, (int32_t)what);
}
