"""The contest winner's method: memory as a penalty in a cost function network, with a weight for every node.

Beyond the paper, the network is reduced before it is solved (see `_reduce`), solutions that are nearly feasible are
repaired, and a solve may start from the best solutions known.
"""

from __future__ import annotations

import contextlib
import math
import resource
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from instances.columns import Floats, Ints
from instances.intraop import Instance
from solvers.intraop._construct import cheapest, construct
from solvers.intraop._memory import Footprint, Timeline
from solvers.intraop._model import IMPOSSIBLE
from solvers.intraop._network import BUDGET, Network, Status
from solvers.intraop._record import Record
from solvers.intraop._reduce import prepare
from solvers.intraop._workers import Workers
from solvers.registry import Run, solver

#: Seconds kept back at the end for the last children to answer: a fraction of the run's time, and its range.
RESERVE, LEAST_RESERVE, LARGEST_RESERVE = 0.02, 0.2, 1.0
#: CPU seconds of the first solves: a fraction of the run's time, at least so many, also for each table entry, and at
#: most a fraction of the run's time; the factor where they do not suffice.
SLICE, LEAST_SLICE, SLICE_PER_CELL, LARGEST_SLICE, LONGER_SLICE = 0.02, 0.5, 1.5e-6, 0.1, 1.5
#: Powers of ten, above that of a first guess, of the first weights.
FIRST_POWERS = (0, -1, 1, -2, 2, -3, 3, -4)
#: Memory above or below the limit by this fraction of it changes the weight of a node by a full step.
BAND = 0.05
#: Steps of the logarithm of weights: the first, their range, and factors while the side stays and when it changes.
FIRST_STEP, LEAST_STEP, LARGEST_STEP, LONGER, SHORTER = 0.5, 0.02, 1.0, 1.2, 0.8
#: Random change of the weights of every solve, and of those from which a chain starts again.
NOISE, RESTART_NOISE = 0.025, 0.1
#: Solves of a chain without a better solution until it starts again from the weights of the best one.
STALE = 10
#: The search has converged after so many solves, and so many more for each variable, without a better solution.
PATIENCE, PATIENCE_PER_VARIABLE = 100, 5
#: The same where no solution without forbidden entries has been found under any first weights.
LITTLE_PATIENCE = 20
#: Bytes for each table entry that a child of toulbar2 needs beside what it shares.
CHILD_BYTES = 20


@solver(track="intraop", source="Soft Constraints, Strong Solutions, Algorithm 1", deterministic=False)
def cfn_penalty(instance: Instance, run: Run) -> None:
    """Solve without the memory limit but with a penalty on memory, adapting a weight for every node (toulbar2)."""
    timeline = Timeline.of(instance)
    record = Record(instance, run, timeline)
    record.offer(cheapest(instance.usage, instance.strategy_start))
    if record.excess:  # the least memory of all nodes is too much
        return
    for tolerant in (False, True):
        model = prepare(instance, timeline, tolerant=tolerant)
        if model is not None:
            _Adaptation(run, record, Footprint(instance, timeline, model)).solve()
        if record.cost < IMPOSSIBLE or not run.remaining():
            return


class _NoAssignment(Exception):
    """Every assignment of the network is forbidden."""


class _Outcome(NamedTuple):
    """What a penalised solve gave.

    ``value``, shape (v,), minimises the penalised cost, as far as known, and for certain if ``optimal``;
    ``profile``, shape (steps,), is its memory. ``improved``: it led to a better solution of the instance.
    """

    value: Ints
    profile: Ints
    feasible: bool
    improved: bool
    optimal: bool


@dataclass(eq=False)
class _Chain:
    """One line of Algorithm 1: weights of the nodes, shape (n,), and how they have been changing."""

    weight: Floats
    step: float
    guided: bool
    feasible: bool = True
    streak: int = 0
    stale: int = 0
    value: Ints | None = None


class _Adaptation:
    """Algorithm 1 on one model."""

    def __init__(self, run: Run, record: Record, footprint: Footprint) -> None:
        self.run, self.record, self.footprint = run, record, footprint
        self.model, self.timeline = footprint.model, footprint.timeline
        reserve = min(max(RESERVE * run.remaining(), LEAST_RESERVE), LARGEST_RESERVE)
        self.end, self.last_call = run.deadline - reserve, run.deadline - reserve / 2
        wanted = max(SLICE * run.remaining(), LEAST_SLICE, SLICE_PER_CELL * len(self.model.cell))
        self.slice = min(wanted, LARGEST_SLICE * run.remaining())
        timeline = self.timeline
        self.excess = (timeline.usage - timeline.least()[timeline.owner]).astype(np.float64)
        self.matters = timeline.peak_of_node(timeline.profile(timeline.most())) > timeline.limit
        self.best: Ints | None = None
        self.best_cost = 0
        self.best_weight: Floats | None = None
        self.full_patience = self.patience = PATIENCE + PATIENCE_PER_VARIABLE * self.model.variables
        self.network, self.workers = Network(self.model), Workers()
        self.width = self._width()
        self.search = construct(footprint, np.zeros(len(self.model.unary)), self.end)
        self._set_scale()

    def _width(self) -> int:
        """How many children may run at once: one a core, where memory suffices when shared memory counts for each."""
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        child = own + CHILD_BYTES * len(self.model.cell) / 2**20
        return max(1, min(self.run.cores, int((self.run.memory - own) / child)))

    def solve(self) -> None:
        """Report better and better solutions until time is up or nothing more is to be expected."""
        if self.search.repair(self.end):
            self.search.descend(self.end)
        self._offer(self.search.value.copy(), None)
        with self.workers, contextlib.suppress(_NoAssignment):
            weight = self._first_weights()
            if weight is not None:
                if self.best is None or self.best_cost >= self.model.forbidden:
                    self.full_patience = self.patience = LITTLE_PATIENCE
                self._adapt(weight)

    def _offer(self, value: Ints, weight: Floats | None) -> bool:
        """Report an assignment, shape (v,), found under weights if it is better than what is known; whether it is."""
        cost = self.model.cost(value)
        if self.best is not None and cost >= self.best_cost:
            return False
        if not self.record.offer(self.model.lift(self.footprint.instance, value)):
            return False
        self.best, self.best_cost, self.best_weight = value, cost, weight
        return True

    def _penalty(self, weight: Floats) -> Ints:
        """Equation (7): the weight of every node times its memory above the least it can use, shape (rows,)."""
        penalty = self.model.fold(weight[self.timeline.owner] * self.excess) * self.network.scale
        most = np.maximum.reduceat(penalty, self.model.start[:-1]).sum() if len(penalty) else 0.0
        return np.ceil(penalty * min(1.0, BUDGET / max(most, 1.0))).astype(np.int64)

    def _set_scale(self) -> None:
        """Powers of ten at which weights begin to matter, at which nothing else does, and a guess between."""
        excess = self.model.fold(self.excess * self.matters[self.timeline.owner])
        largest = max(1.0, excess.max(initial=0.0) * self.network.scale)
        self.no_penalty, self.all_penalty = -math.ceil(math.log10(largest)) - 1, math.ceil(math.log10(BUDGET / largest))
        used = max(1.0, excess[self.model.start[:-1] + self.search.value].sum())
        guess = round(math.log10(max(1, self.model.cost(self.search.value)) / used))
        self.guess = min(max(guess, self.no_penalty + 1), self.all_penalty)

    def _launch(self, tag: Any, weight: Floats, known: list[Ints], *, guided: bool) -> None:
        """Solve the network under weights in a child; ``known`` are assignments that the answer may fall back on."""
        weight = weight * self.run.rng.uniform(1 - NOISE, 1 + NOISE, len(weight))
        job = partial(self._job, self._penalty(weight), known, guided, self.slice)
        self.workers.launch((tag, weight, self.slice), job, self.end - time.monotonic())

    def _job(self, penalty: Ints, known: list[Ints], guided: bool, seconds: float) -> Ints:
        """The child's part: ``[status, *solution of the relaxed network, *the same after post-processing]``."""
        start = min(known, key=lambda value: self.network.cost(value, penalty), default=None)
        found = self.network.minimise(penalty, seconds, self.end, hint=start if guided else None)
        value = found.value
        if value is None:
            return np.array([found.status])
        if start is not None and self.network.cost(start, penalty) <= self.network.cost(value, penalty):
            value = start
        self.search.reset(value)
        if self.search.repair(self.last_call):
            self.search.descend(self.last_call)
        return np.concatenate([[found.status], value, self.search.value])

    def _answers(self) -> Iterator[tuple[Any, _Outcome | None]]:
        """``(tag, outcome)`` of the next children to end; the outcome is None where time did not suffice."""
        for (tag, weight, seconds), answer in self.workers.collect(self.last_call):
            if answer is None or answer[0] == Status.NOTHING_YET:
                self.slice = max(self.slice, LONGER_SLICE * seconds)
                yield tag, None
                continue
            if answer[0] == Status.IMPOSSIBLE:
                raise _NoAssignment
            value, polished = np.split(answer[1:], 2)
            profile = self.footprint.profile(value)
            feasible = bool((profile <= self.timeline.limit).all())
            improved = self._offer(polished, weight)
            self.patience = self.full_patience if improved else self.patience - 1
            yield tag, _Outcome(value, profile, feasible, improved, answer[0] == Status.OPTIMAL)

    def _first_weights(self) -> Floats | None:
        """Line 1: uniform weights on a logarithmic scale, in both directions until some fit and some do not.

        The weights that led to the best solution, else those of the cheapest relaxed one that fits, else the
        largest. None where the solution without penalty fits and is optimal.
        """
        powers = [self.guess + step for step in FIRST_POWERS[: max(2, self.width)]]
        if not self.matters.any():
            powers = [self.no_penalty]
        fits: dict[int, int] = {}
        exceeds: set[int] = set()
        while (powers or len(self.workers)) and time.monotonic() < self.last_call:
            while powers and len(self.workers) < self.width:
                self._launch(powers[0], self._uniform(powers.pop(0)), [], guided=False)
            for power, outcome in self._answers():
                if outcome is None:
                    powers.append(power)
                elif outcome.feasible:
                    fits[power] = self.model.cost(outcome.value)
                    if outcome.optimal and power == self.no_penalty:
                        return None
                else:
                    exceeds.add(power)
            if fits and exceeds:
                powers.clear()
            elif not powers and not len(self.workers):
                powers = self._further(fits, exceeds)
        if self.best_weight is not None:
            return self.best_weight
        return self._uniform(min(fits, key=lambda power: fits[power]) if fits else max(exceeds, default=0))

    def _further(self, fits: Iterable[int], exceeds: Iterable[int]) -> list[int]:
        """The next power of ten, twice as far, where all have come out the same so far."""
        low, high = min([*fits, *exceeds]), max([*fits, *exceeds])
        further = max(1, high - low)
        if not fits and high < self.all_penalty:
            return [min(high + further, self.all_penalty)]
        if not exceeds and low > self.no_penalty:
            return [max(low - further, self.no_penalty)]
        return []

    def _uniform(self, power: int) -> Floats:
        """The same weight for every node that can take part in an overload."""
        return np.where(self.matters, 10.0**power if power > self.no_penalty else 0.0, 0.0)

    def _adapt(self, weight: Floats) -> None:
        """Lines 2 to 10, in as many chains as there are children at once."""
        self.best_weight = weight
        for number in range(self.width):
            step = FIRST_STEP / 2 ** (number % 4)
            self._next(_Chain(weight * math.exp(-step), step, guided=number % 2 == 1))
        while len(self.workers) and time.monotonic() < self.last_call:
            for chain, outcome in self._answers():
                if outcome is not None:
                    self._update(chain, outcome)
                if time.monotonic() < self.end and self.patience > 0:
                    self._next(chain)

    def _next(self, chain: _Chain) -> None:
        """Line 9: solve the network with a chain's weights."""
        known = [value for value in (self.best, chain.value) if value is not None]
        self._launch(chain, chain.weight, known, guided=chain.guided)
        chain.guided = chain.guided != (self.width == 1)

    def _update(self, chain: _Chain, outcome: _Outcome) -> None:
        """Lines 3 to 8: less weight for all if the solution fits, else more where it exceeds the limit.

        How much depends on how far the memory in a node's time steps is from the limit; nodes that have room
        lose weight also when others have none.
        """
        if outcome.feasible != chain.feasible:
            chain.feasible, chain.streak, chain.step = outcome.feasible, 0, max(chain.step * SHORTER, LEAST_STEP)
        else:
            chain.streak += 1
            chain.step = min(chain.step * (LONGER if chain.streak > 1 else 1.0), LARGEST_STEP)
        chain.value, chain.stale = outcome.value, 0 if outcome.improved else chain.stale + 1
        if chain.stale < STALE:
            above = self.timeline.peak_of_node(outcome.profile) - self.timeline.limit
            full = BAND * max(1, self.timeline.limit)
            chain.weight = chain.weight * np.exp(chain.step * np.clip(above / full, -1, 1))
        else:
            noise = self.run.rng.uniform(1 - RESTART_NOISE, 1 + RESTART_NOISE, len(chain.weight))
            chain.weight, chain.step = (
                (chain.weight if self.best_weight is None else self.best_weight) * noise,
                FIRST_STEP / 2,
            )
            chain.value, chain.stale, chain.streak = None, 0, 0
