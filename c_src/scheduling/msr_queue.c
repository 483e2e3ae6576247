/* A score has a part that only grows or shrinks as predecessors finish, and one that devices change that get
 * busy or idle. Each device has a heap of its vertices by the first part alone, and for every other device
 * that some of them could set going one by the most that a score can be. So where nothing idle can be set
 * going the top is the best, and else only tops of idle devices are looked at, with what in the heaps below
 * them could still be better. */
#include "scheduling/msr_queue.h"

HEAP_WITH_PLACES(slot_heap, struct ready, runs_before)

/* What is looked at together lies together: most of the time is spent waiting for memory. */
struct vertex {
    int64_t left;      /* edges from predecessors that have not finished, combined by exclusive or */
    int32_t waits_for; /* how many these are: if one, `left` is its edge */
    int32_t slots;     /* devices that successors are on: slots[out_start[v]] and so on */
    int32_t elsewhere; /* successors on other devices */
    int32_t last;      /* successors that wait for it alone, and of these on other devices, once executable */
    int32_t last_elsewhere;
};

/* Successors of one vertex that are on one device. */
struct slot {
    int32_t of_edge; /* the slot of the edge with this number */
    int32_t node;
    int32_t link; /* from the vertex's device to theirs; -1 if they are the same */
    int32_t last; /* how many of them wait for the vertex alone, once it is executable */
};

/* What vertices of one device could set going on another: a heap of slots. */
struct link {
    int32_t target;
    int32_t next; /* link from the same device with anything in its heap, or -1; and the one before */
    int32_t prior;
    int64_t slots;
    struct slot_heap heap;
};

struct successors {
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
    int32_t *first_link; /* the first one from it with anything in its heap, or -1 */
    int32_t *newest;     /* the last slot to it */
    /* by pair of devices that some edge joins */
    int32_t *number; /* of each pair, plus 1 */
    struct link *links;
    int32_t link_count;
};

/* The part of the score of a vertex that does not depend on who is idle. */
static double steady(const struct successors *all, int32_t v) {
    const double *weight = all->weight;
    const double count = (double)(all->system->out_start[v + 1] - all->system->out_start[v]);
    return weight[0] * count + weight[1] * all->vertex[v].elsewhere + weight[2] * all->vertex[v].last;
}

static double score(const struct successors *all, int32_t v, const bool *busy) {
    int32_t activated = 0;
    const int64_t first = all->system->out_start[v];
    for (int64_t i = first; i < first + all->vertex[v].slots; i++) {
        const struct slot *slot = all->slots + i;
        if (slot->last > 0 && slot->link >= 0 && !busy[all->links[slot->link].target])
            activated += slot->last;
    }
    return steady(all, v) + all->weight[3] * activated;
}

/* Whether idle devices count for a vertex; if they count against it, no score is above its steady part. */
static bool rewarded(const struct successors *all) {
    return all->weight[3] > 0;
}

/* Put a link into the list of its device, before its heap gets its first item. */
static void attach(struct successors *all, int32_t number, int32_t device) {
    struct link *link = all->links + number;
    link->prior = -1;
    link->next = all->first_link[device];
    if (link->next >= 0)
        all->links[link->next].prior = number;
    all->first_link[device] = number;
}

/* Take a link with an empty heap out of the list of its device. */
static void detach(struct successors *all, int32_t number, int32_t device) {
    const struct link *link = all->links + number;
    if (link->next >= 0)
        all->links[link->next].prior = link->prior;
    if (link->prior >= 0)
        all->links[link->prior].next = link->next;
    else
        all->first_link[device] = link->next;
}

/* Order a vertex in all heaps by its scores now. */
static void enter(struct successors *all, struct ready item) {
    const int32_t v = item.number;
    item.priority = steady(all, v);
    slot_heap_update(all->heaps + all->device[v], item);
    if (!rewarded(all))
        return;
    item.priority += all->weight[3] * all->vertex[v].last_elsewhere;
    const int64_t first = all->system->out_start[v];
    for (int64_t i = first; i < first + all->vertex[v].slots; i++) {
        const struct slot *slot = all->slots + i;
        item.number = (int32_t)i;
        if (slot->last == 0 || slot->link < 0)
            continue;
        if (all->links[slot->link].heap.count == 0)
            attach(all, slot->link, all->device[v]);
        slot_heap_update(&all->links[slot->link].heap, item);
    }
}

static void count_last(struct successors *all, int64_t e) {
    struct slot *slot = all->slots + all->slots[e].of_edge;
    slot->last++;
    all->vertex[slot->node].last++;
    all->vertex[slot->node].last_elsewhere += slot->link >= 0;
}

void successors_add(struct successors *all, int32_t v, double since, int32_t rank) {
    for (int64_t e = all->system->out_start[v]; e < all->system->out_start[v + 1]; e++)
        if (all->vertex[all->system->out_head[e]].waits_for == 1)
            count_last(all, e);
    enter(all, (struct ready){0, since, rank, v});
}

void successors_finish(struct successors *all, int32_t v) {
    for (int64_t e = all->system->out_start[v]; e < all->system->out_start[v + 1]; e++) {
        struct vertex *w = all->vertex + all->system->out_head[e];
        w->left ^= e;
        if (--w->waits_for != 1)
            continue;
        const int32_t u = all->slots[w->left].node;
        if (all->at[u] < 0)
            continue; /* it runs, or its successors are counted when it becomes executable */
        count_last(all, w->left);
        enter(all, all->heaps[all->device[u]].item[all->at[u]]);
    }
}

static void leave(struct successors *all, int32_t v) {
    const int64_t first = all->system->out_start[v];
    slot_heap_remove(all->heaps + all->device[v], v);
    for (int64_t i = first; i < first + all->vertex[v].slots; i++) {
        if (all->slot_at[i] < 0)
            continue;
        const int32_t number = all->slots[i].link;
        slot_heap_remove(&all->links[number].heap, (int32_t)i);
        if (all->links[number].heap.count == 0)
            detach(all, number, all->device[v]);
    }
}

static void consider(const struct successors *all, struct ready item, const bool *busy, struct ready *best) {
    item.priority = score(all, item.number, busy);
    if (best->number < 0 || runs_before(item, *best))
        *best = item;
}

/* Look at what is in the heap at a place and below it, whose scores are at most its priorities. */
static void descend(const struct successors *all, const struct slot_heap *heap, int64_t at, const bool *busy,
                    struct ready *best) {
    if (at >= heap->count || (best->number >= 0 && !runs_before(heap->item[at], *best)))
        return;
    struct ready item = heap->item[at];
    item.number = rewarded(all) ? all->slots[item.number].node : item.number;
    consider(all, item, busy, best);
    descend(all, heap, 2 * at + 1, busy, best);
    descend(all, heap, 2 * at + 2, busy, best);
}

int32_t successors_take(struct successors *all, int32_t d, const bool *busy) {
    const struct slot_heap *heap = all->heaps + d;
    struct ready best = {.number = -1};
    if (heap->count == 0)
        return -1;
    if (rewarded(all)) {
        consider(all, heap->item[0], busy, &best);
        for (int32_t l = all->first_link[d]; l >= 0; l = all->links[l].next)
            if (!busy[all->links[l].target])
                descend(all, &all->links[l].heap, 0, busy, &best);
    } else {
        descend(all, heap, 0, busy, &best);
    }
    leave(all, best.number);
    return best.number;
}

/* The link between two different devices, which it is given a number if it has none. */
static int32_t link_between(struct successors *all, int32_t from, int32_t to) {
    int32_t *number = all->number + (size_t)from * (size_t)all->system->devices + (size_t)to;
    if (*number == 0) {
        all->links[all->link_count] = (struct link){.target = to};
        *number = ++all->link_count;
    }
    return *number - 1;
}

static void make_slots(struct successors *all) {
    const int64_t *out_start = all->system->out_start;
    for (int32_t v = 0; v < all->system->nodes; v++) {
        const int32_t first = (int32_t)out_start[v], from = all->device[v];
        for (int64_t e = out_start[v]; e < out_start[v + 1]; e++) {
            const int32_t w = all->system->out_head[e], to = all->device[w];
            all->slots[e].node = v;
            if (all->newest[to] < first) {
                all->newest[to] = first + all->vertex[v].slots++;
                struct slot *slot = all->slots + all->newest[to];
                slot->link = from == to ? -1 : link_between(all, from, to);
                if (slot->link >= 0)
                    all->links[slot->link].slots++;
            }
            all->slots[e].of_edge = all->newest[to];
            all->slot_at[e] = -1;
            all->vertex[v].elsewhere += from != to;
            all->vertex[w].waits_for++;
            all->vertex[w].left ^= e;
        }
    }
}

/* Give every heap its part of the items. */
static void make_heaps(struct successors *all) {
    int64_t first = 0;
    for (int32_t i = 0; i < all->link_count; i++) {
        all->links[i].heap = (struct slot_heap){all->slot_item + first, all->slot_at, 0};
        first += all->links[i].slots;
    }
    for (int32_t v = 0; v < all->system->nodes; v++) {
        all->heaps[all->device[v]].count++;
        all->at[v] = -1;
    }
    first = 0;
    for (int32_t d = 0; d < all->system->devices; d++) {
        const int64_t count = all->heaps[d].count;
        all->heaps[d] = (struct slot_heap){all->item + first, all->at, 0};
        first += count;
    }
}

struct successors *successors_new(struct arena *arena, const struct shard_system *system,
                                  const int32_t *device, const double *weight) {
    const int64_t n = system->nodes, k = system->devices, m = system->out_start[n];
    struct successors *all;
    if (!ARENA_ZEROS(arena, all, 1))
        return NULL;
    all->system = system;
    all->device = device;
    all->weight = weight;
    ARENA_ZEROS(arena, all->vertex, n);
    ARENA_ARRAY(arena, all->at, n);
    ARENA_ARRAY(arena, all->item, n);
    ARENA_ZEROS(arena, all->slots, m);
    ARENA_ARRAY(arena, all->slot_at, m);
    ARENA_ARRAY(arena, all->slot_item, m);
    ARENA_ZEROS(arena, all->heaps, k);
    ARENA_ARRAY(arena, all->first_link, k);
    ARENA_ARRAY(arena, all->newest, k);
    ARENA_ZEROS(arena, all->number, k * k);
    ARENA_ARRAY(arena, all->links, m < k * k ? m : k * k);
    if (arena->failed)
        return NULL;
    for (int32_t d = 0; d < system->devices; d++)
        all->first_link[d] = all->newest[d] = -1;
    make_slots(all);
    make_heaps(all);
    return all;
}
