"""Reproductions of papers on pipelines."""
