"""Lower bound on throughput: the linear relaxation of the integer program of placements below a known cost."""

from __future__ import annotations

from shardmark.instances.placement import Instance
from shardmark.solvers.placement.ip.dual_bound import relax
from shardmark.solvers.placement.ip.incumbent import Incumbent
from shardmark.solvers.placement.ip.shapes import programs, require_covered
from shardmark.solvers.placement.ip.start import begin
from shardmark.solvers.placement.throughput.forced_cpu_nodes import with_forced_nodes
from shardmark.solvers.registry import Run, bound


@bound(track="placement", source="linear relaxation of Tarnawski et al. 2020, Figure 7", deterministic=False)
def lp(instance: Instance, run: Run) -> None:
    """Relax the integer program of placements below a known cost to an LP, with safely rounded duals (HiGHS).

    HiGHS only proposes dual values. The bound is computed from them and lowered by all possible rounding errors; see
    `shardmark.solvers.placement.ip.dual_bound`.

    By itself the relaxation would only balance the work, as `load` does. It gains by excluding items from devices on
    which they alone cost more than the best known placement, and by ordering equal devices. For contiguity "acyclic" it
    is the relaxation of contiguous sets.
    """
    require_covered(instance)
    instance = with_forced_nodes(instance)
    incumbent = Incumbent(instance, run, reports=False)
    begin(incumbent, instance.contiguity)
    for build in programs(instance, "free" if instance.contiguity == "free" else "contiguous"):
        program = incumbent.build(build)
        if program is not None:
            relax(incumbent, program, 0, incumbent.remaining())
