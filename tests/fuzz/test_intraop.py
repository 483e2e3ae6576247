"""Every claim of ``intraop`` against exact integers; see ``tests/support/fuzz.py``."""

from __future__ import annotations

import math
import random
import time

import pytest
from fuzz import Attack, blocks
from oracle_intraop import draw, draw_solution, false_reason, judge, optimum

from shardmark.instances.intraop import Instance
from shardmark.solvers.intraop.cfn import leaf_prices, portfolio, tree
from shardmark.solvers.intraop.cfn.lagrangian import Dual
from shardmark.solvers.intraop.cfn.tree import Tree
from shardmark.solvers.intraop.network.memory import Timeline
from shardmark.solvers.intraop.network.reduced_problem import Problem
from shardmark.solvers.intraop.network.reduction import prepare

ATTACK = Attack(
    "intraop",
    draw,
    draw_solution,
    judge,
    optimum,
    every={"random": 1000, "local-search": 250, "greedy": 20}
    | {"cfn-penalty": 250, "cfn-penalty-global": 250, "cfn-penalty-nopost": 250}
    | {"cfn-native": 2, "toulbar2": 2, "lp": 2, "cfn-relaxed": 2},
    seconds=1.0,
    false_reason=false_reason,
)


@blocks
def test_every_claim_holds(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    size = seeds.start // len(seeds) % 3  # small instances go to CP-SAT at once; others to bounds first, then HiGHS
    if size > 0:
        monkeypatch.setattr(portfolio, "SMALL", 0)
    if size > 1:
        monkeypatch.setattr(portfolio, "LARGEST_SEARCH", 0)
    ATTACK.on(seeds)


@blocks
def test_no_leaf_proves_too_much(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """Branch and bound on values, which settled messages make needless for most small instances."""
    splits, split = [], Tree._split

    def counted(self: Tree, *leaf: object) -> None:
        splits.append(self)
        split(self, *leaf)  # type: ignore[arg-type]

    monkeypatch.setattr(Tree, "_split", counted)
    for seed in seeds:
        rng = random.Random(f"leaves {seed}")
        for name, values in {
            "STALLED": [0.02, 2.0, 2.0],
            "SWEEPS": [1, 2, 20],
            "TRIAL": [0, 1, 3],
            "PARTS": [2, 3, 32],
            "MEMORY": [0, 2000, 2**28, 2**28],
            "MOVES": [0, 1, 6],
            "TRIAL_MOVES": [0, 1, 3],
            "MOVE_SWEEPS": [0, 1, 4],
        }.items():
            monkeypatch.setattr(tree, name, rng.choice(values))
        monkeypatch.setattr(leaf_prices, "DIFFERENCE", rng.choice([-1.0, 0.0, 0.05]))
        monkeypatch.setattr(leaf_prices, "LEVELS", rng.choice([2, 8]))
        instance = draw(rng)
        problem, best = unsolved(instance, rng), optimum(instance)
        if problem is None or best is None:
            continue
        model = problem.model
        least = best >> model.shift
        tops = [least + 1, least + 2, least + 1 + least // 3, model.forbidden]
        dual = Dual(problem, rng.choice(tops), prices(problem, rng))
        if rng.random() < 0.3:
            dual.climb(math.inf)
        grown = Tree(dual)

        def bounded(grown: Tree = grown, shift: int = model.shift, best: int = best, seed: int = seed) -> bool:
            assert grown.bound << shift <= best, seed
            return False

        grown.grow(time.monotonic() + 60, lambda grown=grown: grown.top, bounded)  # type: ignore[misc]
        bounded()
    assert len(splits) >= len(seeds) // 5


def unsolved(instance: Instance, rng: random.Random) -> Problem | None:
    """Return an instance reduced or mostly before dominance leaves little of it; None if nothing is left."""
    timeline, tolerant = Timeline.of(instance), rng.random() < 0.3
    if rng.random() < 0.3:
        problem = Problem.of(instance, timeline, tolerant=tolerant)
    else:
        model = prepare(instance, timeline, tolerant=tolerant)
        problem = None if model is None else Problem(instance, timeline, model)
    return None if problem is None or not problem.model.variables else problem


def prices(problem: Problem, rng: random.Random) -> dict[int, float]:
    """Return any prices per byte for some steps, or none; rounded memory has none."""
    steps = problem.timeline.steps if problem.timeline.exact else 0
    return {rng.randrange(steps): 10 ** rng.uniform(-5, 20) for _ in range(rng.choice([0, 0, 2]) if steps else 0)}
