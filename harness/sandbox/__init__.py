"""TODO harness/sandbox."""
