"""Solvers and bounds of the track ``intraop``."""
