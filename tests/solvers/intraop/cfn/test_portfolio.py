"""A portfolio keeps the best of all its threads, and what ends it is what it raises."""

from __future__ import annotations

import time
from threading import Thread
from types import SimpleNamespace

import numpy as np
import pytest

from shardmark.solvers.intraop.cfn.background_search import BackgroundSearch
from shardmark.solvers.intraop.cfn.portfolio import Portfolio
from shardmark.solvers.intraop.network.memory import Timeline
from shardmark.solvers.intraop.network.reduced_problem import Problem
from shardmark.solvers.intraop.network.reduction import prepare
from shardmark.solvers.intraop.search.attempt import BestBound
from shardmark.solvers.intraop.search.incumbent import Incumbent

#: Seconds for which the first of two threads lets the second go on: too few can only hide that a lock is missing.
MEANWHILE = 0.3


class Recorder:
    """Stands for a run: notes what is reported, and does something ``meanwhile`` when the first solution is."""

    cores, seed = 2, 0

    def __init__(self):
        self.solutions, self.bounds, self.meanwhile = [], [], lambda: None

    def report(self, solution):
        self.solutions.append(solution)
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()

    def bound(self, value):
        self.bounds.append(value)


class BetweenReadAndWrite(int):
    """A bound that is compared so slowly that ``meanwhile`` happens between the comparison's read and its result."""

    def __new__(cls, value, meanwhile):
        number = super().__new__(cls, value)
        number.meanwhile = meanwhile
        return number

    def __gt__(self, other):
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        return int(self) > other


class FailingSearch:
    """Stands for a generational search that runs out of memory."""

    cores = 1

    def run(self, until, enough):
        raise MemoryError

    def halt(self):
        pass


def portfolio_of(instance):
    """A portfolio of the problem before dominance, and its run."""
    run, timeline = Recorder(), Timeline.of(instance)
    problem = Problem(instance, timeline, prepare(instance, timeline, tolerant=True))
    incumbent, bound = Incumbent(instance, run, timeline), BestBound(run, 0)
    return Portfolio(run, incumbent, problem, best_bound=bound, end=time.monotonic() + 60), run


class OtherThread:
    """A function that another thread calls while this one is at work; ``end`` waits until it is done."""

    def __init__(self, function):
        self.thread = Thread(target=function)

    def __call__(self):
        self.thread.start()
        self.thread.join(MEANWHILE)

    def end(self):
        self.thread.join()


def test_the_better_of_two_solutions_offered_at_once_is_kept(tiny):
    portfolio, run = portfolio_of(tiny.make([(0, 1, [5, 3, 9], [1, 1, 1])]))
    good, best = np.array([0]), np.array([1])
    run.meanwhile = other = OtherThread(lambda: portfolio._offer(portfolio.problem, best))
    portfolio._offer(portfolio.problem, good)
    other.end()
    assert run.solutions == [[0], [1]]
    assert (portfolio.state.top, portfolio.best.tolist()) == (3, [1])


def test_the_greater_of_two_bounds_proved_at_once_is_kept(tiny):
    portfolio, run = portfolio_of(tiny.make([(0, 1, [9, 8], [1, 1])]))
    other = OtherThread(lambda: portfolio._prove(7))
    portfolio._prove(BetweenReadAndWrite(5, other))
    other.end()
    assert portfolio.state.bound == run.bounds[-1] == 7


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, None])
def test_what_the_background_search_raised_does_not_replace_an_interrupt(tiny, monkeypatch, interrupt):
    portfolio, _ = portfolio_of(tiny.layered(300))

    def alternate(_):
        portfolio.search = BackgroundSearch(FailingSearch(), cores=1, best=lambda: None, enough=lambda: False)
        portfolio.search.resume()
        if interrupt is not None:
            raise interrupt

    monkeypatch.setattr(portfolio, "_bound", lambda *_: None)
    monkeypatch.setattr(portfolio, "_alternate", alternate)
    with pytest.raises(interrupt or MemoryError):
        portfolio.solve()


@pytest.mark.parametrize(("largest", "solved"), [(10**9, True), (1, False)])
def test_what_pruning_leaves_is_solved_as_a_program_unless_it_is_too_large(tiny, monkeypatch, largest, solved):
    portfolio, _ = portfolio_of(tiny.layered(30))
    portfolio.largest_program = largest
    left, tops = SimpleNamespace(prune=lambda *_: portfolio.problem), []
    monkeypatch.setattr(portfolio, "_bound", lambda *_: left)
    monkeypatch.setattr(portfolio, "_finish", lambda _, top: tops.append(top))
    assert portfolio._below(left, top=portfolio.state.top) == solved
    assert tops == [portfolio.state.top] * solved
