"""The exact dynamic program over chains of down-sets, by limits on the time of stages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from shardmark.instances.graph import Index
from shardmark.instances.hybrid import Instance
from shardmark.solvers._ideals import Ideals, deadline
from shardmark.solvers.hybrid import _restricted
from shardmark.solvers.hybrid._batches import BatchSearch
from shardmark.solvers.hybrid._kernels import StageProblem
from shardmark.solvers.hybrid._proofs import bound_by_states, simple_proof
from shardmark.solvers.hybrid._stages import Chain
from shardmark.solvers.hybrid._thresholds import LimitSearch, largest, least, suffixes
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
    whose exact bytes exceed a device by that rounding are not reported. A knapsack with too many undominated partial
    choices is left open, and what depends on it is not refuted.
    """
    run.bound(instance.simple_bound(), simple_proof)
    with deadline(run) as stop:
        program = _Program(instance, run, stop)
        if instance.objective == "step":
            program.shortest_batch()
        else:
            program.limits(program.report, program.bound)
    if not program.fitting and not stop[0]:
        if program.over:
            raise Declined("found no stages that fit the memory, only some that exceed it by a rounding error")
        raise Declined("no stages fit the devices and their memory")


@dataclass(eq=False)
class _Program:
    """The searches of `dp`.

    ``stop``     shape (1,), int32: ends them once it is 1
    ``fitting``  the chains found, ever faster
    ``over``     those that exceed the memory by a rounding error
    """

    instance: Instance
    run: Run
    stop: Index
    fitting: list[Chain] = field(default_factory=list)
    over: list[Chain] = field(default_factory=list)

    @cached_property
    def ideals(self) -> Ideals:
        return suffixes(self.instance, self.run, self.stop, "search")

    @cached_property
    def bound(self) -> Callable[[float], None]:
        """Reports a bound, with a proof if one is asked for."""
        return bound_by_states(self.instance, self.run, self.stop)

    @cached_property
    def loose(self) -> StageProblem:
        return StageProblem(self.instance, strict=False)

    @cached_property
    def strict(self) -> StageProblem:
        return StageProblem(self.instance, strict=True)

    def shortest_batch(self) -> None:
        """Report the chain of the shortest batch."""
        batch = self.instance.batch
        # A stage takes the batch at least its time per sample for every microbatch.
        self.limits(lambda chain: None, lambda bound: self.bound(bound * batch))
        if not self.fitting:
            return
        first = min(self.fitting, key=lambda chain: chain.cost)
        self.report(first)
        search = BatchSearch(
            lambda limit, repeated: self.loose.shortest_step(self.ideals, limit, repeated, self.stop),
            lambda limit, repeated: self.strict.shortest_step(self.ideals, limit, repeated, self.stop),
            self.instance,
            self.stop,
            self.report,
            first.cost,
        )
        bound = search.run(first.repeated)
        if bound is not None:
            self.bound(bound)

    def limits(self, better: Callable[[Chain], None], refuted: Callable[[float], None]) -> None:
        """Search for the least time per sample; ``better`` is called with chains that fit."""
        low, most = least(self.instance), largest(self.instance)

        def sort(chain: Chain) -> None:
            (self.fitting if chain.fits else self.over).append(chain)
            if chain.fits:
                better(chain)

        LimitSearch(self.within, self.stop, low, sort, refuted).run(most)
        if self.over:
            LimitSearch(self.strictly_within, self.stop, low, sort, lambda bound: None).run(most)

    def within(self, limit: float) -> Chain | None:
        """A chain that keeps the limit; if its bytes exceed a device by a rounding error, one that fits, if any."""
        found = self.loose.chain(self.ideals, limit, self.stop)
        return found if found is None or found.fits else self.strictly_within(limit) or found

    def strictly_within(self, limit: float) -> Chain | None:
        """A chain that keeps the limit, with bytes rounded up."""
        return self.strict.chain(self.ideals, limit, self.stop)

    def report(self, chain: Chain) -> None:
        self.run.report(chain.solution)


BASELINES = "Tarnawski et al. 2021, Section 5, baselines, each solved exactly"


@solver(track="hybrid", source=BASELINES, proves_bounds=False)
def no_data_parallelism(instance: Instance, run: Run) -> None:
    """Choose the best plan with one replica per stage."""
    _restricted.solve(dp, _restricted.one_replica, run, instance)


@solver(track="hybrid", source=BASELINES, proves_bounds=False)
def no_tensor_parallelism(instance: Instance, run: Run) -> None:
    """Choose the best plan with one device per replica."""
    _restricted.solve(dp, _restricted.one_device, run, instance)


@solver(track="hybrid", source=BASELINES, proves_bounds=False)
def no_recomputation(instance: Instance, run: Run) -> None:
    """Choose the best plan with the first configuration of each degree, which recomputes nothing."""
    _restricted.solve(dp, _restricted.first_kinds, run, instance)
