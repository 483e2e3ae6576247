"""TODO solvers/intraop/search."""
