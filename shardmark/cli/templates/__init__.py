"""Solver files to start from, one per track."""
