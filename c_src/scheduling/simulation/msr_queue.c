/* A score has a fixed part, which changes only when predecessors finish, and a part that changes as devices
 * become busy or idle. Each device has a heap of its executable vertices by the fixed part and, per other
 * device that some of them could unlock, a heap by an upper bound on the score. If no idle device can be
 * unlocked, the top of the first heap is the best vertex; else only the heaps of idle devices are searched,
 * as far down as they can hold a better one.
 *
 * The run time is mostly memory latency. So fields that are read together are stored together, what changes
 * about the vertices of a device waits in lists until the device chooses, and is fetched in the meantime. */
#include "scheduling/simulation/msr_state.h"

#include "common/inline.h"

/* True if idle devices raise scores; if they lower them, no score is above its fixed part. */
static bool rewards_idle(const struct msr_queue *queue) {
    return queue->weight[3] > 0;
}

static uint64_t *targets_of(const struct msr_queue *queue, int32_t d) {
    return queue->targets + (int64_t)d * device_words(queue->system->devices);
}

static bool unlocks_elsewhere(const struct slot *slot) {
    return slot->unlocks > 0 && slot->link >= 0;
}

static int32_t first_slot(const struct msr_queue *queue, int32_t number) {
    return (int32_t)queue->entry[number].first;
}

/* The part of a score that does not depend on which devices are idle. */
static double fixed_score(const struct msr_queue *queue, const struct candidate *candidate) {
    return candidate->base + queue->weight[2] * candidate->unlocks;
}

/* The number of an executable vertex's successors that idle devices could start. */
static int32_t activated(const struct msr_queue *queue, int32_t number, const uint64_t *idle) {
    int32_t count = 0;
    for (int32_t i = first_slot(queue, number); i < queue->candidate[number].end; i++) {
        const struct slot *slot = queue->slots + i;
        if (unlocks_elsewhere(slot) && has_device(idle, queue->links[slot->link].target))
            count += slot->unlocks;
    }
    return count;
}

/* Update a vertex in the heaps of the devices that it could unlock. */
static void update_links(struct msr_queue *queue, int32_t d, struct unlocker item) {
    const int32_t first = first_slot(queue, item.ready), end = queue->candidate[item.ready].end;
    for (int32_t i = first; i < end; i++) {
        if (!unlocks_elsewhere(queue->slots + i))
            continue;
        const struct unlock_link *link = queue->links + queue->slots[i].link;
        item.spare -= (item.others & device_bit(link->target)) == 0;
        item.others |= device_bit(link->target);
        __builtin_prefetch(link->heap.item + link->heap.count, 1); /* a new item's place and its parent's */
        __builtin_prefetch(link->heap.item + (link->heap.count - 1) / 2);
    }
    for (int32_t i = first; i < end; i++) {
        if (!unlocks_elsewhere(queue->slots + i))
            continue;
        struct unlock_link *link = queue->links + queue->slots[i].link;
        item.number = i;
        unlocker_heap_update(&link->heap, item);
        add_device(targets_of(queue, d), link->target);
    }
}

/* Update an executable vertex of device d in all heaps. */
static void rescore(struct msr_queue *queue, int32_t d, int32_t number) {
    const struct candidate *candidate = queue->candidate + number;
    const double fixed = fixed_score(queue, candidate);
    const int32_t unlocks = candidate->unlocks_elsewhere;
    score_heap_update(queue->heaps + d, (struct ready){fixed, candidate->turn, number});
    if (!rewards_idle(queue) || unlocks == 0)
        return;
    const double bound = fixed + queue->weight[3] * unlocks;
    update_links(queue, d, (struct unlocker){bound, candidate->turn, fixed, 0, 0, number, unlocks});
}

/* Let the slots of an executable vertex know its number, and sum them. */
static void enter_slots(const struct msr_queue *queue, int32_t number) {
    struct candidate *candidate = queue->candidate + number;
    const int64_t end = queue->system->out_start[queue->entry[number].node + 1];
    int32_t successors = 0, elsewhere = 0, i = first_slot(queue, number);
    for (; i < end && queue->slots[i].successors > 0; i++) {
        struct slot *slot = queue->slots + i;
        slot->ready = number;
        successors += slot->successors;
        candidate->unlocks += slot->unlocks;
        if (slot->link < 0)
            continue;
        elsewhere += slot->successors;
        candidate->unlocks_elsewhere += slot->unlocks;
    }
    candidate->end = i;
    candidate->base = queue->weight[0] * successors + queue->weight[1] * elsewhere;
}

void msr_queue_add(struct msr_queue *queue, int32_t d, uint64_t turn, int32_t number) {
    queue->candidate[number] = (struct candidate){.turn = turn, .next = queue->added[d]};
    queue->added[d] = number;
    __builtin_prefetch(queue->slots + first_slot(queue, number));
}

void msr_queue_fetch_edges(const struct msr_queue *queue, int64_t first) {
    __builtin_prefetch(queue->slot_of + first);
}

void msr_queue_fetch_successor(const struct msr_queue *queue, int32_t successor) {
    __builtin_prefetch(queue->waiting + successor);
}

void msr_queue_finish(struct msr_queue *queue, int32_t v, int32_t d) {
    for (int64_t e = queue->system->out_start[v]; e < queue->system->out_start[v + 1]; e++) {
        const int32_t head = queue->system->out_head[e];
        struct waiting *w = queue->waiting + head;
        w->slots ^= queue->slot_of[e];
        w->devices ^= d;
        if (--w->pending != 1)
            continue;
        w->next = queue->sole[w->devices];
        queue->sole[w->devices] = head;
        __builtin_prefetch(queue->slots + w->slots);
    }
}

/* Count what has come to wait for one vertex of device d, and rescore those that are executable. */
static void count_sole_predecessors(struct msr_queue *queue, int32_t d) {
    for (int32_t w = queue->sole[d]; w >= 0; w = queue->waiting[w].next) {
        if (queue->waiting[w].pending != 1)
            continue; /* the vertex has finished meanwhile */
        struct slot *slot = queue->slots + queue->waiting[w].slots;
        slot->unlocks++;
        if (slot->ready < 0)
            continue; /* it runs, or its slots are summed when it becomes executable */
        queue->candidate[slot->ready].unlocks++;
        queue->candidate[slot->ready].unlocks_elsewhere += slot->link >= 0;
        rescore(queue, d, slot->ready);
    }
    queue->sole[d] = -1;
}

/* Insert the vertices of device d that have become executable. */
static void insert_added(struct msr_queue *queue, int32_t d) {
    for (int32_t i = queue->added[d]; i >= 0; i = queue->candidate[i].next) {
        enter_slots(queue, i);
        rescore(queue, d, i);
    }
    queue->added[d] = -1;
}

/* Fetch what removes a vertex. */
SHARD_INLINE void fetch_found(const struct msr_queue *queue, const struct unlocker *item) {
    __builtin_prefetch(queue->entry + item->ready);
    __builtin_prefetch(queue->candidate + item->ready);
    __builtin_prefetch(queue->at + item->ready, 1);
    __builtin_prefetch(queue->slots + item->number, 1);
    __builtin_prefetch(queue->slot_at + item->number, 1);
}

/* A search for the best vertex of a device. */
struct search {
    const struct msr_queue *queue;
    const uint64_t *idle;
    uint64_t folded; /* the idle devices, each modulo DEVICE_WORD */
    struct ready best;
};

/* Compare a vertex with the best one. Assume first that only one successor waits on each busy device: this is
 * exact if there are as many successors as devices; else count them if the vertex could be better. */
static void consider(struct search *search, const struct unlocker *item) {
    const struct msr_queue *queue = search->queue;
    int32_t most = item->spare;
    for (uint64_t rest = item->others & search->folded; rest > 0; rest &= rest - 1)
        most++;
    struct ready found = {item->fixed + queue->weight[3] * most, item->turn, item->ready};
    if (!runs_before(found, search->best))
        return;
    if (item->spare > 0 || queue->system->devices > DEVICE_WORD)
        found.priority = item->fixed + queue->weight[3] * activated(queue, item->ready, search->idle);
    if (!runs_before(found, search->best))
        return;
    search->best = found;
    if (queue->fetches)
        fetch_found(queue, item);
}

/* Fetch the top of a heap and its children. */
SHARD_INLINE void fetch_top(const struct unlocker_heap *heap) {
    __builtin_prefetch(heap->item);
    __builtin_prefetch(heap->item + 1);
    __builtin_prefetch(heap->item + 2);
}

/* Search the subtree of the heap at a place; its bounds are not below the scores. */
static void search_below(struct search *search, const struct unlocker_heap *heap, int64_t at) {
    if (at >= heap->count)
        return;
    const struct unlocker *item = heap->item + at;
    if (!runs_before((struct ready){item->bound, item->turn, 0}, search->best))
        return;
    consider(search, item);
    search_below(search, heap, 2 * at + 1);
    search_below(search, heap, 2 * at + 2);
}

/* Search the heaps of the idle devices that vertices of device d could unlock. */
static void search_links(struct search *search, int32_t d) {
    const struct msr_queue *queue = search->queue;
    const int32_t k = queue->system->devices;
    const uint64_t *targets = targets_of(queue, d);
    const int32_t *link_number = queue->link_number + (int64_t)d * k;
    for (int32_t i = 0; i < device_words(k); i++)
        search->folded |= search->idle[i];
    for (int32_t i = 0; i < device_words(k); i++) {
        const uint64_t found = search->idle[i] & targets[i];
        const int32_t *number = link_number + (int64_t)DEVICE_WORD * i;
        for (uint64_t rest = found; rest > 0; rest &= rest - 1)
            fetch_top(&queue->links[number[__builtin_ctzll(rest)] - 1].heap);
        for (uint64_t rest = found; rest > 0; rest &= rest - 1)
            search_below(search, &queue->links[number[__builtin_ctzll(rest)] - 1].heap, 0);
    }
}

/* Search the subtree of a device's heap at a place, if idle devices lower scores. */
static void search_fixed(struct search *search, const struct score_heap *heap, int64_t at) {
    if (at >= heap->count || !runs_before(heap->item[at], search->best))
        return;
    struct ready found = heap->item[at];
    found.priority += search->queue->weight[3] * activated(search->queue, found.number, search->idle);
    if (search->best.number < 0 || runs_before(found, search->best))
        search->best = found;
    search_fixed(search, heap, 2 * at + 1);
    search_fixed(search, heap, 2 * at + 2);
}

int32_t msr_queue_choose(struct msr_queue *queue, int32_t d, const uint64_t *idle) {
    const struct score_heap *heap = queue->heaps + d;
    count_sole_predecessors(queue, d);
    insert_added(queue, d);
    if (heap->count == 0)
        return -1;
    struct search search = {queue, idle, 0, {-INFINITY, UINT64_MAX, -1}};
    if (rewards_idle(queue)) {
        search.best = heap->item[0];
        search_links(&search, d);
    } else {
        search_fixed(&search, heap, 0);
    }
    return search.best.number;
}

/* Remove an executable vertex from the heaps of the devices that it could unlock. */
static void leave_links(struct msr_queue *queue, int32_t d, int32_t number) {
    const int32_t end = queue->candidate[number].end;
    for (int32_t i = first_slot(queue, number); i < end; i++) {
        queue->slots[i].ready = -1;
        if (!rewards_idle(queue) || !unlocks_elsewhere(queue->slots + i))
            continue;
        struct unlock_link *link = queue->links + queue->slots[i].link;
        unlocker_heap_remove(&link->heap, i);
        if (link->heap.count == 0)
            remove_device(targets_of(queue, d), link->target);
    }
}

/* Fetch what a heap reads first as it removes the item of a number. */
SHARD_INLINE void fetch_removed(const struct score_heap *heap, int32_t number) {
    const int64_t at = heap->place[number];
    __builtin_prefetch(heap->item + at, 1);
    __builtin_prefetch(heap->item + (at > 0 ? at - 1 : 0) / 2);
    __builtin_prefetch(heap->item + 2 * at + 1);
    __builtin_prefetch(heap->item + heap->count - 1);
}

void msr_queue_remove(struct msr_queue *queue, int32_t d, int32_t number) {
    if (queue->fetches)
        fetch_removed(queue->heaps + d, number);
    leave_links(queue, d, number);
    score_heap_remove(queue->heaps + d, number);
}
