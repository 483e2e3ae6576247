"""PipeDream's optimizer: branchings are contracted until the graph is a path, which is then cut."""

from __future__ import annotations

import math

from shardmark.instances.placement import Instance
from shardmark.solvers._ideals import deadline
from shardmark.solvers.placement.ideals.branchings import contract_branchings
from shardmark.solvers.placement.ideals.dynamic_program import require_chains
from shardmark.solvers.placement.ideals.splits import ideal_programs, report_cuts
from shardmark.solvers.registry import Declined, Run, solver


@solver(
    track="placement",
    source="Narayanan et al. 2019, as in Tarnawski et al. 2020, Section 6, PipeDream",
    proves_bounds=False,
)
def pipedream(instance: Instance, run: Run, *, light: float = 0.1) -> None:
    """Contract every branching to one node, then cut the remaining path optimally into devices.

    Nodes that take no time and whose tensor is at most the share ``light`` of the median one, such as masks that every
    layer reads, do not form branchings.
    """
    require_chains(instance, "pipedream")
    if not 0 <= light < math.inf:
        raise Declined(f"expected light from 0 on, finite, found {light}")
    with deadline(run) as stop:
        programs = ideal_programs(contract_branchings(instance, light), stop)
        if math.isinf(report_cuts(programs, run)) and not stop[0]:
            raise Declined("no way to cut the path of contracted branchings fits the devices")
