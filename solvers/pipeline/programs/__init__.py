"""TODO solvers/pipeline/programs."""
