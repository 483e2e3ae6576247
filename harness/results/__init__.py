"""Judgement, storage and ranking of runs."""
