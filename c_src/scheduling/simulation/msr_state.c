/* Construction of an `msr_queue`: which successors share a device, and where each heap has its items. */
#include "scheduling/simulation/msr_state.h"

#include "common/inline.h"

#define EDGES_AHEAD 32 /* from the fetch of a successor to its turn: a miss takes as long as some 20 edges */

/* The number of the link between two different devices, which is created if necessary. */
static int32_t link_between(struct msr_queue *queue, int32_t from, int32_t to) {
    int32_t *number = queue->link_number + (int64_t)from * queue->system->devices + to;
    if (*number == 0) {
        queue->links[queue->link_count] = (struct unlock_link){.target = to};
        *number = ++queue->link_count;
    }
    return *number - 1;
}

/* Fetch what make_slots reads of a successor that it comes to soon, by edge. */
SHARD_INLINE void fetch_successor(const struct msr_queue *queue, int64_t e) {
    if (e >= queue->system->out_start[queue->system->nodes])
        return;
    const int32_t w = queue->system->out_head[e];
    __builtin_prefetch(queue->waiting + w, 1);
    __builtin_prefetch(queue->device + w);
}

/* Give each successor of vertex v a slot. newest, devices elements: the last slot to each device. */
static void make_slots(struct msr_queue *queue, int32_t v, int32_t *newest) {
    const int32_t first = (int32_t)queue->system->out_start[v], from = queue->device[v];
    const int64_t end = queue->system->out_start[v + 1];
    int32_t count = first;
    for (int64_t e = first; e < end; e++) {
        if (queue->fetches)
            fetch_successor(queue, e + EDGES_AHEAD);
        const int32_t w = queue->system->out_head[e], to = queue->device[w];
        if (newest[to] < first) {
            const int32_t link = from == to ? -1 : link_between(queue, from, to);
            newest[to] = count++;
            queue->slots[newest[to]] = (struct slot){-1, link, 0, 0};
            if (link >= 0)
                queue->links[link].heap.count++;
        }
        queue->slots[newest[to]].successors++;
        queue->slot_of[e] = newest[to];
        queue->slot_at[e] = -1;
        queue->waiting[w].pending++;
        queue->waiting[w].slots ^= newest[to];
        queue->waiting[w].devices ^= from;
    }
    for (; count < end; count++)
        queue->slots[count].successors = 0;
}

/* Give each heap its part of the items: item, nodes elements, and slot_item, edges elements. */
static void make_heaps(struct msr_queue *queue, struct ready *item, struct unlocker *slot_item) {
    for (int32_t i = 0; i < queue->link_count; i++) {
        const int64_t count = queue->links[i].heap.count;
        queue->links[i].heap = (struct unlocker_heap){slot_item, queue->slot_at, 0};
        slot_item += count;
    }
    for (int32_t v = 0; v < queue->system->nodes; v++)
        queue->heaps[queue->device[v]].count++;
    for (int32_t d = 0; d < queue->system->devices; d++) {
        const int64_t count = queue->heaps[d].count;
        queue->heaps[d] = (struct score_heap){item, queue->at, 0};
        item += count;
    }
}

/* Nothing is executable yet. newest, scratch, devices elements. */
static void begin(struct msr_queue *queue, int32_t *newest) {
    for (int32_t d = 0; d < queue->system->devices; d++)
        newest[d] = queue->sole[d] = queue->added[d] = -1;
    for (int32_t v = 0; v < queue->system->nodes; v++) {
        queue->at[v] = -1;
        make_slots(queue, v, newest);
    }
    for (int32_t w = 0; w < queue->system->nodes; w++)
        if (queue->waiting[w].pending == 1)
            queue->slots[queue->waiting[w].slots].unlocks++;
}

struct msr_queue *msr_queue_new(struct arena *arena, const struct shard_system *system, const int32_t *device,
                                const struct entry *entry, const double *weight, bool fetches) {
    const int64_t n = system->nodes, k = system->devices, m = system->out_start[n];
    struct ready *item;
    struct unlocker *slot_item;
    int32_t *newest;
    struct msr_queue *queue;
    if (!ARENA_ZEROS(arena, 1, queue))
        return NULL;
    queue->system = system;
    queue->device = device;
    queue->entry = entry;
    queue->weight = weight;
    queue->fetches = fetches;
    ARENA_ZEROS(arena, n, queue->waiting);
    ARENA_ARRAYS(arena, n, queue->candidate, queue->at, item);
    ARENA_ARRAYS(arena, m, queue->slots, queue->slot_of, queue->slot_at, slot_item);
    ARENA_ZEROS(arena, k, queue->heaps);
    ARENA_ARRAYS(arena, k, queue->sole, queue->added, newest);
    ARENA_ZEROS(arena, k * device_words(system->devices), queue->targets);
    ARENA_ZEROS(arena, k * k, queue->link_number);
    ARENA_ARRAYS(arena, m < k * k ? m : k * k, queue->links);
    if (arena->failed)
        return NULL;
    begin(queue, newest);
    make_heaps(queue, item, slot_item);
    return queue;
}
