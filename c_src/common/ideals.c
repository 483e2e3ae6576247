/* Depth-first search through the ascending sequences of nodes that are ideals, greatest next node first: a
 * sequence comes after all sequences that lack one of its nodes. */
#include "common/ideals.h"

#include "common/arena.h"
#include "common/stop.h"

struct search {
    struct arena arena;
    const struct shard_dag *dag;
    int32_t *waiting;  /* nodes elements: nodes before each that the ideal lacks */
    int32_t *covering; /* nodes elements: nodes after each that the ideal has; 0 for its maximal nodes */
    uint64_t *ready;   /* one bit per node: it is not in the ideal, but all before it are */
    int32_t *path;     /* nodes elements: the nodes of the ideal, ascending */
    int32_t *below;    /* nodes + 1 elements: at each depth, the nodes from here on have been tried */
    int32_t depth;     /* nodes in the ideal */
    int32_t maximal;   /* number of them that are maximal */
};

/* Begin with the empty ideal: SHARD_OK, SHARD_BAD_ORDER or SHARD_NO_MEMORY. Always call arena_free. */
static int search_begin(struct search *search, const struct shard_dag *dag) {
    const int64_t n = dag->nodes;
    *search = (struct search){.dag = dag};
    ARENA_ARRAYS(&search->arena, n, search->waiting, search->path);
    ARENA_ZEROS(&search->arena, n, search->covering);
    ARENA_ZEROS(&search->arena, n / 64 + 1, search->ready);
    ARENA_ARRAYS(&search->arena, n + 1, search->below);
    if (search->arena.failed)
        return SHARD_NO_MEMORY;
    search->below[0] = dag->nodes;
    for (int32_t v = 0; v < n; v++) {
        search->waiting[v] = (int32_t)(dag->in_start[v + 1] - dag->in_start[v]);
        if (!search->waiting[v])
            search->ready[v / 64] |= UINT64_C(1) << v % 64;
        for (int64_t e = dag->in_start[v]; e < dag->in_start[v + 1]; e++)
            if (dag->in_tail[e] >= v)
                return SHARD_BAD_ORDER;
    }
    return SHARD_OK;
}

static void flip(struct search *search, int32_t v) {
    search->ready[v / 64] ^= UINT64_C(1) << v % 64;
}

/* The greatest ready node in least .. below - 1, or -1. */
static int32_t next_ready(const struct search *search, int32_t least, int32_t below) {
    if (least >= below)
        return -1;
    int32_t word = (below - 1) / 64;
    uint64_t bits = search->ready[word] & (~UINT64_C(0) >> (63 - (below - 1) % 64));
    while (!bits && word > least / 64)
        bits = search->ready[--word];
    const int32_t found = bits ? word * 64 + 63 - __builtin_clzll(bits) : -1;
    return found >= least ? found : -1;
}

static void add(struct search *search, int32_t v) {
    const struct shard_dag *dag = search->dag;
    flip(search, v);
    for (int64_t e = dag->out_start[v]; e < dag->out_start[v + 1]; e++)
        if (!--search->waiting[dag->out_head[e]])
            flip(search, dag->out_head[e]);
    search->maximal++;
    for (int64_t e = dag->in_start[v]; e < dag->in_start[v + 1]; e++)
        search->maximal -= search->covering[dag->in_tail[e]]++ == 0;
    search->path[search->depth++] = v;
    search->below[search->depth] = dag->nodes;
}

static void drop(struct search *search) {
    const struct shard_dag *dag = search->dag;
    const int32_t v = search->path[--search->depth];
    for (int64_t e = dag->in_start[v]; e < dag->in_start[v + 1]; e++)
        search->maximal += --search->covering[dag->in_tail[e]] == 0;
    search->maximal--;
    for (int64_t e = dag->out_start[v]; e < dag->out_start[v + 1]; e++)
        if (!search->waiting[dag->out_head[e]]++)
            flip(search, dag->out_head[e]);
    flip(search, v);
}

/* Go to the next ideal; false after the last one. */
static bool advance(struct search *search) {
    for (;;) {
        const int32_t least = search->depth ? search->path[search->depth - 1] + 1 : 0;
        const int32_t v = next_ready(search, least, search->below[search->depth]);
        if (v >= 0) {
            search->below[search->depth] = v;
            add(search, v);
            return true;
        }
        if (!search->depth)
            return false;
        drop(search);
    }
}

int shard_count_ideals(const struct shard_dag *dag, int64_t max_ideals, int64_t max_links,
                       const int32_t *stop, int64_t *ideals, int64_t *links) {
    struct search search;
    const int status = search_begin(&search, dag);
    if (!status) {
        *ideals = 1;
        *links = 0;
        while (*ideals <= max_ideals && *links <= max_links && !is_stopped(stop) && advance(&search)) {
            ++*ideals;
            *links += search.maximal;
        }
    }
    arena_free(&search.arena);
    return status;
}

/* The ideals listed so far, and for each a list of those with one more node, greater than all of its own. */
struct listing {
    int64_t *link_start;
    int32_t *link_node, *link_ideal;
    int32_t *first;   /* the last one listed with one more node; -1 if there is none */
    int32_t *another; /* the previous one with one more node than the same ideal */
    int32_t *at;      /* nodes + 1 elements: ideals on the path of the search, by depth */
};

/* The ideal that adds v, greater than all of its nodes, to an ideal. */
static int32_t larger(const struct listing *listing, int32_t ideal, int32_t v) {
    int32_t found = listing->first[ideal];
    while (listing->link_node[listing->link_start[found + 1] - 1] != v)
        found = listing->another[found];
    return found;
}

/* List the current ideal of the search. */
static void list(struct listing *listing, const struct search *search, int32_t ideal) {
    const int32_t v = search->path[search->depth - 1], before = listing->at[search->depth - 1];
    int64_t end = listing->link_start[ideal];
    for (int64_t i = listing->link_start[before]; i < listing->link_start[before + 1]; i++) {
        if (search->covering[listing->link_node[i]])
            continue;
        listing->link_node[end] = listing->link_node[i];
        listing->link_ideal[end++] = larger(listing, listing->link_ideal[i], v);
    }
    listing->link_node[end] = v;
    listing->link_ideal[end++] = before;
    listing->link_start[ideal + 1] = end;
    listing->first[ideal] = -1;
    listing->another[ideal] = listing->first[before];
    listing->first[before] = ideal;
    listing->at[search->depth] = ideal;
}

int shard_list_ideals(const struct shard_dag *dag, int64_t ideals, const int32_t *stop, int64_t *listed,
                      int64_t *link_start, int32_t *link_node, int32_t *link_ideal) {
    struct search search;
    int status = search_begin(&search, dag);
    struct listing listing = {
        .link_start = link_start,
        .link_node = link_node,
        .link_ideal = link_ideal,
    };
    ARENA_ARRAYS(&search.arena, ideals, listing.first, listing.another);
    ARENA_ARRAYS(&search.arena, dag->nodes + 1, listing.at);
    if (status == SHARD_OK)
        status = arena_status(&search.arena);
    if (!status) {
        link_start[0] = link_start[1] = 0;
        listing.first[0] = -1;
        listing.at[0] = 0;
        int32_t ideal = 1;
        for (; ideal < ideals && !is_stopped(stop) && advance(&search); ideal++)
            list(&listing, &search, ideal);
        *listed = ideal;
    }
    arena_free(&search.arena);
    return status;
}
