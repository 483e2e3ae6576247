/* The cheapest convex set of nodes of a given weight: a lower bound on the cost of a stage that holds them.
 *
 * A set is convex if it holds every path between two of its nodes, as every stage of a partition without
 * cycles does. Without that condition, and with the weight as a price instead of a demand, the cheapest set
 * is a minimum cut; branching on single nodes does the rest. All numbers are integers: the bound is exact. */
#pragma once

#include "common/status.h"

/* cffi: begin */

/* The graph: a set of nodes costs the work of its nodes and the sizes of the tensors that enter or leave it.
 *
 *   out_start, out_head  the consumers of v are out_head[out_start[v] .. out_start[v + 1] - 1]
 *   in_start, in_tail    the producers of v's inputs, likewise
 *   work, size           nodes elements, not negative, at most 2^50 together; size: of the node's tensor
 *   below, above         nodes * words elements, words = (nodes + 63) / 64: bit w of row v says that w descends
 *                        from v, or v from w
 *   pair                 nodes * nodes elements: least cost of a stage that holds both; or NULL
 *   closure              1: only sets that hold all ancestors of their nodes, as the first stage of a partition does;
 *                        -1: all descendants, as the last stage; 0: every convex set
 *
 * Either `start` has nodes + 1 elements. All arrays are read only. */
struct shard_set_costs {
    int32_t nodes;
    const int64_t *out_start;
    const int32_t *out_head;
    const int64_t *in_start;
    const int32_t *in_tail;
    const int64_t *work, *size;
    const uint64_t *below, *above;
    const int64_t *pair;
    int32_t closure;
};

/* Levels of the tree's trunk, on which all decisions leave a node out; threads divide its branches. */
#define SHARD_TRUNK 4096

/* Find a convex set that weighs at least `need` >= 1 and costs less than `limit`.
 *
 *   weight   in,     nodes elements, not negative, at most 2^50 in all
 *   fixed    in,     nodes elements: 1 for nodes of the set, -1 for nodes outside, 0 for open ones
 *   first    in,     1: stop at the first such set; 0: find the cheapest
 *   seconds  in,     time limit of the search; the minimum cut under way is finished
 *   shared   in/out, 2 * SHARD_TRUNK elements, zeros at first, or NULL. Threads that search with otherwise the
 *                    same arguments, and first = 1, share the work by it: no such set costs less than the
 *                    least bound that they prove
 *   stop     in/out, 1 element: the search ends soon after another thread, or a search that has found its first
 *                    set, sets it to 1
 *   cuts     in/out, 1 element: most minimum cuts to compute; then the number computed
 *   cost     out,    1 element: cost of the set; `limit` if none was found
 *   proved   out,    1 element: no such set costs less than this, which is at most `cost`
 *   member   out,    nodes elements: the set, if one was found
 * All memory is the caller's. Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_cheapest_set(const struct shard_set_costs *problem, const int64_t *weight, int64_t need,
                       const int8_t *fixed, int64_t limit, int first, double seconds, int32_t *shared,
                       int32_t *stop, int64_t *cuts, int64_t *cost, int64_t *proved, int8_t *member);

/* List all convex sets that weigh at least `need` >= 1 and cost less than `limit`.
 *
 *   weight, fixed, seconds, shared, stop  as above; of threads that share the work, each set is listed
 *            by at least one
 *   count    in/out, 1 element: most sets to list, then the number listed; if it is the same, there may be more
 *   cost     out,    count elements: cost of each set
 *   member   out,    count * words elements: bit v of row i says that node v is in set i
 *   proved   out,    1 element: no such set that is not listed, by any thread, costs less than this; `limit` if the
 *                    list is complete
 * All memory is the caller's. Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_list_sets(const struct shard_set_costs *problem, const int64_t *weight, int64_t need,
                    const int8_t *fixed, int64_t limit, double seconds, int32_t *shared, int32_t *stop,
                    int64_t *count, int64_t *cost, uint64_t *member, int64_t *proved);

/* Search for the cheapest convex set that weighs at least `need` >= 1, and write down a tree that proves its cost.
 *
 *   weight, fixed, limit, seconds  as above; all weights together are at most 2^32
 *   count    in/out, 1 element: most nodes of the tree, at least 8, then the number of its nodes, in preorder
 *   branch   out,    count elements: node of the graph that is in the set in the first subtree, and outside in the
 *            second; -1 in a leaf
 *   price    out,    count elements: price of a unit of weight; -1 if the numbers of the node above suffice
 *   moved    out,    count * edges elements: for each edge, in the order of `out_head`, the cost that the tensor moves
 *            from its maker to the consumer, if the node has a price
 *   closed   out,    likewise: for closures 1 and -1 the price of having one end without the other; else NULL
 *   proved   out,    1 element: what the tree proves, at most `limit` and the cost of the cheapest such set
 * All memory is the caller's. Returns SHARD_OK or SHARD_NO_MEMORY. */
int shard_prove_sets(const struct shard_set_costs *problem, const int64_t *weight, int64_t need,
                     const int8_t *fixed, int64_t limit, double seconds, int64_t *count, int32_t *branch,
                     int64_t *price, int64_t *moved, int64_t *closed, int64_t *proved);
