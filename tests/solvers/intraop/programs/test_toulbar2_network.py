"""Minima of networks under penalties, against all assignments."""

from __future__ import annotations

import time

import numpy as np
import pytest

from shardmark.solvers.intraop.network.memory import Timeline
from shardmark.solvers.intraop.network.model import IMPOSSIBLE, build
from shardmark.solvers.intraop.network.reduction import prepare
from shardmark.solvers.intraop.programs.child_processes import Workers
from shardmark.solvers.intraop.programs.toulbar2_network import Minimum, Network, Status

pytestmark = pytest.mark.gate(cases=4)


def minimise(network, penalty, seconds=30.0, **options):
    """`Network.minimise` in a child."""

    def job():
        found = network.minimise(penalty, seconds, time.monotonic() + seconds, **options)
        return np.array([found.status, found.bound, *([] if found.value is None else found.value)])

    with Workers() as workers:
        workers.launch(None, job, seconds + 1)
        status, bound, *value = workers.collect(time.monotonic() + 60)[0][1].tolist()
    return Minimum(Status(status), np.array(value, dtype=np.int64) if value else None, bound)


@pytest.mark.thorough(cases=14)
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("discrepancies", [0, 4])
def test_minima_are_minima(tiny, seed, discrepancies):
    rng = np.random.default_rng(seed)
    instance = tiny.draw(rng, nodes=6, arity=4)
    model = build(instance, np.zeros(len(instance.usage), dtype=bool))  # not reduced: forbidden entries are left
    network = Network(model)
    penalty = rng.integers(0, 20, len(model.unary)) * network.scale
    costs = {
        value: network.cost(np.array(value), penalty)
        for value in np.ndindex(*model.sizes)
        if model.cost(np.array(value)) < model.forbidden
    }
    found = minimise(network, penalty, discrepancies=discrepancies, **({"accuracy": 0.01} if seed % 2 else {}))
    if not costs:
        assert found.status == Status.IMPOSSIBLE
        return
    least = min(costs.values())
    assert found.status == Status.OPTIMAL
    assert costs[tuple(found.value.tolist())] == least
    assert found.bound <= least


def test_small_costs_are_told_apart_from_smaller_penalties(tiny):
    instance = tiny.make([(0, 1, [1, 1, 0], [0, 0, 0]), (0, 1, [0, 0], [0, 0])], [((0, 1), [0, 1, 1, 0, 9, 9])])
    model = build(instance, np.zeros(5, dtype=bool))
    network = Network(model)
    penalty = np.array([2, 1, 0, 0, 0])  # far below one unit of cost
    assert minimise(network, penalty).value.tolist() == [1, 1]


def test_no_penalty_of_what_is_allowed_makes_a_forbidden_entry_the_cheapest(tiny):
    instance = tiny.make([(0, 1, [0, 0], [0, 0])] * 2, [((0, 1), [IMPOSSIBLE, 0, 0, 0])])
    model = build(instance, np.zeros(4, dtype=bool))
    network = Network(model)
    found = minimise(network, np.array([0, 1, 0, 1]) * 2 * model.forbidden * network.scale)
    assert found.status == Status.OPTIMAL
    assert sum(found.value) == 1


def grid(tiny, size, seed=0):
    """Random costs on the pairs of a square grid: easy to start on, hard to finish."""
    rng = np.random.default_rng(seed)
    place = np.arange(size * size).reshape(size, size)
    pairs = [*zip(place[:, :-1].ravel(), place[:, 1:].ravel(), strict=True)]
    pairs += [*zip(place[:-1].ravel(), place[1:].ravel(), strict=True)]
    nodes = [(0, 1, [0] * 8, [0] * 8)] * size**2
    return tiny.make(nodes, [((int(a), int(b)), rng.integers(0, 1000, 64).tolist()) for a, b in pairs])


@pytest.mark.gate
def test_a_minimisation_cut_off_gives_the_best_so_far(tiny):
    instance = grid(tiny, 30)
    network = Network(prepare(instance, Timeline.of(instance)))
    found = minimise(network, np.zeros(len(network.model.unary), dtype=np.int64), 1.5)
    assert found.status == Status.BEST_SO_FAR
    assert 0 < found.bound <= network.cost(found.value, np.zeros_like(network.model.unary))


def test_a_minimisation_cut_off_at_once_gives_nothing(tiny):
    instance = grid(tiny, 30)
    network = Network(prepare(instance, Timeline.of(instance)))
    found = minimise(network, np.zeros(len(network.model.unary), dtype=np.int64), 0.01)
    assert (found.status, found.value) == (Status.NOTHING_YET, None)


def test_ties_that_contradict_each_other_are_impossible(tiny):
    same = [0, IMPOSSIBLE, IMPOSSIBLE, 0]
    other = [IMPOSSIBLE, 0, 0, IMPOSSIBLE]
    instance = tiny.make([(0, 1, [0, 0], [0, 0])] * 3, [((0, 1), same), ((1, 2), same), ((0, 2), other)])
    network = Network(build(instance, np.zeros(6, dtype=bool)))
    assert minimise(network, np.zeros(6, dtype=np.int64)).status == Status.IMPOSSIBLE
