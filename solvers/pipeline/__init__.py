"""Solvers and bounds of the track ``pipeline``."""
