"""Plans without one dimension are the best of their kind, and prove nothing about others."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from effort import some_of
from oracle_hybrid import Oracle, Stage, draw

from shardmark.harness.verify import verify
from shardmark.solvers.hybrid import dp
from shardmark.solvers.registry import Declined, LocalRun


def stores(oracle: Oracle, stage: Stage) -> bool:
    """Tell if every node has its first configuration of the degree."""
    return all(x is next(y for y in oracle.menu[v] if y.degree == x.degree) for v, x in stage.chosen)


KINDS: dict[str, Callable[[Oracle, Stage], bool]] = {
    "no_data_parallelism": lambda oracle, stage: stage.d == 1,
    "no_tensor_parallelism": lambda oracle, stage: stage.t == 1,
    "no_recomputation": stores,
}


@pytest.mark.parametrize("name", KINDS)
def test_the_best_plan_of_its_kind_is_found(name):
    for seed in range(some_of(40)):
        instance, run = draw(random.Random(seed), most_nodes=3), LocalRun()
        oracle = Oracle(instance)
        plans = [plan for plan in oracle.plans() if all(KINDS[name](oracle, stage) for stage in plan)]
        least = min((oracle.cost(plan) for plan in plans), default=None)
        try:
            getattr(dp, name)(instance, run)
        except Declined:
            assert least is None
            continue
        assert run.bounds == []
        verdict = verify(instance, run.solutions[-1])
        assert verdict.feasible
        assert least is not None
        assert verdict.cost == pytest.approx(float(least), rel=1e-9)
