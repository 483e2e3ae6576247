/* A score has a fixed part, which changes only when predecessors finish, and a part that changes as devices
 * become busy or idle. Each device has a heap of its executable vertices by the fixed part and, per other
 * device that some of them could unlock, a heap by an upper bound on the score. If no idle device can be
 * unlocked, the top of the first heap is the best vertex; else only the heaps of idle devices are searched,
 * as far down as they can hold a better one. */
#include "scheduling/msr_queue.h"

HEAP_WITH_PLACES(slot_heap, struct ready, runs_before)

/* Fields that are read together are stored together: the run time is mostly memory latency. */
struct vertex {
    int64_t pending_edges; /* exclusive or of the edges from unfinished predecessors */
    int32_t pending;       /* number of these edges; if 1, pending_edges is the edge */
    int32_t slots;         /* devices of successors: slots[out_start[v]] and so on */
    int32_t elsewhere;     /* successors on other devices */
    int32_t unlocks;       /* successors that wait for it alone, once it is executable */
    int32_t unlocks_elsewhere;
};

/* The successors of one vertex on one device. */
struct slot {
    int32_t of_edge; /* slot of the edge with this number */
    int32_t node;
    int32_t link;    /* from the vertex's device to theirs; -1 if it is the same */
    int32_t unlocks; /* number of them that wait for the vertex alone, once it is executable */
};

/* A heap of the slots that vertices of one device could unlock on another. */
struct link {
    int32_t target;
    int32_t next; /* next link from the same device whose heap is not empty, or -1 */
    int32_t prior;
    int64_t slots;
    struct slot_heap heap;
};

struct msr_queue {
    const struct shard_system *system;
    const int32_t *device;
    const double *weight;
    /* by vertex */
    struct vertex *vertex;
    int32_t *at;        /* place in the heap of its device */
    struct ready *item; /* of all devices' heaps */
    /* by edge */
    struct slot *slots;
    int32_t *slot_at; /* place of a slot in the heap of its link */
    struct ready *slot_item;
    /* by device */
    struct slot_heap *heaps;
    int32_t *first_link;  /* the first link from it whose heap is not empty, or -1 */
    int32_t *newest_slot; /* the last slot to it */
    /* by pair of devices that some edge joins */
    int32_t *number; /* of each pair, plus 1 */
    struct link *links;
    int32_t link_count;
};

/* The part of a score that does not depend on which devices are idle. */
static double fixed_score(const struct msr_queue *queue, int32_t v) {
    const double *weight = queue->weight;
    const double count = (double)(queue->system->out_start[v + 1] - queue->system->out_start[v]);
    return weight[0] * count + weight[1] * queue->vertex[v].elsewhere + weight[2] * queue->vertex[v].unlocks;
}

static double score(const struct msr_queue *queue, int32_t v, const bool *busy) {
    int32_t activated = 0;
    const int64_t first = queue->system->out_start[v];
    for (int64_t i = first; i < first + queue->vertex[v].slots; i++) {
        const struct slot *slot = queue->slots + i;
        if (slot->unlocks > 0 && slot->link >= 0 && !busy[queue->links[slot->link].target])
            activated += slot->unlocks;
    }
    return fixed_score(queue, v) + queue->weight[3] * activated;
}

/* True if idle devices raise scores; if they lower them, no score is above its fixed part. */
static bool rewards_idle(const struct msr_queue *queue) {
    return queue->weight[3] > 0;
}

/* Add a link to the list of its device, before its heap gets its first item. */
static void attach(struct msr_queue *queue, int32_t number, int32_t device) {
    struct link *link = queue->links + number;
    link->prior = -1;
    link->next = queue->first_link[device];
    if (link->next >= 0)
        queue->links[link->next].prior = number;
    queue->first_link[device] = number;
}

/* Remove a link with an empty heap from the list of its device. */
static void detach(struct msr_queue *queue, int32_t number, int32_t device) {
    const struct link *link = queue->links + number;
    if (link->next >= 0)
        queue->links[link->next].prior = link->prior;
    if (link->prior >= 0)
        queue->links[link->prior].next = link->next;
    else
        queue->first_link[device] = link->next;
}

/* Update a vertex in all heaps. */
static void rescore(struct msr_queue *queue, struct ready item) {
    const int32_t v = item.number;
    item.priority = fixed_score(queue, v);
    slot_heap_update(queue->heaps + queue->device[v], item);
    if (!rewards_idle(queue))
        return;
    item.priority += queue->weight[3] * queue->vertex[v].unlocks_elsewhere;
    const int64_t first = queue->system->out_start[v];
    for (int64_t i = first; i < first + queue->vertex[v].slots; i++) {
        const struct slot *slot = queue->slots + i;
        item.number = (int32_t)i;
        if (slot->unlocks == 0 || slot->link < 0)
            continue;
        if (queue->links[slot->link].heap.count == 0)
            attach(queue, slot->link, queue->device[v]);
        slot_heap_update(&queue->links[slot->link].heap, item);
    }
}

static void count_unlocked(struct msr_queue *queue, int64_t e) {
    struct slot *slot = queue->slots + queue->slots[e].of_edge;
    slot->unlocks++;
    queue->vertex[slot->node].unlocks++;
    queue->vertex[slot->node].unlocks_elsewhere += slot->link >= 0;
}

void msr_queue_add(struct msr_queue *queue, int32_t v, double since, int32_t rank) {
    for (int64_t e = queue->system->out_start[v]; e < queue->system->out_start[v + 1]; e++)
        if (queue->vertex[queue->system->out_head[e]].pending == 1)
            count_unlocked(queue, e);
    rescore(queue, (struct ready){0, since, rank, v});
}

void msr_queue_finish(struct msr_queue *queue, int32_t v) {
    for (int64_t e = queue->system->out_start[v]; e < queue->system->out_start[v + 1]; e++) {
        struct vertex *w = queue->vertex + queue->system->out_head[e];
        w->pending_edges ^= e;
        if (--w->pending != 1)
            continue;
        const int32_t u = queue->slots[w->pending_edges].node;
        if (queue->at[u] < 0)
            continue; /* it runs, or its successors are counted when it becomes executable */
        count_unlocked(queue, w->pending_edges);
        rescore(queue, queue->heaps[queue->device[u]].item[queue->at[u]]);
    }
}

static void remove_vertex(struct msr_queue *queue, int32_t v) {
    const int64_t first = queue->system->out_start[v];
    slot_heap_remove(queue->heaps + queue->device[v], v);
    for (int64_t i = first; i < first + queue->vertex[v].slots; i++) {
        if (queue->slot_at[i] < 0)
            continue;
        const int32_t number = queue->slots[i].link;
        slot_heap_remove(&queue->links[number].heap, (int32_t)i);
        if (queue->links[number].heap.count == 0)
            detach(queue, number, queue->device[v]);
    }
}

static void consider(const struct msr_queue *queue, struct ready item, const bool *busy, struct ready *best) {
    item.priority = score(queue, item.number, busy);
    if (best->number < 0 || runs_before(item, *best))
        *best = item;
}

/* Search the subtree of the heap at a place; its priorities bound the scores from above. */
static void search_below(const struct msr_queue *queue, const struct slot_heap *heap, int64_t at,
                         const bool *busy, struct ready *best) {
    if (at >= heap->count || (best->number >= 0 && !runs_before(heap->item[at], *best)))
        return;
    struct ready item = heap->item[at];
    item.number = rewards_idle(queue) ? queue->slots[item.number].node : item.number;
    consider(queue, item, busy, best);
    search_below(queue, heap, 2 * at + 1, busy, best);
    search_below(queue, heap, 2 * at + 2, busy, best);
}

int32_t msr_queue_take(struct msr_queue *queue, int32_t d, const bool *busy) {
    const struct slot_heap *heap = queue->heaps + d;
    struct ready best = {.number = -1};
    if (heap->count == 0)
        return -1;
    if (rewards_idle(queue)) {
        consider(queue, heap->item[0], busy, &best);
        for (int32_t l = queue->first_link[d]; l >= 0; l = queue->links[l].next)
            if (!busy[queue->links[l].target])
                search_below(queue, &queue->links[l].heap, 0, busy, &best);
    } else {
        search_below(queue, heap, 0, busy, &best);
    }
    remove_vertex(queue, best.number);
    return best.number;
}

/* The number of the link between two different devices, which is created if necessary. */
static int32_t link_between(struct msr_queue *queue, int32_t from, int32_t to) {
    int32_t *number = queue->number + (size_t)from * (size_t)queue->system->devices + (size_t)to;
    if (*number == 0) {
        queue->links[queue->link_count] = (struct link){.target = to};
        *number = ++queue->link_count;
    }
    return *number - 1;
}

static void make_slots(struct msr_queue *queue) {
    const int64_t *out_start = queue->system->out_start;
    for (int32_t v = 0; v < queue->system->nodes; v++) {
        const int32_t first = (int32_t)out_start[v], from = queue->device[v];
        for (int64_t e = out_start[v]; e < out_start[v + 1]; e++) {
            const int32_t w = queue->system->out_head[e], to = queue->device[w];
            queue->slots[e].node = v;
            if (queue->newest_slot[to] < first) {
                queue->newest_slot[to] = first + queue->vertex[v].slots++;
                struct slot *slot = queue->slots + queue->newest_slot[to];
                slot->link = from == to ? -1 : link_between(queue, from, to);
                if (slot->link >= 0)
                    queue->links[slot->link].slots++;
            }
            queue->slots[e].of_edge = queue->newest_slot[to];
            queue->slot_at[e] = -1;
            queue->vertex[v].elsewhere += from != to;
            queue->vertex[w].pending++;
            queue->vertex[w].pending_edges ^= e;
        }
    }
}

/* Give each heap its part of the items. */
static void make_heaps(struct msr_queue *queue) {
    int64_t first = 0;
    for (int32_t i = 0; i < queue->link_count; i++) {
        queue->links[i].heap = (struct slot_heap){queue->slot_item + first, queue->slot_at, 0};
        first += queue->links[i].slots;
    }
    for (int32_t v = 0; v < queue->system->nodes; v++) {
        queue->heaps[queue->device[v]].count++;
        queue->at[v] = -1;
    }
    first = 0;
    for (int32_t d = 0; d < queue->system->devices; d++) {
        const int64_t count = queue->heaps[d].count;
        queue->heaps[d] = (struct slot_heap){queue->item + first, queue->at, 0};
        first += count;
    }
}

struct msr_queue *msr_queue_new(struct arena *arena, const struct shard_system *system, const int32_t *device,
                                const double *weight) {
    const int64_t n = system->nodes, k = system->devices, m = system->out_start[n];
    struct msr_queue *queue;
    if (!ARENA_ZEROS(arena, 1, queue))
        return NULL;
    queue->system = system;
    queue->device = device;
    queue->weight = weight;
    ARENA_ZEROS(arena, n, queue->vertex);
    ARENA_ARRAYS(arena, n, queue->at, queue->item);
    ARENA_ZEROS(arena, m, queue->slots);
    ARENA_ARRAYS(arena, m, queue->slot_at, queue->slot_item);
    ARENA_ZEROS(arena, k, queue->heaps);
    ARENA_ARRAYS(arena, k, queue->first_link, queue->newest_slot);
    ARENA_ZEROS(arena, k * k, queue->number);
    ARENA_ARRAYS(arena, m < k * k ? m : k * k, queue->links);
    if (arena->failed)
        return NULL;
    for (int32_t d = 0; d < system->devices; d++)
        queue->first_link[d] = queue->newest_slot[d] = -1;
    make_slots(queue);
    make_heaps(queue);
    return queue;
}
