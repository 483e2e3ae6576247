"""A solver that does nothing: the overhead of a run."""

from shardmark.solvers.registry import solver


@solver(track="pipeline", name="idle")
def idle(instance, run):
    """Return at once."""
    return [0] * instance.nodes
