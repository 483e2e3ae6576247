"""Integer program for latency: one subgraph per accelerator."""

from __future__ import annotations

from instances.placement import Instance
from solvers.placement.latency.ip import solve_one
from solvers.registry import Run, solver


@solver(track="placement", source="Tarnawski et al. 2020, Appendix A, Figure 5", deterministic=False)
def ip(instance: Instance, run: Run) -> None:
    """Solve the integer program for latency: a contiguous subgraph an accelerator, or one of either pass.

    With contiguity "free", placements still have no more subgraphs, and bounds are those of other methods.

    Bounds are first those of `memory-path` and `chains`, then CP-SAT's, whose search in integers is not checked; nor is
    its word that no placement fits, unless one is known.
    """
    solve_one(instance, run)
