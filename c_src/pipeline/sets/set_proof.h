/* The tree of a search for convex sets, written down node by node, with numbers that prove its bounds. */
#pragma once

#include "pipeline/sets/set_tree.h"

/* Begin the next node of the tree, as a leaf without numbers. */
void begin_proof_node(const struct tree *tree);

/* Write down the price and the flow of the last minimum cut for the current node of the tree, and keep its excesses. */
void write_proof_numbers(const struct tree *tree);
