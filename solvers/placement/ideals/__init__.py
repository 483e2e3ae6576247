"""TODO solvers/placement/ideals."""
