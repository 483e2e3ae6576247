"""TODO solvers/pipeline/bounds."""
