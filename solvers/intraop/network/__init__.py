"""TODO solvers/intraop/network."""
