/* Random moves of a placement for latency, which can be undone. */
#pragma once

#include "common/heap.h"
#include "common/random.h"
#include "placement/latency/subgraphs.h"

/* A change that a move made: to the subgraph of a node, the owner and the delay of a subgraph, the device of
 * a unit, or the merging of the passes of an accelerator. */
enum change_kind { SUBGRAPH, OWNER, DEVICE, MERGED };
struct change {
    enum change_kind kind;
    int32_t of, was;
    double delay;
};

#define RANK_BEFORE(a, b) ((a) < (b))
HEAP(rank_heap, int32_t, RANK_BEFORE)

struct latency_moves {
    struct subgraphs *now;
    struct random random;
    bool two_passes;
    int32_t *rank, *order; /* nodes elements: topological rank of each node, the node of each rank */
    /* The current move. */
    struct change *change;
    int64_t changes, move;   /* number of changes; number of the move */
    int32_t *dirty, dirtied; /* subgraphs elements: those that the move has changed; their number */
    int64_t *dirty_mark;     /* subgraphs elements: the last move that has changed each */
    double *before;          /* subgraphs elements: duration of each dirty subgraph before the move */
    /* The nodes that move together. */
    int32_t *group, grouped;
    int64_t *group_mark, *node_mark; /* nodes elements: the last gathering that took, that met each node */
    int64_t mark;                    /* number of the gathering */
    struct rank_heap frontier;       /* nodes that a group may grow by */
};

/* Allocate from an arena, which fails if there is no memory; `now` is the caller's. */
void latency_moves_begin(struct latency_moves *moves, struct subgraphs *now, struct arena *arena);

/* Make a random change, to delays by up to half of `scale`, without updating the durations of dirty
 * subgraphs. False if the move is not allowed or changes nothing. */
bool make_move(struct latency_moves *moves, double scale);

/* Undo the current move. */
void undo_move(struct latency_moves *moves);
