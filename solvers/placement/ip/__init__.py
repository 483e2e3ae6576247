"""TODO solvers/placement/ip."""
