"""Dynamic programs over the ideals of contracted graphs."""
