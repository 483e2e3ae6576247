"""Loops and branches of StableHLO programs: how many rounds they run, and arrays that they fill slice by slice."""
