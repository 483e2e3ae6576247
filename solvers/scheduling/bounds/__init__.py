"""TODO solvers/scheduling/bounds."""
