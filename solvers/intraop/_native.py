"""The methods of `cfn-native` under one clock: what each finds out about one model, the others use.

What is proved: messages, multipliers and what they rule out are exact integers (`_dual`), dominance keeps an optimum of
what fits (`_dominance`), and CP-SAT computes with integers (`_exact`). Costs above about 2^56 are rounded down before,
and memory above 2^62 is rounded up for solutions and left out of bounds.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import numpy as np

from instances.columns import Ints
from instances.intraop import Instance
from solvers.intraop._construct import construct
from solvers.intraop._dual import Dual
from solvers.intraop._exact import Answer, Program
from solvers.intraop._memory import Timeline
from solvers.intraop._model import Model
from solvers.intraop._problem import Problem
from solvers.intraop._record import Record
from solvers.intraop._search import Search
from solvers.registry import Run

#: Allowed cells and values with which an integer program is tried at most.
LARGEST_PROGRAM = 150_000
#: Seconds that it takes to import CP-SAT, and to write a program down, for each of them: it does not stop meanwhile.
IMPORT, WRITE = 0.5, 3e-5
#: The optimum is looked for up to a fraction above the bound: the first one, how it grows when that is done and shrinks
#: when too much is left, and the least one. The best solution so far is the end if it is nearer than so many fractions.
FIRST_GAP, LARGER, SMALLER, LEAST_GAP, NEAR = 0.003, 2, 3, 1e-5, 1.5
#: Pruning is repeated while it leaves less than this fraction.
WORTHWHILE = 0.9
#: Fraction of the remaining time for the first bound, and for each one after it.
FIRST_SHARE, SHARE = 0.3, 0.1
#: Prices of memory with which assignments are constructed, as multiples of the multipliers.
PRICES = (1.0, 0.7, 1.5, 0.4, 2.5)


@dataclass
class State:
    """What is known of one model, in its costs: nothing of interest costs ``top`` or more, nor less than ``bound``.

    ``multipliers``  what a byte costs in the steps that bind
    """

    top: int
    bound: int = 0
    multipliers: dict[int, float] = field(default_factory=dict)


class Native:
    """Solves one model of an instance; solutions go to the record, bounds above the one reported so far to the run."""

    def __init__(
        self,
        run: Run,
        record: Record,
        instance: Instance,
        timeline: Timeline,
        model: Model,
        *,
        reported: int,
        end: float,
    ) -> None:
        self.run, self.record, self.instance, self.timeline, self.end = run, record, instance, timeline, end
        self.problem = Problem(instance, timeline, model)
        self.state, self.reported = State(model.forbidden), reported

    @property
    def open(self) -> bool:
        """Whether there may be something better, and time to look for it."""
        return self.state.bound < self.state.top and time.monotonic() < self.end

    def solve(self) -> bool:
        """Solve as far as time allows; False if no assignment fits that has no forbidden entry."""
        self._descend_from(
            self.problem, construct(self.problem.footprint, np.zeros(len(self.problem.variable)), self.end)
        )
        self._construct_with(self._bound(self.problem, self.state.top, FIRST_SHARE))
        gap, larger = FIRST_GAP, LARGER
        while self.open and gap > LEAST_GAP:
            top = self._target(gap)
            if not self._below(top):
                gap, larger = gap / SMALLER, 1
            elif self.state.bound < min(top, self.state.top):
                break  # no time for more, or no proof where memory is rounded
            else:
                gap *= larger
        return self.state.bound < self.problem.model.forbidden

    def _target(self, gap: float) -> int:
        """What the next solution must cost less than: a fraction above the bound, or what the best one costs."""
        bound, top = self.state.bound, self.state.top
        return top if top - bound <= NEAR * gap * bound else bound + int(gap * bound) + 1

    def _below(self, top: int) -> bool:
        """Find the best assignment below ``top``, or prove that there is none; False if too much is left for that."""
        problem, before = self.problem, math.inf
        while self.open and _allowed(problem) < WORTHWHILE * before:
            before = _allowed(problem)
            left = self._bound(problem, top, SHARE).prune()
            if left is None:
                self._prove(top)
                return True
            problem = left
        if _allowed(problem) > LARGEST_PROGRAM:
            return False
        if self.open and self.end - time.monotonic() > IMPORT + WRITE * _allowed(problem):
            self._finish(problem, top)
        return True

    def _bound(self, problem: Problem, top: int, share: float) -> Dual:
        """The Lagrangian bound of a problem whose assignments below ``top`` are all those of the model."""
        dual = Dual(problem, top, self.state.multipliers)
        now = time.monotonic()
        dual.climb(now + share * (self.end - now))
        if dual.multipliers:
            self.state.multipliers = dual.multipliers
        self._prove(dual.bound)
        if not dual.closed:
            self._descend_from(problem, Search(problem.footprint, dual.values()))
        return dual

    def _finish(self, problem: Problem, top: int) -> None:
        """Solve the integer program of what is left below ``top``."""

        def found(value: Ints) -> None:
            self._offer(problem, value)

        program = Program(problem, self.state.multipliers)
        answer = program.solve(top, self.end, cores=self.run.cores, seed=self.run.seed, found=found)
        if answer.value is not None:
            self._offer(problem, answer.value)
        self._conclude(answer, top)

    def _conclude(self, answer: Answer, top: int) -> None:
        """Use a bound on what is left below ``top``: all else costs at least ``top``."""
        if self.timeline.exact:
            self._prove(top if answer.bound is None else min(top, answer.bound))

    def _prove(self, bound: int) -> None:
        """Take note of a bound, in costs of the model, and report it; that nothing is left is no bound."""
        self.state.bound = max(self.state.bound, bound)
        exact = bound << self.problem.model.shift
        if exact > self.reported and bound < self.problem.model.forbidden:
            self.reported = exact
            self.run.bound(exact)

    def _offer(self, problem: Problem, value: Ints) -> None:
        """Take note of an assignment of the problem, and report it if it is the best."""
        self.record.offer(problem.model.lift(self.instance, value))
        if (problem.overload(value) <= 0).all():
            self.state.top = min(self.state.top, problem.model.cost(value))

    def _descend_from(self, problem: Problem, search: Search) -> None:
        """Make an assignment fit, improve it by single moves and offer it."""
        if search.repair(self.end):
            search.descend(self.end)
        self._offer(problem, search.value)

    def _construct_with(self, dual: Dual) -> None:
        """Construct assignments under the multipliers of a bound."""
        price = dual.price().astype(np.float64)
        for factor in PRICES:
            if self.open and price.any():
                self._descend_from(dual.problem, construct(dual.problem.footprint, price * factor, self.end))


def _allowed(problem: Problem) -> int:
    """Number of cells and values that are not forbidden."""
    model = problem.model
    return int((model.cell < model.forbidden).sum()) + len(model.unary)
