"""TODO solvers/intraop/bounds."""
