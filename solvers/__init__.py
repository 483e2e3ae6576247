"""The solvers: a folder per track, a file per solver; bounds are solvers that report bounds."""
