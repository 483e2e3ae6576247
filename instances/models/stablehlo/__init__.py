"""Parts of the reader of StableHLO: parsing, names that JAX writes, and the loops of every operation."""
