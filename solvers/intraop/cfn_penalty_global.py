"""The contest winner's method with one weight for all nodes: what a weight for every node is worth."""

from __future__ import annotations

from instances.intraop import Instance
from solvers.intraop._penalty import SLICE, solve
from solvers.intraop._weights import GlobalWeight
from solvers.registry import Run, solver


@solver(
    track="intraop",
    source="Soft Constraints, Strong Solutions, Section 5.5: an ablation",
    variants={"cfn-penalty-global": {"slice_s": SLICE}},
    deterministic=False,
)
def cfn_penalty_global(instance: Instance, run: Run, slice_s: float = SLICE) -> None:
    """Do as cfn-penalty does, but with one weight for all nodes (toulbar2)."""
    solve(instance, run, GlobalWeight, slice_s=slice_s)
