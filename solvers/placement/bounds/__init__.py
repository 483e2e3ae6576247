"""Lower bounds of the track placement."""
