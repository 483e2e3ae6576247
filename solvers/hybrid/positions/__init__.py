"""Machinery of the bound ``relaxed-dp``: down-sets known by their positions only."""
