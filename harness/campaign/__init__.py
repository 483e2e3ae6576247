"""TODO harness/campaign."""
