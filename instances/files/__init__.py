"""Files: strict JSON input, atomic output, a fast scanner of long integer lists, and a cache of their arrays."""
