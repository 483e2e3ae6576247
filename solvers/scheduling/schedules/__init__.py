"""TODO solvers/scheduling/schedules."""
