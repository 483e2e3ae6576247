"""Files: strict JSON in, atomic JSON out, a fast scan of long lists, and arrays kept for the next reading."""
