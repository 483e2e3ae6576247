"""The configuration program: worths of units, and sets that are worth most within a load."""
