"""Sharding of a model over a mesh of devices: the ways to split operators, and what splits and layouts cost."""
