"""The contest winner's method: the memory limit becomes a price of memory, with a weight for every node."""

from __future__ import annotations

from instances.intraop import Instance
from solvers.intraop._penalty import SLICE, solve
from solvers.intraop._weights import NodeWeights
from solvers.registry import Run, solver


@solver(
    track="intraop",
    source="Soft Constraints, Strong Solutions, Section 4 and Algorithm 1",
    variants={"cfn-penalty": {"slice_s": SLICE}},
    deterministic=False,
)
def cfn_penalty(instance: Instance, run: Run, slice_s: float = SLICE) -> None:
    """Solve without the memory limit but with a penalty on memory, adapting a weight for every node (toulbar2).

    ``slice_s`` are the CPU seconds that toulbar2 has for each network at first, the only number that the winner's
    program lets its user set, as does `--set` here.
    Raises Declined for an instance in which nothing is possible; see `solve`.
    """
    solve(instance, run, NodeWeights, slice_s=slice_s)
