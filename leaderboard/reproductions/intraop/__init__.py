"""Reproductions of the contest and of its winner's paper."""
