"""TODO solvers/placement/bounds."""
