"""Records: the best verified solution and the greatest proven bound of each instance of the catalog."""
