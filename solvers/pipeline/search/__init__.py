"""Searches over topological orders and partitions, which the solvers share."""
