"""Partitioners and their parts: ranks, scores, partitions, and the three local schedulers."""
