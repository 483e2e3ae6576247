"""Local search, greedy construction and the reporting of incumbents and bounds."""
