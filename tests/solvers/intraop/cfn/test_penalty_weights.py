"""Weights of memory: where they begin, and that their brackets close in on what suffices."""

from __future__ import annotations

import math

import numpy as np
import pytest

from shardmark.solvers.intraop.cfn.penalty_weights import GlobalWeight, NodeWeights, Outcome

LEVELS = 7


def make(kind, nodes, free=(), seed=0):
    return kind(np.isin(np.arange(nodes), free), LEVELS, np.random.default_rng(seed))


def outcome(over, cost=1):
    return Outcome(cost, np.array(over, dtype=bool))


@pytest.mark.parametrize("kind", [NodeWeights, GlobalWeight])
def test_first_weights_are_powers_of_ten_a_little_changed_by_the_seed(kind):
    weights = make(kind, 50, free=(3, 4), seed=1)
    powers = 10.0 ** np.arange(-3, 4)[:, None]
    weighed = np.delete(weights.level, (3, 4), axis=1)
    assert (np.abs(weighed / powers - 1) <= 0.125).all()
    assert np.ptp(weighed / powers) > 0.2
    assert not weights.level[:, 3:5].any()
    assert (weights.level == make(kind, 50, free=(3, 4), seed=1).level).all()
    assert (weights.level[:, 0] != make(kind, 50, seed=2).level[:, 0]).all()


@pytest.mark.parametrize("kind", [NodeWeights, GlobalWeight])
def test_the_logarithmic_scale_goes_on_until_something_fits(kind):
    weights = make(kind, 2)
    first = weights.level
    weights.update([outcome([True, False])] * LEVELS)
    assert weights.level == pytest.approx(first * 10**LEVELS)
    weights.update([outcome([True, False])] * 6 + [outcome([False, False])])
    assert weights.level.max() == pytest.approx(first[-1].max() * 10**LEVELS)


@pytest.mark.parametrize("kind", [NodeWeights, GlobalWeight])
def test_a_level_that_failed_says_nothing_and_a_round_of_them_changes_nothing(kind):
    weights = make(kind, 3)
    first = weights.level
    weights.update([None] * LEVELS)
    assert (weights.level == first).all()
    weights.update([None, *[outcome([True] * 3)] * 4, outcome([False] * 3), None])
    assert weights.level[-1] == pytest.approx(first[5] if kind is NodeWeights else np.full(3, first[5].max()))


def test_each_node_finds_the_weight_that_suffices_for_it():
    enough = 10.0 ** np.linspace(-2, 2, 9)
    weights = make(NodeWeights, 9)
    for _ in range(60):
        weights.update([outcome(level < enough, cost=round(1e6 * level.sum())) for level in weights.level])
        assert (weights.level > 0).all()
    assert (np.abs(np.log(weights.level / enough)) < 1).all()
    assert len(np.unique(weights.level[0])) == 9


def test_one_weight_finds_what_suffices_for_all():
    enough = 10.0 ** np.linspace(-2, 2, 9)
    weights = make(GlobalWeight, 10, free=(9,))
    for _ in range(20):
        weights.update([outcome(level[:9] < enough) for level in weights.level])
        assert (np.ptp(weights.level[:, :9], axis=1) == 0).all()
        assert not weights.level[:, 9].any()
    assert weights.level[:, 0] == pytest.approx(np.full(LEVELS, 100.0), rel=1e-3)


def test_one_weight_goes_down_far_where_all_fit_and_up_where_none_does():
    weights = make(GlobalWeight, 1)
    least, cheapest = weights.level[0, 0] / 1000, weights.level[0, 0]
    weights.update([outcome([False])] * LEVELS)
    assert weights.level[0, 0] == pytest.approx(least + (cheapest - least) / LEVELS)
    most = weights.level[-1, 0]
    weights.update([outcome([True])] * LEVELS)
    assert weights.level[:, 0] == pytest.approx(most * (1 + np.arange(1, LEVELS + 1) / LEVELS))


class Scalar:
    """The rule for one node, in words of one node at a time."""

    def __init__(self, high):
        self.low, self.high, self.rounds = 0.0, high, 0
        self.ever_over, self.side, self.streak = False, "", 0

    def update(self, levels, over, costs):
        best, last = None, ""
        sides = []
        for weight, too_much, cost in zip(levels, over, costs, strict=True):
            if too_much:
                self.ever_over = True
                if "fits" not in sides:
                    self.low = weight
            elif best is None or last == "over" or cost < best:
                self.high, best = weight, cost
            last = "over" if too_much else "fits"
            sides.append(last)
        if "fits" not in sides or last == "over":
            self.high *= self.factor("above", 1.35, 1.35, 1.0, 100.0)
        if "over" not in sides:
            self.low /= self.factor("below", 1.5, 1.5 if self.ever_over else 1000.0, 1.25, 1000.0)
        self.rounds += 1

    def factor(self, side, base, first, pace, most):
        self.streak = self.streak + 1 if side == self.side else 1
        self.side = side
        if self.streak == 1:
            return first
        return min(base ** (1 + (pace * self.streak - 1) * math.exp(-0.175 * self.rounds)), most)


@pytest.mark.parametrize("seed", range(5))
def test_brackets_follow_the_rule_node_by_node(seed):
    rng = np.random.default_rng(seed)
    weights = make(NodeWeights, 12, seed=seed)
    nodes = [Scalar(high) for high in weights.level[-1]]
    leaning = rng.uniform(0, 1, 12) ** 3  # some nodes are hardly ever over, so that sides last
    for number in range(15):
        over = rng.random((LEVELS, 12)) < leaning
        over[-1] &= number > 0  # something fits, the first time
        costs = rng.integers(0, 5, LEVELS).tolist()
        levels = weights.level
        weights.update([outcome(row, cost) for row, cost in zip(over, costs, strict=True)])
        for node, scalar in enumerate(nodes):
            scalar.update(levels[:, node], over[:, node], costs)
            between = scalar.low + np.arange(1, LEVELS + 1) / LEVELS * (scalar.high - scalar.low)
            assert weights.level[:, node] == pytest.approx(between)
