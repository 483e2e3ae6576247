"""The contest winner's method, which replaces the memory limit by a penalty on memory, and two ablations."""

from __future__ import annotations

from shardmark.instances.intraop import Instance
from shardmark.solvers.intraop.cfn.adaptive_penalty import SLICE, solve
from shardmark.solvers.intraop.cfn.penalty_weights import GlobalWeight, NodeWeights
from shardmark.solvers.registry import Run, solver

PAPER = "Soft Constraints, Strong Solutions"


@solver(track="intraop", source=f"{PAPER}, Section 4 and Algorithm 1", deterministic=False, proves_bounds=False)
def cfn_penalty(instance: Instance, run: Run, *, slice_s: float = SLICE) -> None:
    """Replace the memory limit by penalties, adapting one weight per node (toulbar2).

    ``slice_s``, CPU seconds of toulbar2 per network at first, is the only option of the winner's program. Raises
    Declined for an infeasible instance; see `solve`.
    """
    solve(instance, run, NodeWeights, slice_s=slice_s)


@solver(track="intraop", source=f"{PAPER}, Section 5.5: an ablation", deterministic=False, proves_bounds=False)
def cfn_penalty_global(instance: Instance, run: Run, *, slice_s: float = SLICE) -> None:
    """Like cfn-penalty, with one weight for all nodes (toulbar2)."""
    solve(instance, run, GlobalWeight, slice_s=slice_s)


@solver(track="intraop", source=f"{PAPER}, Appendix E: an ablation", deterministic=False, proves_bounds=False)
def cfn_penalty_nopost(instance: Instance, run: Run, *, slice_s: float = SLICE) -> None:
    """Like cfn-penalty, without post-processing of solutions (toulbar2)."""
    solve(instance, run, NodeWeights, slice_s=slice_s, polish=False)
