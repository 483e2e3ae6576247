"""Search, bounds and partitions for the objective throughput."""
