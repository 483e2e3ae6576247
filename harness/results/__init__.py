"""TODO harness/results."""
