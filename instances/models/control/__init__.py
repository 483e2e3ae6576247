"""Loops and branches of a program, whatever its format."""
