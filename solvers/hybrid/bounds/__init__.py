"""Solvers that report lower bounds."""
