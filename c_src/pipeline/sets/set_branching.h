/* The node of the graph on which the search for a convex set branches next. */
#pragma once

#include "pipeline/sets/set_tree.h"

/* Choose the node whose children promise the smallest tree; -1 if none is open. Computes minimum cuts. */
int32_t choose_branch_node(struct tree *tree);
