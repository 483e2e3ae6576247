"""TODO harness/sandbox/backends."""
