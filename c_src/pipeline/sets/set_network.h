/* The minimum cut that bounds the cost of convex sets of a given weight; its source side is a set. */
#pragma once

#include "pipeline/sets/set_tree.h"

/* Allocate a tree for `tree->problem` and build its network. Returns SHARD_OK or SHARD_NO_MEMORY; the arena is to be
 * freed in either case. */
int build_network(struct tree *tree);

/* Compute the cost and the weight of a set from its side. */
void evaluate_set(const struct tree *tree, struct set *set);

/* Set the price of a unit of weight, >= 0, in units of cost; in a proof, a whole number. */
void set_weight_price(struct tree *tree, double price);

/* Compute a minimum cut, and the set on its source side; false if no set can cost less than the limit. */
bool cut_network(struct tree *tree, struct set *set);

/* A bound on the cost of sets that weigh enough, from the set of a minimum cut. */
int64_t bound_of_cut(const struct tree *tree, const struct set *set);
