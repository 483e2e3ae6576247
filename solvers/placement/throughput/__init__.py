"""TODO solvers/placement/throughput."""
