"""Every solver and bound of the track on instances of at most 12 nodes, against all their assignments."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from effort import draws
from fuzz import attempt, methods

from shardmark.solvers.intraop.cfn import portfolio

pytestmark = pytest.mark.gate(cases=4)

IMPOSSIBLE = 10**18
METHODS = methods("intraop")
#: Methods that end with a proof, and on how many instances they are tried; they say why they decline.
COMPLETE = {"cfn-native": 180, "ilp-cpsat": 80, "ilp-scip": 80, "toulbar2-exact": 30}
#: Others, and how many instances: the slower, the fewer.
OTHERS = {"simple": 50, "greedy": 30, "cfn-relaxed": 20, "lagrange": 20, "lp": 15, "toulbar2": 20}
FEW = 4
#: Seconds of a run that does not end by itself, or not soon.
SECONDS = 0.3
INSTANCES_AT_ONCE = 30


def blocks():
    """``(name, first, count)``: every method, and which of its own instances."""
    for name in METHODS:
        instances = COMPLETE.get(name) or OTHERS.get(name) or FEW
        all_of_it = max(FEW, draws(instances // 3, instances // 5, instances))
        for first in range(0, all_of_it, INSTANCES_AT_ONCE):
            yield name, first, min(all_of_it - first, INSTANCES_AT_ONCE)


def check(tiny, name, instance, best):
    """Compare all claims with a brute force, and demand the best cost of methods that prove it."""
    seconds = 30.0 if name in COMPLETE or name in OTHERS else SECONDS
    trial, reason = attempt(partial(METHODS[name].function, **METHODS[name].params), instance, timeout=seconds)
    values = [tiny.value(instance, solution) for solution in trial.solutions]
    assert all(later < earlier for earlier, later in pairwise(values))
    assert all(value >= best for value in values)
    assert trial.bounds == sorted(trial.bounds)
    assert all(isinstance(bound, int) for bound in trial.bounds)
    assert best[0] or all(bound <= best[1] for bound in trial.bounds)
    if name in COMPLETE:
        check_end(trial, reason, values, best)
    return not best[0] and best[1] < IMPOSSIBLE


def check_end(trial, reason, values, best):
    """The optimum with a proof, or the reason why there is none."""
    if best[0]:
        assert reason.startswith("time step ")
        assert values[-1][0] == best[0]
    elif best[1] >= IMPOSSIBLE:
        assert reason.startswith(("edges.costs[", "every assignment that fits"))
        assert values[-1][0] == 0
    else:
        assert reason is None
        assert values[-1] == best
        assert trial.bounds[-1] == best[1]


@pytest.mark.thorough(cases=8)
@pytest.mark.parametrize(("name", "first", "count"), list(blocks()))
def test_claims_agree_with_a_brute_force(tiny, name, first, count, monkeypatch):
    if first % (2 * INSTANCES_AT_ONCE):  # what is small comes to the integer program at once
        monkeypatch.setattr(portfolio, "SMALL", 0)
    usual = 0
    for seed in range(first, first + count):
        rng = np.random.default_rng([seed, *name.encode()])
        instance = tiny.larger(rng) if seed % 4 == 0 else tiny.draw(rng)
        usual += check(tiny, name, instance, tiny.fast_best(instance))
    assert usual > count // 3


def test_there_are_500_instances():
    assert sum(count for _, _, count in blocks()) >= draws(160, 100, 500)
    assert set(COMPLETE) | set(OTHERS) <= set(METHODS)


def test_the_two_brute_forces_agree(tiny):
    for seed in range(5):
        instance = tiny.draw(np.random.default_rng(seed), nodes=4)
        assert tiny.fast_best(instance) == tiny.best(instance)
