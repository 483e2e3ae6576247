"""TODO solvers/placement/latency."""
