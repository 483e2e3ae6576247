"""Models of schedules for CP-SAT."""
