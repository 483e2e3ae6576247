"""Layouts of a serving run in which one sample passes as fast as it can."""
