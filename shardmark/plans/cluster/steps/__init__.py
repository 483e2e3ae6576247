"""The backward pass that a training step brings along: the operators of each block, and what they keep and repeat."""
