"""Editions: published campaigns, as columns with checksums beside the best solutions."""
