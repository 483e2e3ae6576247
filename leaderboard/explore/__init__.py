"""Pages to search, filter and compare in, and the data files that their scripts read."""
