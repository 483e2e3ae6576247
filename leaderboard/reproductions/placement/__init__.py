"""Reproductions of papers on placement."""
