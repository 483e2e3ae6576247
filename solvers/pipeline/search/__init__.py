"""TODO solvers/pipeline/search."""
