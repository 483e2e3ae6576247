/* Nodes that must be in or out of a convex set, given assigned nodes and a bound. */
#pragma once

#include "pipeline/sets/set_tree.h"

/* Put a node into the set (value 1) or leave it out (-1); false if the opposite is decided. */
bool assign_side(struct tree *tree, int32_t v, int8_t value);

/* Take back all assignments but the first `length`. */
void undo_assignments(struct tree *tree, int32_t length);

/* Propagate all assignments; false if there is no such set. */
bool propagate_assignments(struct tree *tree);

/* Take the set of all nodes whose value is at least `least`. */
void take_assigned(const struct tree *tree, int8_t least, struct set *set);

/* A node outside the set on a path between two of its nodes; -1 if the set is convex. Overwrites FORCED and BARRED. */
int32_t find_missing(const struct tree *tree, const struct set *set);

/* Fix each open node for which the opposite choice would close this subtree, and what follows; false if there is no set.
 * bound, excess: of a minimum cut, the latter nodes elements. */
bool fix_by_residuals(struct tree *tree, int64_t bound, const int64_t *excess);
