"""Who solves: one folder a track, one file a solver; bounds are solvers that report bounds."""
