"""The contest winner's method, in which the memory limit becomes a price of memory, and two ablations of it."""

from __future__ import annotations

from instances.intraop import Instance
from solvers.intraop.cfn.adaptive_penalty import SLICE, solve
from solvers.intraop.cfn.penalty_weights import GlobalWeight, NodeWeights
from solvers.registry import Run, solver

PAPER = "Soft Constraints, Strong Solutions"


@solver(track="intraop", source=f"{PAPER}, Section 4 and Algorithm 1", deterministic=False)
def cfn_penalty(instance: Instance, run: Run, *, slice_s: float = SLICE) -> None:
    """Solve without the memory limit but with a penalty on memory, adapting a weight for every node (toulbar2).

    ``slice_s`` are the CPU seconds that toulbar2 has for each network at first, the only number that the winner's
    program lets its user set, as does `--set` here.
    Raises Declined for an instance in which nothing is possible; see `solve`.
    """
    solve(instance, run, NodeWeights, slice_s=slice_s)


@solver(track="intraop", source=f"{PAPER}, Section 5.5: an ablation", deterministic=False)
def cfn_penalty_global(instance: Instance, run: Run, *, slice_s: float = SLICE) -> None:
    """Do as cfn-penalty does, but with one weight for all nodes (toulbar2)."""
    solve(instance, run, GlobalWeight, slice_s=slice_s)


@solver(track="intraop", source=f"{PAPER}, Appendix E: an ablation", deterministic=False)
def cfn_penalty_nopost(instance: Instance, run: Run, *, slice_s: float = SLICE) -> None:
    """Do as cfn-penalty does, but take the solutions of networks as they are (toulbar2)."""
    solve(instance, run, NodeWeights, slice_s=slice_s, polish=False)
