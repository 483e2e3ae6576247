"""The methods of `cfn-native` under one clock: what each finds out about one model, the others use.

What is proved: messages, multipliers and what they rule out are exact integers (`_dual`), dominance keeps an optimum of
what fits (`_dominance`), and CP-SAT has integer rows, and costs that doubles hold: where what is of interest costs 2^50
or more they are rounded down (`_exact`). HiGHS, for programs too large for CP-SAT, computes in doubles, but only with
what bounds leave of costs, and what it proves gives way for its tolerances (`_relaxation`). Costs above about 2^56 are
rounded down before, and memory above 2^62 is rounded up for solutions and left out of bounds.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import numpy as np

from instances.files.columns import Ints
from solvers.intraop.cfn.exact import ExactResult, MemoryRowSearch
from solvers.intraop.cfn.generations import GenerationalSearch
from solvers.intraop.cfn.lagrangian import Dual
from solvers.intraop.cfn.neighbourhoods import LargeNeighbourhood
from solvers.intraop.cfn.relaxation import solve as solve_reduced_costs
from solvers.intraop.network.reduced_problem import Problem
from solvers.intraop.search.assignment import Search
from solvers.intraop.search.attempt import BestBound
from solvers.intraop.search.construction import construct
from solvers.intraop.search.incumbent import Incumbent
from solvers.registry import Run

#: Allowed cells and values with which an integer program is tried at first, at most; half of those of one that was not
#: done in its fraction of the remaining time, afterwards.
LARGEST_PROGRAM, PROGRAM_SHARE = 150_000, 0.4
#: Up to so many CP-SAT solves it, by search; above, where linear relaxation tells more, HiGHS.
LARGEST_SEARCH = 10_000
#: Up to so many the program comes first: no bound is had sooner.
SMALL = 2_000
#: Seconds that it takes to import CP-SAT, and to write a program down, for each of them: it does not stop meanwhile.
IMPORT, WRITE = 0.5, 3e-5
#: The optimum is looked for up to a fraction above the bound: the first one, how it grows when that is done and shrinks
#: when too much is left. The best solution so far is the end if it is nearer than so many fractions.
FIRST_GAP, LARGER, SMALLER, NEAR = 0.003, 2, 3, 1.5
#: Pruning is repeated while it leaves less than this fraction.
WORTHWHILE = 0.9
#: Fraction of the remaining time for the first bound, and for everything else that comes before the search; between
#: two attempts to make fit what a bound has come to, so many times the time of the last one passes.
FIRST_SHARE, SHARE, REST = 0.3, 0.1, 4.0
#: Pruning is tried if its first step leaves so many times the largest program, and if it closes this part of the gap.
TRACTABLE, PART = 4, 0.125
#: Fraction of the remaining time for the first search, and how it grows.
FIRST_SEARCH, MORE = 0.1, 2.0


@dataclass
class State:
    """Knowledge about one model, in its costs: assignments of interest cost less than ``top`` and at least ``bound``.

    ``multipliers``  what a byte costs in the steps that bind
    """

    top: int
    bound: int = 0
    multipliers: dict[int, float] = field(default_factory=dict)


class Portfolio:
    """Solves the problem of an instance; solutions go to the incumbent, and bounds to the best bound."""

    def __init__(
        self,
        run: Run,
        incumbent: Incumbent,
        problem: Problem,
        *,
        best_bound: BestBound,
        end: float,
    ) -> None:
        self.run, self.incumbent, self.problem, self.end = run, incumbent, problem, end
        self.instance, self.timeline = problem.instance, problem.timeline
        self.state, self.best_bound = State(problem.model.forbidden), best_bound
        self.largest_program, self.rest = LARGEST_PROGRAM, 0.0
        self.search: GenerationalSearch | None = None
        self.best: Ints | None = None

    @property
    def open(self) -> bool:
        """True if a better solution may exist and time is left."""
        return self.state.bound < self.state.top and time.monotonic() < self.end

    def solve(self) -> bool:
        """Solve as far as time allows; False if no assignment fits that has no forbidden entry."""
        until = self._after(SHARE)
        start = construct(self.problem.footprint, np.zeros(len(self.problem.variable)), until)
        self._descend_from(start, self.problem, until)
        if self.open and _allowed(self.problem) <= SMALL:
            self._finish(self.problem, self.state.top)
        if not self.open:
            return self.state.bound < self.problem.model.forbidden
        dual = self._bound(self.problem, self.state.top, FIRST_SHARE)
        self._close_in(dual)
        share = FIRST_SEARCH
        while self.open and not dual.closed:
            self._search(dual, share)
            self._close_in(dual)
            share = min(MORE * share, 1.0)
        return self.state.bound < self.problem.model.forbidden

    def _close_in(self, dual: Dual) -> None:
        """Find the best assignment up to a fraction above the bound, or prove that there is none, and go on upwards.

        Only while little enough is left there, and while that closes a good part of the gap.
        """
        gap, larger = FIRST_GAP, LARGER
        while self.open:
            top, best = self._target(gap), self.state.top
            if dual.left(top) > TRACTABLE * self.largest_program or not self._below(dual, top):
                gap, larger = gap / SMALLER, 1
                if gap * self.state.bound < PART * (self.state.top - self.state.bound):
                    break
            elif self.state.bound >= min(top, self.state.top):
                gap *= larger
            elif self.state.top == best:
                break  # no time for more, or no proof where memory is rounded

    def _target(self, gap: float) -> int:
        """Cost that the next solution must beat: a fraction above the bound, or the best cost."""
        bound, top = self.state.bound, self.state.top
        return top if top - bound <= NEAR * gap * bound else bound + int(gap * bound) + 1

    def _below(self, dual: Dual, top: int) -> bool:
        """Find the best assignment below ``top``, or prove that there is none; False if too much is left for that.

        ``dual`` is a bound of the whole problem.
        """
        problem, before = dual.prune(top), math.inf
        while problem is not None and self.open and _allowed(problem) < WORTHWHILE * before:
            before = _allowed(problem)
            problem = self._bound(problem, top, SHARE).prune()
        if problem is None:
            self._prove(top)
            return True
        if _allowed(problem) > self.largest_program:
            return False
        if self.open and self.end - time.monotonic() > IMPORT + WRITE * _allowed(problem):
            self._finish(problem, top)
        return True

    def _bound(self, problem: Problem, top: int, share: float) -> Dual:
        """The Lagrangian bound of a problem whose assignments below ``top`` are all those of the model."""
        dual = Dual(problem, top, self.state.multipliers)
        until = self._after(share)

        def note() -> None:
            self._prove(dual.bound)
            if time.monotonic() >= self.rest:
                self._round(dual, until)

        dual.climb(until, note)
        if dual.multipliers:
            self.state.multipliers = dual.multipliers
        self._prove(dual.bound)
        self._round(dual, self._after(SHARE))
        return dual

    def _after(self, share: float) -> float:
        """When a share of the remaining time will be over."""
        now = time.monotonic()
        return now + share * (self.end - now)

    def _round(self, dual: Dual, until: float) -> None:
        """Make fit what a bound's messages come to; this is to take only a fraction of the time."""
        begin = time.monotonic()
        if not dual.closed:
            self._descend_from(Search(dual.problem.footprint, dual.values()), dual.problem, until)
        now = time.monotonic()
        self.rest = now + REST * (now - begin)

    def _search(self, dual: Dual, share: float) -> None:
        """Walk about the limit of memory from where the bound has led to, for a share of the remaining time."""
        if self.search is None:
            blocks = LargeNeighbourhood(self.problem)
            self.search = GenerationalSearch(blocks, seed=self.run.seed, cores=self.run.cores, offer=self._found)
            self.search.begin(dual.values(), blocks.span_prices(dual.multipliers))
        self.search.best = self.best
        self.search.run(self._after(share), lambda: not self.open)

    def _finish(self, problem: Problem, top: int) -> None:
        """Solve the integer program of what is left below ``top``."""

        def found(value: Ints) -> None:
            self._offer(problem, value)

        def nearly(value: Ints) -> None:
            self._descend_from(Search(problem.footprint, value), problem, until)

        until, seed, multipliers = self._after(PROGRAM_SHARE), self.run.seed, self.state.multipliers
        if _allowed(problem) <= LARGEST_SEARCH:
            answer = MemoryRowSearch(problem, multipliers).solve(
                top, until, cores=self.run.cores, seed=seed, found=found
            )
        else:
            answer = solve_reduced_costs(problem, top, multipliers, until, seed=seed, found=nearly)
        if not answer.done and answer.bound is not None and answer.bound < top:
            self.largest_program = _allowed(problem) // 2
        if answer.value is not None:
            self._offer(problem, answer.value)
        self._conclude(answer, top)

    def _conclude(self, answer: ExactResult, top: int) -> None:
        """Use a bound on what is left below ``top``: all else costs at least ``top``."""
        if self.timeline.exact:
            self._prove(top if answer.bound is None else min(top, answer.bound))

    def _prove(self, bound: int) -> None:
        """Take note of a bound, in costs of the model, and report it; that nothing is left is no bound."""
        self.state.bound = max(self.state.bound, bound)
        if bound < self.problem.model.forbidden:
            self.best_bound.offer(bound << self.problem.model.shift)

    def _offer(self, problem: Problem, value: Ints) -> bool:
        """Take note of an assignment of the problem, and report it if it is the best; whether it is and fits."""
        cost, fits = problem.model.cost(value), bool((problem.overload(value) <= 0).all())
        better = fits and cost < self.state.top
        if better or self.incumbent.excess:
            strategy = problem.model.lift(self.instance, value)
            self.incumbent.offer(strategy)
            if better:
                self.state.top = cost
                self.best = value if problem is self.problem else self.problem.model.project(self.instance, strategy)
        return better

    def _found(self, value: Ints) -> bool:
        return self._offer(self.problem, value)

    def _descend_from(self, search: Search, problem: Problem, until: float) -> None:
        """Make an assignment fit, improve it by single moves and offer it."""
        if search.repair(until):
            search.descend(until)
        self._offer(problem, search.value)


def _allowed(problem: Problem) -> int:
    """Number of cells and values that are not forbidden."""
    model = problem.model
    return int((model.cell < model.forbidden).sum()) + len(model.unary)
