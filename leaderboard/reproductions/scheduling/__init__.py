"""Reproductions of papers on scheduling."""
