"""Drawings of the strategies that a solution of ``intraop`` chooses."""
