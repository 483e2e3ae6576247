"""Measured times of a model's operators, from tables and traces of profilers, as costs of a plan."""
