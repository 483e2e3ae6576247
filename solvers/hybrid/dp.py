"""The exact dynamic program over chains of down-sets, by limits on the time of stages."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from shardmark.instances.graph import Index
from shardmark.instances.hybrid import Instance
from shardmark.solvers._ideals import Ideals, deadline
from shardmark.solvers.hybrid._batches import BatchSearch
from shardmark.solvers.hybrid._kernels import StageProblem
from shardmark.solvers.hybrid._stages import Chain
from shardmark.solvers.hybrid._thresholds import LimitSearch, largest, suffixes
from shardmark.solvers.registry import Declined, Run, solver


@solver(track="hybrid", source="Tarnawski et al. 2021, with limits instead of a table, and exact knapsacks")
def dp(instance: Instance, run: Run) -> None:
    """Choose stages, degrees and configurations optimally along chains of down-sets, with a proof.

    Down-sets are what the last stages may contain, so the microbatches in flight at the next stage are known. For a
    limit on the time per sample, a down-set only needs the undominated pairs of devices and sum of data-parallel
    degrees; a bisection over limits ends at the optimum. The configurations of a stage are a knapsack, which is solved
    exactly. For ``step``, ranges of the longest repeated time take the place of limits.

    Bounds are safe. Times and bytes are fixed-point numbers that are rounded down before they are summed, and such sums
    are exact; so whatever the kernels refute is refuted but for a relative error of 1e-12, which is subtracted. Chains
    whose exact bytes exceed a device by that rounding are not reported.
    """
    with deadline(run) as stop:
        program = _Program(instance, run, stop)
        if instance.objective == "step":
            feasible = program.shortest_batch()
        else:
            feasible = program.best_throughput()
    if not feasible and run.remaining():
        raise Declined("no stages fit the devices and their memory, whatever their degrees and configurations")


@dataclass(eq=False)
class _Program:
    """The searches of `dp`; ``stop``, shape (1,), int32, ends them once it is 1."""

    instance: Instance
    run: Run
    stop: Index

    @cached_property
    def ideals(self) -> Ideals:
        return suffixes(self.instance, self.run, self.stop, "search")

    @cached_property
    def loose(self) -> StageProblem:
        return StageProblem(self.instance, strict=False)

    @cached_property
    def strict(self) -> StageProblem:
        return StageProblem(self.instance, strict=True)

    def best_throughput(self) -> bool:
        """Report the chain with the fastest slowest stage; False if there is no chain."""
        low = self.instance.simple_bound()
        search = LimitSearch(self.within, self.stop, low, self.report, self.run.bound)
        search.run(largest(self.instance))
        return math.isfinite(search.high)

    def shortest_batch(self) -> bool:
        """Report the chain of the shortest batch; False if there is no chain."""
        known, batch = list[Chain](), self.instance.batch
        low = self.instance.simple_bound() / batch
        # A stage takes the batch at least its time per sample for every microbatch.
        LimitSearch(self.within, self.stop, low, known.append, lambda bound: self.run.bound(bound * batch)).run(
            largest(self.instance)
        )
        fitting = [chain for chain in known if chain.fits]
        if not fitting:
            return bool(known)
        first = min(fitting, key=lambda chain: chain.cost)
        self.report(first)
        search = BatchSearch(
            lambda limit, repeated: self.loose.shortest_step(self.ideals, limit, repeated, self.stop),
            lambda limit, repeated: self.strict.shortest_step(self.ideals, limit, repeated, self.stop),
            self.stop,
            self.report,
            first.cost,
        )
        bound = search.run(first.repeated)
        if bound is not None:
            self.run.bound(bound)
        return True

    def within(self, limit: float) -> Chain | None:
        """A chain that keeps the limit; if its bytes exceed a device by a rounding error, one that fits, if any."""
        found = self.loose.chain(self.ideals, limit, self.stop)
        if found is not None and not found.fits:
            return self.strict.chain(self.ideals, limit, self.stop) or found
        return found

    def report(self, chain: Chain) -> None:
        if chain.fits:
            self.run.report(chain.solution)
