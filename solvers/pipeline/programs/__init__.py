"""Programs that bound the cost from below: mixed-integer programs, and searches for cheap stages."""
