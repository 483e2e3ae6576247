"""TODO solvers/scheduling/heuristics."""
