"""TODO solvers/intraop/programs."""
