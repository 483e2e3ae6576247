"""A solver file that can be imported for the list of solvers, but not for a run."""

import sys

from shardmark.solvers.registry import solver


@solver(track="pipeline")
def two_faced(instance, run):
    """Never seen."""


if "list" not in sys.argv:
    raise RuntimeError("not today")
