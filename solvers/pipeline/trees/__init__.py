"""Branch and bound over partitions: trees whose leaves the weights of nodes refute."""
