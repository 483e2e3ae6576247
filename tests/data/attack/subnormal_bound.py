"""Reports the least positive number as its lower bound: cost / bound lies beyond float64."""

from shardmark.solvers.registry import solver


@solver(track="intraop", source="an attack", name="subnormal-bound")
def subnormal_bound(instance, run):
    """Bound the cost by the least positive number."""
    run.report([0] * instance.nodes)
    run.bound(5e-324)
