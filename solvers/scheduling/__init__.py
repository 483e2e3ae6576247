"""Solvers and bounds of the track ``scheduling``; partitioners have one file each, with three local schedulers."""
