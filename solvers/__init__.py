"""The solvers: a folder per track, a file per solver; bounds are solvers that report bounds."""

if __name__ != "shardmark.solvers":
    raise ImportError("the package solvers is now shardmark.solvers; solver files import from shardmark")
