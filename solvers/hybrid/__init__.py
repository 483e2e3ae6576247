"""Solvers for the hybrid track."""
