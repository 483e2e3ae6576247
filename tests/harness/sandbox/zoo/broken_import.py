"""A solver file that cannot be imported."""

import a_package_that_nobody_has

from shardmark.solvers.registry import solver


@solver(track="pipeline")
def never(instance, run):
    """Never seen."""
    return a_package_that_nobody_has
