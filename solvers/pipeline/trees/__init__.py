"""Branch and bound over partitions: trees whose leaves are refuted by node weights."""
