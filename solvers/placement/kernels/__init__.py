"""TODO solvers/placement/kernels."""
