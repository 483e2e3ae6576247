/* Each device has a profile: the memory reserved from each moment on if nothing else starts. A reservation has no
 * end until its reader starts, so a profile is an upper bound on the memory that will be held. */
#include "scheduling/reserving_list.h"

#include "common/heap.h"

/* Vertices that may start together at most, each made executable by the one before. */
enum { CHAIN = 6 };

/* Chains tried for one start: among thousands of readers of a tensor, trying all takes minutes and finds hardly more. */
enum { TRIES = 64 };

/* A vertex or a device to try. */
struct candidate {
    double score; /* greatest first */
    int32_t number;
};

static inline bool scores_more(struct candidate a, struct candidate b) {
    return a.score > b.score || (a.score >= b.score && a.number < b.number);
}
HEAP(candidate_heap, struct candidate, scores_more)

/* What a device holds changes at a time. */
struct change {
    double time, amount;
    int32_t device;
};

/* From `time` on, a device holds `level`. */
struct step {
    double time, level;
};

struct profile {
    struct step *step; /* ascending; before the first it holds nothing */
    int64_t count, room;
};

/* A vertex that started, and what to restore to take that back. */
struct started {
    int32_t vertex;
    double free_at;
    int64_t changes; /* number of changes before it */
    int64_t chosen;  /* number of units that had been given a device */
    int64_t used;    /* number of links used before it */
};

/* When a link was free before a tensor took it. */
struct link_use {
    size_t pair;
    double free_at;
};

struct list {
    struct arena arena;
    const struct shard_system *system;
    const struct shard_units *units;
    bool reserved;
    double live, early;
    double capacity; /* the sum of all that is finite */
    double each;     /* mean time of a vertex */
    const double *priority;
    int32_t *device, *sequence;
    int32_t count;
    /* by vertex */
    int32_t *pending;
    double *finish, *read, *made; /* sums of its inputs' and outputs' sizes */
    /* by unit */
    int32_t *home; /* -1: none yet */
    int64_t *member_start;
    int32_t *member;
    int32_t *chosen; /* units in the order in which they were given a device */
    int64_t chosen_count;
    /* by edge, as in in_tail */
    double *arrival;
    int64_t *input_of; /* by place by tail */
    /* by device */
    struct profile *profile;
    double *free_at, *promised;
    /* by pair of devices */
    double *link_free;
    struct link_use *used;
    int64_t used_count;
    /* those under way */
    struct change *change, *sorted;
    int64_t change_count;
    int32_t tries; /* for the present start */
    struct candidate_heap ready;
    struct candidate *choice; /* of devices */
};

static int by_device_and_time(const void *a, const void *b) {
    const struct change *first = a, *second = b;
    if (first->device != second->device)
        return (first->device > second->device) - (first->device < second->device);
    return (first->time > second->time) - (first->time < second->time);
}

static void add_change(struct list *list, int32_t d, double time, double amount) {
    if (amount > 0 || amount < 0)
        list->change[list->change_count++] = (struct change){time, amount, d};
}

/* The first step after a time. */
static int64_t step_after(const struct profile *profile, double time) {
    int64_t low = 0, high = profile->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (profile->step[middle].time > time)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* True if the changes of one device, ascending, keep its profile below its memory. */
static bool device_fits(const struct list *list, const struct change *change, int64_t count) {
    const struct profile *profile = list->profile + change->device;
    const double memory = list->units->memory[change->device];
    int64_t next = step_after(profile, change->time);
    double level = next > 0 ? profile->step[next - 1].level : 0, more = 0;
    for (int64_t i = 0; i < count || next < profile->count;) {
        const double time = next == profile->count || (i < count && change[i].time < profile->step[next].time)
                                ? change[i].time
                                : profile->step[next].time;
        for (; next < profile->count && profile->step[next].time <= time; next++)
            level = profile->step[next].level;
        for (; i < count && change[i].time <= time; i++)
            more += change[i].amount;
        if (more > 0 && level + more >= memory)
            return false;
    }
    return true;
}

/* True if all changes under way fit. */
static bool fits(struct list *list) {
    memcpy(list->sorted, list->change, (size_t)list->change_count * sizeof *list->sorted);
    qsort(list->sorted, (size_t)list->change_count, sizeof *list->sorted, by_device_and_time);
    for (int64_t i = 0, end; i < list->change_count; i = end) {
        for (end = i + 1; end < list->change_count && list->sorted[end].device == list->sorted[i].device;)
            end++;
        if (isfinite(list->units->memory[list->sorted[i].device]) &&
            !device_fits(list, list->sorted + i, end - i))
            return false;
    }
    return true;
}

static bool make_room(struct list *list, struct profile *profile) {
    if (profile->count + 1 < profile->room)
        return true;
    const int64_t room = 2 * profile->room + 16;
    struct step *step =
        arena_grow(&list->arena, profile->step, (size_t)profile->count, (size_t)room, sizeof *step);
    if (!step)
        return false;
    profile->step = step;
    profile->room = room;
    return true;
}

/* Add an amount from a time on to the profile of a device. */
static bool raise_profile(struct list *list, const struct change *change) {
    struct profile *profile = list->profile + change->device;
    if (!make_room(list, profile))
        return false;
    int64_t at = step_after(profile, change->time);
    if (at == 0 || profile->step[at - 1].time < change->time) {
        memmove(profile->step + at + 1, profile->step + at,
                (size_t)(profile->count - at) * sizeof *profile->step);
        profile->step[at] = (struct step){change->time, at > 0 ? profile->step[at - 1].level : 0};
        profile->count++;
    } else {
        at--;
    }
    for (; at < profile->count; at++)
        profile->step[at].level += change->amount;
    return true;
}

static double bandwidth(const struct list *list, int32_t from, int32_t to) {
    return list->system->bandwidth[(size_t)from * (size_t)list->system->devices + (size_t)to];
}

/* The cost of letting a unit have device d, when vertex w of it gets an input of a size from a device. */
static double home_cost(struct list *list, int32_t w, int32_t d, int32_t from, double time, double size) {
    const double memory = list->units->memory[d];
    const double there = time + (from < 0 || from == d || size <= 0 ? 0 : size / bandwidth(list, from, d));
    const double start = there > list->free_at[d] ? there : list->free_at[d];
    double cost =
        list->early * (start - time + list->system->complexity[w] / list->system->speed[d]) / list->each;
    if (isfinite(memory)) {
        const double need = list->promised[d] + list->read[w];
        cost += need / memory + (need >= memory ? 10 * (need - memory) / memory : 0);
    }
    return cost;
}

static void set_home(struct list *list, int32_t unit, int32_t d) {
    list->home[unit] = d;
    list->chosen[list->chosen_count++] = unit;
    for (int64_t i = list->member_start[unit]; i < list->member_start[unit + 1]; i++)
        list->promised[d] += list->read[list->member[i]];
}

/* Take back the devices of the units that were given one last, all but `count`. */
static void forget_homes(struct list *list, int64_t count) {
    for (; list->chosen_count > count; list->chosen_count--) {
        const int32_t unit = list->chosen[list->chosen_count - 1];
        for (int64_t i = list->member_start[unit]; i < list->member_start[unit + 1]; i++)
            list->promised[list->home[unit]] -= list->read[list->member[i]];
        list->home[unit] = -1;
    }
}

/* Give the unit of w the device of least cost for an input from a device; false if none is linked. */
static bool choose_home(struct list *list, int32_t w, int32_t from, double time, double size) {
    const struct device_set set = devices_of(list->system, list->units, list->units->unit[w]);
    double least = INFINITY;
    int32_t best = -1;
    for (int32_t i = 0; i < set.count; i++) {
        const int32_t d = device_at(set, i);
        if (size > 0 && from != d && bandwidth(list, from, d) <= 0)
            continue;
        const double cost = home_cost(list, w, d, from, time, size);
        if (best < 0 || cost < least) { /* costs of extreme numbers may be infinite */
            least = cost;
            best = d;
        }
    }
    if (best >= 0)
        set_home(list, list->units->unit[w], best);
    return best >= 0;
}

/* Let tensor e, by tail, depart; false if it has no link. */
static bool send(struct list *list, int64_t e, int32_t from, double time) {
    const int32_t w = list->system->out_head[e];
    const double size = list->system->size[e];
    list->arrival[list->input_of[e]] = time;
    if (list->home[list->units->unit[w]] < 0 && !choose_home(list, w, from, time, size))
        return false;
    const int32_t to = list->home[list->units->unit[w]];
    double arrival = time;
    if (to != from && size > 0) {
        const double width = bandwidth(list, from, to);
        if (width <= 0)
            return false;
        const size_t pair = (size_t)from * (size_t)list->system->devices + (size_t)to;
        if (list->system->links != SHARD_INDEPENDENT && list->link_free[pair] > arrival)
            arrival = list->link_free[pair];
        arrival += size / width;
        if (list->system->links != SHARD_INDEPENDENT) {
            list->used[list->used_count++] = (struct link_use){pair, list->link_free[pair]};
            list->link_free[pair] = arrival;
        }
    }
    list->arrival[list->input_of[e]] = arrival;
    add_change(list, to, list->reserved ? time : arrival, size);
    return true;
}

/* Start vertex v on its device; false if an output has no link. What it changes is not in the profiles yet. */
static bool start_vertex(struct list *list, int32_t v, struct started *started) {
    const struct shard_units *units = list->units;
    const int32_t d = list->home[units->unit[v]];
    double start = list->free_at[d];
    started->free_at = list->free_at[d];
    for (int64_t i = units->in_start[v]; i < units->in_start[v + 1]; i++)
        start = fmax(start, list->arrival[i]);
    list->finish[v] = list->free_at[d] = start + list->system->complexity[v] / list->system->speed[d];
    list->sequence[list->count++] = v;
    for (int64_t i = units->in_start[v]; i < units->in_start[v + 1]; i++)
        add_change(list, d, list->reserved ? list->finish[v] : start, -units->in_size[i]);
    list->promised[d] -= list->read[v];
    bool linked = true;
    for (int64_t e = list->system->out_start[v]; e < list->system->out_start[v + 1]; e++) {
        list->pending[list->system->out_head[e]]--;
        linked = send(list, e, d, list->finish[v]) && linked;
    }
    return linked;
}

static void take_back(struct list *list, const struct started *started) {
    const int32_t v = started->vertex, d = list->home[list->units->unit[v]];
    for (int64_t e = list->system->out_start[v]; e < list->system->out_start[v + 1]; e++)
        list->pending[list->system->out_head[e]]++;
    for (; list->used_count > started->used; list->used_count--)
        list->link_free[list->used[list->used_count - 1].pair] = list->used[list->used_count - 1].free_at;
    list->free_at[d] = started->free_at;
    list->promised[d] += list->read[v];
    forget_homes(list, started->chosen);
    list->change_count = started->changes;
    list->count--;
}

static struct started beginning(const struct list *list, int32_t v) {
    return (struct started){v, 0, list->change_count, list->chosen_count, list->used_count};
}

/* Start vertex v on its device if that fits, if necessary with up to `more` vertices that it makes executable. */
static bool try_start(struct list *list, int32_t v, int32_t more) {
    struct started started = beginning(list, v);
    list->tries++;
    if (start_vertex(list, v, &started)) {
        if (fits(list))
            return true;
        const int64_t first = list->system->out_start[v];
        for (int64_t e = first; more > 0 && list->tries < TRIES && e < list->system->out_start[v + 1]; e++)
            if (list->pending[list->system->out_head[e]] == 0 &&
                try_start(list, list->system->out_head[e], more - 1))
                return true;
    }
    take_back(list, &started);
    return false;
}

/* Try a vertex on its device or, if it has none, on those that it may use, the least cost first. */
static bool try_vertex(struct list *list, int32_t v) {
    const int32_t unit = list->units->unit[v];
    list->tries = 0;
    if (list->home[unit] >= 0)
        return try_start(list, v, CHAIN);
    const struct device_set set = devices_of(list->system, list->units, unit);
    struct candidate_heap heap = {list->choice, 0};
    for (int32_t i = 0; i < set.count; i++) {
        const int32_t d = device_at(set, i);
        candidate_heap_push(&heap, (struct candidate){-home_cost(list, v, d, -1, 0, 0), d});
    }
    while (heap.count > 0) {
        const int64_t chosen = list->chosen_count;
        set_home(list, unit, candidate_heap_pop(&heap).number);
        list->tries = 0;
        if (try_start(list, v, CHAIN))
            return true;
        forget_homes(list, chosen);
    }
    return false;
}

static void push_ready(struct list *list, int32_t v) {
    double score = list->priority[v];
    if (list->capacity > 0)
        score -= list->live * (list->made[v] - list->read[v]) / list->capacity;
    candidate_heap_push(&list->ready, (struct candidate){score, v});
}

/* Enter what has started since into the profiles, and list what has become executable. */
static bool settle(struct list *list, int32_t before) {
    for (int64_t i = 0; i < list->change_count; i++)
        if (isfinite(list->units->memory[list->change[i].device]) && !raise_profile(list, list->change + i))
            return false;
    list->change_count = list->used_count = 0;
    for (int32_t i = before; i < list->count; i++)
        for (int64_t e = list->system->out_start[list->sequence[i]];
             e < list->system->out_start[list->sequence[i] + 1]; e++) {
            const int32_t w = list->system->out_head[e];
            bool started = false;
            for (int32_t j = i + 1; j < list->count; j++)
                started = started || list->sequence[j] == w;
            if (list->pending[w] == 0 && !started) {
                list->pending[w] = -1; /* listed */
                push_ready(list, w);
            }
        }
    return true;
}

/* Start the first vertex although something does not fit. */
static void force(struct list *list, int32_t v) {
    if (list->home[list->units->unit[v]] < 0)
        choose_home(list, v, -1, 0, 0);
    struct started started = beginning(list, v);
    start_vertex(list, v, &started);
}

static bool start_next(struct list *list, struct candidate *refused) {
    const int32_t before = list->count;
    int32_t count = 0;
    while (list->ready.count > 0 && list->count == before) {
        refused[count] = candidate_heap_pop(&list->ready);
        if (!try_vertex(list, refused[count].number))
            count++;
    }
    int32_t first = 0;
    if (list->count == before) {
        force(list, refused[0].number);
        first = 1;
    }
    for (int32_t i = first; i < count; i++)
        candidate_heap_push(&list->ready, refused[i]);
    return settle(list, before);
}

static void prepare(struct list *list) {
    const struct shard_system *system = list->system;
    const struct shard_units *units = list->units;
    double time = 0;
    int64_t *next = list->member_start; /* scratch: the next input of each vertex */
    memcpy(next, units->in_start, (size_t)system->nodes * sizeof *next);
    for (int32_t v = 0; v < system->nodes; v++) {
        list->home[v] = -1;
        list->pending[v] = (int32_t)(units->in_start[v + 1] - units->in_start[v]);
        time += system->complexity[v] / system->speed[0] / system->nodes;
        for (int64_t e = system->out_start[v]; e < system->out_start[v + 1]; e++) {
            list->input_of[e] = next[system->out_head[e]]++;
            list->made[v] += system->size[e];
            list->read[system->out_head[e]] += system->size[e];
        }
    }
    list->each = time > 0 ? time : 1;
    memset(list->member_start, 0, ((size_t)system->nodes + 2) * sizeof *list->member_start);
    list_members(system->nodes, units->unit, list->member_start, list->member);
    for (int32_t d = 0; d < system->devices; d++)
        if (isfinite(units->memory[d]))
            list->capacity += units->memory[d];
    for (int32_t v = 0; v < system->nodes; v++)
        if (list->pending[v] == 0)
            push_ready(list, v);
}

int shard_reserving_list(const struct shard_system *system, const struct shard_units *units, int32_t reserved,
                         const double *priority, double live, double early, int32_t *device,
                         int32_t *sequence) {
    const int64_t n = system->nodes, k = system->devices, m = system->out_start[n];
    const int64_t linked = system->links != SHARD_INDEPENDENT;
    struct list list = {.system = system, .units = units, .reserved = reserved};
    struct arena *arena = &list.arena;
    struct candidate *refused;
    list.live = live;
    list.early = early;
    list.priority = priority;
    list.device = device;
    list.sequence = sequence;
    ARENA_ARRAYS(arena, n, list.pending, list.finish, list.home, list.member, list.chosen, refused,
                 list.ready.item);
    ARENA_ZEROS(arena, n, list.read, list.made);
    ARENA_ARRAYS(arena, n + 2, list.member_start);
    ARENA_ARRAYS(arena, m, list.arrival, list.input_of);
    ARENA_ARRAYS(arena, 2 * m, list.change, list.sorted);
    ARENA_ZEROS(arena, k, list.profile, list.free_at, list.promised);
    ARENA_ARRAYS(arena, k, list.choice);
    ARENA_ZEROS(arena, linked * k * k, list.link_free);
    ARENA_ARRAYS(arena, linked * m, list.used);
    if (!arena->failed) {
        prepare(&list);
        while (list.count < n && start_next(&list, refused))
            continue;
        for (int32_t v = 0; v < n; v++)
            device[v] = list.home[units->unit[v]];
    }
    const int status = arena_status(arena);
    arena_free(arena);
    return status;
}
