"""Solvers and bounds of track ``scheduling``: partitioners with their local schedulers, one file a partitioner."""
