"""Certificates of bounds on the cost of stages."""
