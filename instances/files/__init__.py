"""Files: strict JSON input, atomic output, a fast scanner of long integer lists, a cache of arrays, formats."""
