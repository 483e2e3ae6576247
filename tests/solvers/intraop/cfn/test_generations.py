"""Walks do the same for a seed, offer only what fits, and find the optimum of small instances."""

from __future__ import annotations

import math
import time
from itertools import combinations

import numpy as np
import pytest
from effort import some_of

from shardmark.solvers.intraop.cfn import generations as generations_module
from shardmark.solvers.intraop.cfn.generations import GenerationalSearch
from shardmark.solvers.intraop.cfn.neighbourhoods import LargeNeighbourhood
from shardmark.solvers.intraop.network.memory import Timeline
from shardmark.solvers.intraop.network.reduced_problem import Problem
from shardmark.solvers.intraop.network.reduction import prepare

IMPOSSIBLE = 10**18


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch):
    """Rounds in proportion to tiny instances, fewer of them."""
    for name, amount in {"WORK": 5e3, "FIRST": 4, "CLEAN": 2, "AT_ONE": 2}.items():
        monkeypatch.setattr(generations_module, name, amount)


def problem_of(instance):
    """The problem before dominance, so that more is left of it."""
    timeline = Timeline.of(instance)
    return Problem(instance, timeline, prepare(instance, timeline, tolerant=True))


def winding(tiny):
    """A problem with many different solutions, most of which do not fit."""
    rng = np.random.default_rng(0)
    rows = [(v, v + 8, rng.integers(0, 99, 4).tolist(), rng.integers(0, 99, 4).tolist()) for v in range(30)]
    pairs = [((v, v + skip), rng.integers(0, 99, 16).tolist()) for v in range(23) for skip in (1, 3, 7)]
    return problem_of(tiny.make(rows, pairs, limit=270))


class TracedSearch:
    """Walks of some generations from one start, and what they offered; ``pause`` seconds pass between two."""

    def __init__(self, problem, generations, *, seed=0, cores=1, pause=0.0):
        self.problem, self.left, self.pause, self.offered, self.best = problem, generations, pause, [], None
        blocks, random = LargeNeighbourhood(problem), np.random.default_rng(0)
        self.search = GenerationalSearch(blocks, seed=seed, cores=cores, offer=self.offer)
        self.search.begin(random.integers(problem.model.sizes), 5 * random.random(len(blocks.room)))
        self.search.run(time.monotonic() + 60, self.enough)

    def enough(self):
        time.sleep(self.pause)
        self.left -= 1
        return self.left < 0

    def offer(self, value):
        assert (self.problem.overload(value) <= 0).all()
        cost = self.problem.model.cost(value)
        self.offered.append((value.tolist(), cost))
        better = self.best is None or cost < self.best
        self.best = cost if better else self.best
        return better


@pytest.mark.parametrize("cores", [1, 2])
def test_the_same_again_however_fast_the_machine(tiny, cores):
    problem = winding(tiny)
    one, other = (TracedSearch(problem, 3, seed=3, cores=cores, pause=pause) for pause in (0.0, 0.02))
    assert len(one.offered) > 3
    assert one.offered == other.offered
    assert one.offered != TracedSearch(problem, 3, seed=5, cores=cores).offered


@pytest.mark.parametrize("seed", range(20))
def test_what_has_forbidden_entries_is_put_together_as_well(tiny, seed):
    rng = np.random.default_rng(seed)
    rows = [(0, 1, rng.integers(0, 9, 3).tolist(), [0, 0, 0]) for _ in range(8)]
    pairs = []
    for pair in combinations(range(8), 2):
        table = np.where(rng.random(9) < 0.35, IMPOSSIBLE, rng.integers(0, 9, 9))
        pairs += [(pair, table.tolist())] if rng.random() < 0.4 else []
    problem = problem_of(tiny.make(rows, pairs))
    search = GenerationalSearch(LargeNeighbourhood(problem), seed=1, cores=1, offer=lambda value: False)
    values = [rng.integers(0, problem.model.sizes) for _ in range(4)]
    search.begin(values[0], np.zeros(len(search.blocks.room)))
    search.run(0.0, lambda: True)
    search._until = np.inf
    together = search._recombine(values, search._price, fits=False)
    assert ((together >= 0) & (together < problem.model.sizes)).all()
    assert problem.model.cost(together) <= min(map(problem.model.cost, values))


def test_a_walk_goes_on_where_it_was(tiny):
    whole, parts = (TracedSearch(winding(tiny), generations) for generations in (4, 2))
    parts.left = 2
    parts.search.run(time.monotonic() + 60, parts.enough)
    assert parts.offered == whole.offered


def test_the_optimum_of_small_instances_with_a_limit(tiny):
    rng, found = np.random.default_rng(0), 0
    while found < some_of(8):
        instance = tiny.larger(rng)
        excess, cost = tiny.fast_best(instance)
        if excess or cost >= IMPOSSIBLE or instance.usage_limit is None:
            continue
        traced, found = TracedSearch(problem_of(instance), 5), found + 1
        assert traced.best == cost
        assert traced.problem.model.cost(traced.search.best) == cost


def test_where_nothing_fits_nothing_is_offered(tiny):
    traced = TracedSearch(problem_of(tiny.make([(0, 2, [1, 2], [5, 4])] * 3, limit=11)), 2)
    assert traced.offered == []
    assert traced.search.best is None


def test_without_time_nothing_happens(tiny):
    traced = TracedSearch(winding(tiny), 0)
    assert traced.offered == []
    traced.left = 10
    traced.search.run(time.monotonic() - 1, traced.enough)
    assert traced.left == 10


@pytest.mark.parametrize(
    "nodes",
    [
        [],  # neither variables nor steps
        [(0, 2, [3], [5])],  # a variable without a choice
        [(1, 1, [3, 2], [5, 4])],  # no steps
        [(0, 2, [3, 2], [5, 5])],  # steps, but no node whose memory varies
    ],
)
def test_whatever_there_is_none_of(tiny, nodes):
    traced = TracedSearch(problem_of(tiny.make(nodes)), 2)
    assert traced.best == tiny.best(tiny.make(nodes))[1]


def test_a_halt_ends_the_generation_at_once_and_keeps_what_it_has_found(tiny, monkeypatch):
    problem, improved = winding(tiny), []
    search = GenerationalSearch(LargeNeighbourhood(problem), seed=0, cores=1, offer=lambda _: False)
    search.begin(np.random.default_rng(0).integers(problem.model.sizes), np.zeros(len(search.blocks.room)))
    improve = LargeNeighbourhood.improve

    def improve_and_halt(blocks, *arguments, **options):
        result = improve(blocks, *arguments, **options)
        improved.append(result[0].tolist())
        search.halt()
        return result

    monkeypatch.setattr(LargeNeighbourhood, "improve", improve_and_halt)
    asked = iter([False, True])
    search.run(math.inf, lambda: next(asked))
    assert improved == [search._value.tolist()]


def test_prices_rise_where_the_limit_is_passed_and_fall_elsewhere(tiny):
    problem = problem_of(tiny.make([(0, 1, [1, 2], [9, 0]), (2, 4, [1, 2], [3, 0]), (6, 7, [1, 2], [9, 0])], limit=8))
    search = GenerationalSearch(LargeNeighbourhood(problem), seed=0, cores=1, offer=lambda _: False)
    load = np.array([9, 3, 7])
    price = search._adjust_prices(np.array([1.0, 1.0, 0.0]), load)
    assert price[0] > 1.0 > price[1]
    assert price[2] == 0.0
    assert search._adjust_prices(np.array([0.0, 1.0, 0.0]), load)[0] > 0.0
