"""Lower bound on throughput: the linear relaxation of the integer program of placements below a known cost."""

from __future__ import annotations

import numpy as np

from shardmark.instances.placement import Instance
from shardmark.solvers.placement.configuration.program import Limits, configuration_bounds
from shardmark.solvers.placement.ip.dual_bound import relax
from shardmark.solvers.placement.ip.incumbent import Incumbent
from shardmark.solvers.placement.ip.shapes import programs, require_covered
from shardmark.solvers.placement.ip.start import begin
from shardmark.solvers.placement.throughput.forced_cpu_nodes import with_forced_nodes
from shardmark.solvers.registry import Run, bound

#: Share of the time for the proof of a bound, if one is asked for.
WRITING = 0.4


@bound(track="placement", source="linear relaxation of Tarnawski et al. 2020, Figure 7", deterministic=False)
def lp(instance: Instance, run: Run) -> None:
    """Relax the integer program of placements below a known cost to an LP, with safely rounded duals (HiGHS).

    HiGHS only proposes dual values. The bound is computed from them and lowered by all possible rounding errors; see
    `shardmark.solvers.placement.ip.dual_bound`.

    Certificates have a proof by `configurations` of a bound at least as great, if there is time to find one.

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
            relax(incumbent, program, 0, incumbent.remaining() * (1 - WRITING * run.certify))
    if run.certify and min(incumbent.proved) > incumbent.lowest:
        _certify(incumbent, min(incumbent.proved))


def _certify(incumbent: Incumbent, bound: float) -> None:
    """Report a bound with a proof by configurations, if they prove as much in the time left."""
    instance, run = incumbent.instance, incumbent.run
    first = np.unique(instance.unit, return_index=True)[1]
    placements = [incumbent.device[first].astype(np.int32)] if len(incumbent.device) else []
    limits = Limits(incumbent.until, run.memory, np.zeros(1, dtype=np.int32))
    for value, proof in configuration_bounds(instance, incumbent.lowest, lambda: (incumbent.best, placements), limits):
        if value >= bound:
            run.bound(bound, proof)
            return
