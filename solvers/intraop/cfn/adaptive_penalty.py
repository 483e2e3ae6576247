"""Algorithm 1 of the contest winner's paper: rounds of networks with a penalty on memory instead of the limit.

Numbers that the paper leaves open are those of the winner's program. As in the paper, three steps of the program are
omitted: a local search from the least memory, an exact attempt on small instances, and a second solve with the best
weights on an eighth core.

Variables that are functions of others are merged once (see `network.reduction`), not by toulbar2 in every solve;
solutions and costs stay the same.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.intraop import Instance
from shardmark.solvers.intraop.cfn.penalty_weights import Outcome, Weights
from shardmark.solvers.intraop.network.infeasibility import contradiction
from shardmark.solvers.intraop.network.memory import Footprint, Timeline
from shardmark.solvers.intraop.network.model import Mask, Model, build, exact_cost
from shardmark.solvers.intraop.network.reduction import reduce
from shardmark.solvers.intraop.programs.child_processes import Workers
from shardmark.solvers.intraop.programs.toulbar2_network import BUDGET, Network, Status
from shardmark.solvers.intraop.search.assignment import Search
from shardmark.solvers.intraop.search.attempt import first_incumbent, reserve
from shardmark.solvers.intraop.search.incumbent import Incumbent
from shardmark.solvers.registry import Declined, Run

#: CPU seconds of toulbar2 per network at first.
SLICE = 12.0
#: Seconds by which the slice grows after a round.
LONGER = 1.0
#: Largest slice, as a multiple of the first.
MOST_SLICES = 2
#: Seconds by which the slice, and its maximum, grow after a network without a solution.
LONGER_AFTER_NOTHING = 5.0
#: Networks per round; as many as cores if those are more.
LEVELS = 7
#: Seconds for post-processing one solution.
POLISH = 1.0
#: Line 2: rounds without a better solution after which the search has converged.
PATIENCE = 25
#: Fraction of the remaining time for finding the edge that makes an instance infeasible.
REASON = 0.5
#: Bytes per table entry that a child of toulbar2 needs in addition to shared memory.
CHILD_BYTES = 20

Maker = Callable[[Mask, int, np.random.Generator], Weights]


def solve(instance: Instance, run: Run, weights: Maker, *, slice_s: float, polish: bool = True) -> None:
    """Run Algorithm 1 with a kind of weights; networks first get ``slice_s`` CPU seconds each.

    ``polish`` enables post-processing of feasible solutions. Raises Declined, after reporting the solution of least
    memory, if memory cannot suffice, or if every assignment has an entry of 10^17 or more although all other entries
    together cost less.
    """
    if not slice_s > 0:
        raise Declined(f"slice_s: expected a number above 0, found {slice_s:g}")
    timeline = Timeline.of(instance)
    incumbent = first_incumbent(instance, run, timeline)
    every = build(instance, np.zeros(len(instance.usage), dtype=bool))
    model = reduce(every)
    if model is not None:
        relaxation = _Relaxation(instance, timeline, model, every if polish else None)
        possible = _Adaptation(run, incumbent, relaxation, weights, slice_s).run()
    if model is None or not possible:
        raise Declined(contradiction(instance, timeline, time.monotonic() + REASON * run.remaining()))


class _Relaxation:
    """The relaxed problem, Equation (7): a penalty on every byte above the least memory of its node.

    ``every``, the network of all nodes, enables post-processing.
    """

    def __init__(self, instance: Instance, timeline: Timeline, model: Model, every: Model | None) -> None:
        self.instance, self.timeline, self.model = instance, timeline, model
        self._network = Network(model)
        self._excess = (timeline.usage - timeline.least()[timeline.owner]).astype(np.float64)
        nobody = np.zeros(instance.nodes, dtype=np.int64)
        self._search = Search(Footprint(instance, timeline, every), nobody) if every is not None else None

    def free(self) -> Mask:
        """Nodes that need no weight: no assignment can overload their time steps."""
        timeline = self.timeline
        return timeline.peak_of_node(timeline.profile(timeline.most())) <= timeline.limit

    def over(self, strategy: Ints) -> Mask:
        """Nodes with an overloaded time step, shape (n,), for the strategy of every node."""
        timeline = self.timeline
        used = timeline.usage[self.instance.strategy_start[:-1] + strategy]
        return timeline.peak_of_node(timeline.profile(used)) > timeline.limit

    def penalty(self, weight: Floats) -> Ints:
        """Penalties of the network's values, added to Equation (1), shape (rows,), for weights of shape (n,).

        If they exceed toulbar2's range, all are scaled down by one factor.
        """
        penalty = self.model.fold(weight[self.timeline.owner] * self._excess) * self._network.scale
        most = np.maximum.reduceat(penalty, self.model.start[:-1]).sum() if len(penalty) else 0.0
        return np.ceil(penalty * min(1.0, BUDGET / max(most, 1.0))).astype(np.int64)

    def minimise(self, penalty: Ints, seconds: float, end: float, last_call: float) -> Ints:
        """Line 9, in a child: return ``[status, strategy of every node]``, or only the status without a solution."""
        found = self._network.minimise(penalty, seconds, end)
        if found.value is None:
            return np.array([found.status])
        strategy = self.model.lift(self.instance, found.value)
        if self._search is not None and not self.over(strategy).any():
            self._search.reset(strategy)
            self._search.descend(min(time.monotonic() + POLISH, last_call))
            strategy = self._search.value
        return np.concatenate([[found.status], strategy])


class _NoAssignment(Exception):
    """Every assignment of the network is forbidden."""


class _Adaptation:
    """The rounds of Algorithm 1, each of several networks, solved in one child per core."""

    def __init__(self, run: Run, incumbent: Incumbent, relaxation: _Relaxation, weights: Maker, slice_s: float) -> None:
        self._run, self._incumbent, self._relaxation = run, incumbent, relaxation
        kept = reserve(run)
        self._end, self._last_call = run.deadline - kept, run.deadline - kept / 2
        self._slice, self._longest = slice_s, MOST_SLICES * slice_s
        free = relaxation.free()
        self._weights = weights(free, 1 if free.all() else max(LEVELS, run.cores), run.rng)
        self._workers, self._width = Workers(), self._room()
        self._unsolved = self._proved = False

    def _room(self) -> int:
        """Number of children that may run at once: one per core, or fewer if memory is short."""
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        child = own + CHILD_BYTES * len(self._relaxation.model.cell) / 2**20
        return max(1, min(self._run.cores, int((self._run.memory - own) / child)))

    def run(self) -> bool:
        """Report improving solutions; False if every assignment turns out to be forbidden."""
        stale = 0
        try:
            with self._workers:
                while stale < PATIENCE and not self._proved and time.monotonic() < self._end:
                    before = self._incumbent.excess, self._incumbent.cost
                    self._adapt(self._round())
                    improved = (self._incumbent.excess, self._incumbent.cost) < before
                    stale = 0 if improved or self._unsolved else stale + 1
        except _NoAssignment:
            return False
        return True

    def _round(self) -> list[Outcome | None]:
        """Solve the networks of all levels in random order; return their outcomes, None for failures."""
        waiting = self._run.rng.permutation(len(self._weights.level)).tolist()
        outcomes: list[Outcome | None] = [None] * len(waiting)
        self._unsolved = False
        while (waiting or len(self._workers)) and time.monotonic() < self._last_call:
            while waiting and len(self._workers) < self._width and time.monotonic() < self._end:
                self._launch(waiting.pop())
            if not len(self._workers):
                break
            for level, outcome in self._answers():
                outcomes[level] = outcome
        return outcomes

    def _launch(self, level: int) -> None:
        penalty = self._relaxation.penalty(self._weights.level[level])
        job = partial(self._relaxation.minimise, penalty, self._slice, self._end, self._last_call)
        self._workers.launch(level, job, self._end - time.monotonic())

    def _answers(self) -> Iterator[tuple[int, Outcome | None]]:
        """Yield level and outcome of the next children to end, and report improving solutions."""
        for level, answer in self._workers.collect(self._last_call):
            status = Status.NOTHING_YET if answer is None else Status(answer[0])
            if status == Status.IMPOSSIBLE:
                raise _NoAssignment
            if answer is None or status == Status.NOTHING_YET:
                self._unsolved |= answer is not None
                yield level, None
                continue
            strategy = answer[1:]
            self._incumbent.offer(strategy)
            outcome = Outcome(exact_cost(self._relaxation.instance, strategy), self._relaxation.over(strategy))
            unweighted = not self._weights.level[level].any()
            self._proved |= unweighted and outcome.feasible and status == Status.OPTIMAL
            yield level, outcome

    def _adapt(self, outcomes: list[Outcome | None]) -> None:
        """Lines 3 to 8; if time was too short for a network, retry the same weights with more time instead."""
        if self._unsolved:
            self._slice += LONGER_AFTER_NOTHING
            self._longest = max(self._longest, self._slice)
            return
        self._weights.update(outcomes)
        self._slice = min(self._slice + LONGER, self._longest)
