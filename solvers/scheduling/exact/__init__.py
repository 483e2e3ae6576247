"""TODO solvers/scheduling/exact."""
