"""The exact dynamic program over chains of down-sets, by limits on the time of stages."""

from __future__ import annotations

import math

from shardmark.instances.hybrid import Instance
from shardmark.solvers._ideals import deadline
from shardmark.solvers.hybrid._kernels import StageProblem
from shardmark.solvers.hybrid._stages import Chain
from shardmark.solvers.hybrid._thresholds import LimitSearch, largest, suffixes
from shardmark.solvers.registry import Declined, Run, solver


@solver(track="hybrid", source="after Tarnawski et al. 2021, with limits instead of a table and exact knapsacks")
def dp(instance: Instance, run: Run) -> None:
    """Stages, degrees and configurations, proven optimal; declines graphs with too many down-sets."""
    with deadline(run) as stop:
        ideals = suffixes(instance, run, stop, "search")
        loose, strict = (StageProblem(instance, strict=strict) for strict in (False, True))

        def find(limit: float) -> Chain | None:
            """The chain that keeps the limit; if its bytes exceed a device by a rounding error, one that fits."""
            found = loose.chain(ideals, limit, stop)
            if found is not None and not found.fits:
                return strict.chain(ideals, limit, stop) or found
            return found

        def report(chain: Chain) -> None:
            if chain.fits:
                run.report(chain.solution)

        search = LimitSearch(find, stop, instance.simple_bound(), report, run.bound)
        search.run(largest(instance))
    if math.isinf(search.high) and run.remaining():
        raise Declined("no stages fit the devices and their memory, whatever their degrees and configurations")
