"""Integer program for latency: one subgraph per accelerator."""

from __future__ import annotations

from shardmark.instances.placement import Instance
from shardmark.solvers.placement.latency.ip import solve_one
from shardmark.solvers.registry import Run, solver


@solver(track="placement", source="Tarnawski et al. 2020, Appendix A, Figure 5", deterministic=False)
def ip(instance: Instance, run: Run) -> None:
    """Solve the latency integer program with one contiguous subgraph per accelerator and pass.

    With contiguity "free", placements have no more subgraphs either, and bounds are those of other methods.

    First reports the bounds of `memory-path` and `chains`, then those of CP-SAT. CP-SAT's integer search is not
    checked. Its claim that no placement fits is not checked either, but ignored if one is known.
    """
    solve_one(instance, run)
