"""Solvers and bounds of the track ``placement``."""
