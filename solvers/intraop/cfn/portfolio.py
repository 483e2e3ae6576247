"""The methods of `cfn-native` under one clock, sharing bounds, multipliers and solutions of one model.

Messages, multipliers, pruning and branching use exact integers (`lagrangian`, `branching`, `tree`), and dominance keeps
an optimum (`network.dominance`); none of this needs trust. Only CP-SAT's proofs on small programs are trusted: its rows
are integers, and its costs are doubles that represent integers exactly; if the relevant costs reach 2^50, they are
rounded down (`exact`). Costs above about 2^56 are rounded down beforehand; memory above 2^62 is rounded up for
solutions and relaxed in bounds.
"""

from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from threading import Event, RLock

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.solvers.intraop.cfn.background_search import BackgroundSearch
from shardmark.solvers.intraop.cfn.branching import lower_bound
from shardmark.solvers.intraop.cfn.generations import GenerationalSearch
from shardmark.solvers.intraop.cfn.lagrangian import Dual
from shardmark.solvers.intraop.cfn.neighbourhoods import LargeNeighbourhood
from shardmark.solvers.intraop.cfn.tree import Tree
from shardmark.solvers.intraop.network.reduced_problem import Problem
from shardmark.solvers.intraop.search.assignment import Search
from shardmark.solvers.intraop.search.attempt import BestBound
from shardmark.solvers.intraop.search.construction import construct
from shardmark.solvers.intraop.search.incumbent import Incumbent
from shardmark.solvers.registry import Run

#: Largest integer program to try, in allowed cells and values; halved below any that runs out of time.
LARGEST_PROGRAM = 150_000
#: Fraction of the remaining time for an integer program.
PROGRAM_SHARE = 0.4
#: Largest problem, in allowed cells and values, to solve as a program before computing any bound.
SMALL = 2_000
#: Seconds for importing CP-SAT, which cannot be interrupted.
IMPORT = 0.5
#: Seconds for writing a program, per allowed cell or value; this cannot be interrupted either.
WRITE = 3e-5
#: First gap above the bound, relative to it, in which to look for the optimum.
FIRST_GAP = 0.003
#: Factor by which the gap grows after success, and divisor after failure.
LARGER, SMALLER = 2, 3
#: The best cost is the target if it lies within this multiple of the gap.
NEAR = 1.5
#: Pruning is repeated while it leaves less than this fraction.
WORTHWHILE = 0.9
#: Fraction of the remaining time for the first bound.
FIRST_SHARE = 0.3
#: Fraction of the remaining time for each other step before the search.
SHARE = 0.1
#: Pause between two roundings of a bound, as a multiple of the time of the last one.
REST = 4.0
#: Pruning continues if its first step leaves at most this multiple of the largest program.
TRACTABLE = 4
#: Pruning ends once its gap is below this fraction of the gap to the best cost.
PART = 0.125
#: Fraction of the remaining time for the first search, and its growth per search.
FIRST_SEARCH, MORE = 0.1, 2.0


@dataclass
class State:
    """Bounds of one model: relevant assignments cost less than ``top``, and at least ``bound``, in costs of the model.

    ``multipliers``  price of a byte in the binding steps
    """

    top: int
    bound: int = 0
    multipliers: dict[int, float] = field(default_factory=dict)


class Portfolio:
    """Solves the problem of an instance; reports solutions to the incumbent and bounds to the best bound."""

    def __init__(self, run: Run, incumbent: Incumbent, problem: Problem, *, best_bound: BestBound, end: float) -> None:
        self.run, self.incumbent, self.problem, self.end = run, incumbent, problem, end
        self.instance, self.timeline = problem.instance, problem.timeline
        self.state, self.best_bound = State(problem.model.forbidden), best_bound
        self.largest_program, self.rest, self.rounded = LARGEST_PROGRAM, 0.0, 0.0
        self.search: BackgroundSearch | None = None
        self.tree: Tree | None = None
        self.best: Ints | None = None
        self._lock = RLock()  # held to change costs, bounds, the best assignment and the incumbent

    @property
    def open(self) -> bool:
        """True if a better solution may exist and time is left."""
        return self.state.bound < self.state.top and time.monotonic() < self.end

    def solve(self) -> bool:
        """Solve as far as time allows; False if every assignment that fits has a forbidden entry.

        On two cores or more, the first assignment is constructed while the first bound is computed.
        """
        small = self.problem.allowed <= SMALL
        with ThreadPoolExecutor(1) as pool:
            start = pool.submit(self._construct)
            if small or self.run.cores == 1:
                start.result()
            if small and self.open:
                self._finish(self.problem, self.state.top)
            if self.open:
                self._bound_and_search()
            start.result()
        return self.state.bound < self.problem.model.forbidden

    def _construct(self) -> None:
        """Construct an assignment, improve it by single moves and offer it."""
        until = self._after(SHARE)
        start = construct(self.problem.footprint, np.zeros(len(self.problem.variable)), until)
        self._descend_from(start, self.problem, until)

    def _bound_and_search(self) -> None:
        """Bound the whole problem, then alternate between integer programs and searches."""
        try:
            self._alternate(self._bound(self.problem, self.state.top, FIRST_SHARE))
            if self.search is not None:
                self.search.pause()
        finally:
            if self.search is not None:
                self.search.stop()  # an exception of its thread must not replace an interrupt

    def _alternate(self, dual: Dual) -> None:
        """Alternate between ever longer searches and integer programs of the problem that the bound leaves."""
        self._close_in(dual)
        share = FIRST_SEARCH
        while self.open and not dual.closed:
            self._search(dual, share)
            self._close_in(dual)
            share = min(MORE * share, 1.0)

    def _close_in(self, dual: Dual) -> None:
        """Find the best assignment within a gap above the bound, or prove that there is none, for growing gaps.

        Ends if pruning leaves too much, or if the gap becomes a too small part of the remaining one.
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
                break  # time is up, or rounded memory allows no proof

    def _target(self, gap: float) -> int:
        """Cost that the next solution must beat: the gap above the bound, or the best cost."""
        bound, top = self.state.bound, self.state.top
        return top if top - bound <= NEAR * gap * bound else bound + int(gap * bound) + 1

    def _below(self, dual: Dual, top: int) -> bool:
        """Find the best assignment below ``top``, or prove that there is none; False if the problem remains too large.

        ``dual`` is a bound of the whole problem.
        """
        problem, before = dual.prune(top), math.inf
        while problem is not None and self.open and problem.allowed < WORTHWHILE * before:
            before = problem.allowed
            problem = self._bound(problem, top, SHARE).prune()
        if problem is None:
            self._prove(top)
            return True
        if problem.allowed > self.largest_program:
            return False
        if self.open and self.end - time.monotonic() > IMPORT + WRITE * problem.allowed:
            self._finish(problem, top)
        return True

    def _bound(self, problem: Problem, top: int, share: float) -> Dual:
        """Compute the Lagrangian bound of a problem that contains all assignments of the model below ``top``."""
        dual, self.rounded = Dual(problem, top, self.state.multipliers), time.monotonic()
        until = self._after(share)

        def note() -> None:
            self._prove(dual.bound)
            if time.monotonic() >= self.rest:
                better = self._round(dual, until)
                if problem is self.problem and (better or self.search is None):
                    self._start_from(dual).resume()

        dual.climb(until, note)
        if dual.multipliers:
            self.state.multipliers = dual.multipliers
        self._prove(dual.bound)
        self._round(dual, self._after(SHARE))
        return dual

    def _after(self, share: float) -> float:
        """Time at which a share of the remaining time is over."""
        now = time.monotonic()
        return now + share * (self.end - now)

    def _round(self, dual: Dual, until: float) -> bool:
        """Round a bound's messages and repair the assignment, in as much time as has passed since the last rounding.

        Returns True if it is the best assignment so far.
        """
        begin, better = time.monotonic(), False
        if not dual.closed:
            until = min(until, 2 * begin - self.rounded)
            better = self._descend_from(Search(dual.problem.footprint, dual.values()), dual.problem, until)
        self.rounded = time.monotonic()
        self.rest = self.rounded + REST * (self.rounded - begin)
        return better

    def _start_from(self, dual: Dual) -> BackgroundSearch:
        """Let the search go on from the rounded bound, at its prices."""
        if self.search is None:
            offer = partial(self._offer, self.problem)
            search = GenerationalSearch(LargeNeighbourhood(self.problem), seed=self.run.seed, cores=1, offer=offer)
            self.search = BackgroundSearch(
                search, cores=self.run.cores - 1, best=lambda: self.best, enough=lambda: not self.open
            )
        self.search.start_from(dual.values(), dual.multipliers)
        return self.search

    def _search(self, dual: Dual, share: float) -> None:
        """Search on all cores, the first time from the rounded bound, for a share of the remaining time.

        Another thread raises the bound; the search continues from solutions found there.
        """
        if self.tree is None or self.search is None:
            self.tree, self.search = Tree(dual), self._start_from(dual)
        tree, search, until, ended = self.tree, self.search, self._after(share), Event()

        def enough() -> bool:
            self._prove(tree.bound)
            self._take_found(tree, search)
            return not self.open

        with ThreadPoolExecutor(1) as pool:
            growth = pool.submit(tree.grow, until, lambda: self.state.top, ended.is_set)
            try:
                search.run(until, enough, cores=self.run.cores)
            finally:
                ended.set()
            growth.result()
        enough()
        search.resume()

    def _take_found(self, tree: Tree, search: BackgroundSearch) -> None:
        """Repair the tree's last assignment; if it is the best so far, the search continues from it, at its prices."""
        if tree.solution is not None:
            self._offer(self.problem, tree.solution)
        if tree.found and self.open:
            value, multipliers = tree.found.pop()
            tree.found.clear()
            better = self._descend_from(Search(self.problem.footprint, value), self.problem, self._after(SHARE))
            if better and self.best is not None:
                search.start_from(self.best, multipliers)

    def _finish(self, problem: Problem, top: int) -> None:
        """Find the best assignment of the problem below ``top``, or prove that there is none."""
        until = self._after(PROGRAM_SHARE)

        def target() -> int:
            return min(top, self.state.top)

        def found(part: Problem, value: Ints) -> None:
            self._descend_from(Search(part.footprint, value), part, until)

        bound = lower_bound(problem, self.state.multipliers, until, seed=self.run.seed, top=target, found=found)
        if bound < target():
            self.largest_program = problem.allowed // 2
        if self.timeline.exact:  # everything else costs at least ``top``
            self._prove(min(top, bound))

    def _prove(self, bound: int) -> None:
        """Record a bound, in costs of the model, and report it unless it is the forbidden cost."""
        with self._lock:
            self.state.bound = max(self.state.bound, bound)
            if bound < self.problem.model.forbidden:
                self.best_bound.offer(bound << self.problem.model.shift)

    def _offer(self, problem: Problem, value: Ints) -> bool:
        """Record an assignment, and report it if it is the best; return True if it fits and is the best."""
        cost, fits = problem.model.cost(value), bool((problem.overload(value) <= 0).all())
        with self._lock:
            better = fits and cost < self.state.top
            if better or self.incumbent.excess:
                strategy = problem.model.lift(self.instance, value)
                self.incumbent.offer(strategy)
                if better:
                    self.state.top = cost
                    whole = problem is self.problem
                    self.best = value if whole else self.problem.model.project(self.instance, strategy)
        return better

    def _descend_from(self, search: Search, problem: Problem, until: float) -> bool:
        """Repair an assignment, improve it by single moves and offer it; return True if it is the best."""
        if search.repair(until):
            search.descend(until)
        return self._offer(problem, search.value)
