"""The contest winner's method without its greedy post-processing: what that is worth."""

from __future__ import annotations

from instances.intraop import Instance
from solvers.intraop._penalty import SLICE, solve
from solvers.intraop._weights import NodeWeights
from solvers.registry import Run, solver


@solver(
    track="intraop",
    source="Soft Constraints, Strong Solutions, Appendix E: an ablation",
    variants={"cfn-penalty-nopost": {"slice_s": SLICE}},
    deterministic=False,
)
def cfn_penalty_nopost(instance: Instance, run: Run, slice_s: float = SLICE) -> None:
    """Do as cfn-penalty does, but take the solutions of networks as they are (toulbar2)."""
    solve(instance, run, NodeWeights, slice_s=slice_s, polish=False)
