"""Every claim of ``scheduling`` against exact integers; see ``tests/support/fuzz.py``."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
from fuzz import Attack, blocks
from oracle_scheduling import draw, draw_solution, judge, optimum

from harness.verify import verify
from instances.scheduling import Instance
from solvers.scheduling._kernels import Simulator
from solvers.scheduling.schedules.memory import fits

PARTITIONERS = ("hash", "batch-split", "critical-path", "mite", "dfs", "heft")


def says_falsely_that_none_fits(instance: Instance, optimum: Fraction | None, reason: str) -> bool:
    """Return True if a solver declines because no schedule fits, though one does."""
    return reason.startswith("no schedule fits") and optimum is not None


ATTACK = Attack(
    "scheduling",
    draw,
    draw_solution,
    judge,
    optimum,
    seconds=1.0,
    every={"search": 500, "memory-first": 500}
    | {f"{name}-{scheduler}": 5 for name in PARTITIONERS for scheduler in ("fifo", "pct", "msr")},
    false_reason=says_falsely_that_none_fits,
)


@blocks
def test_every_claim_holds(seeds: range) -> None:
    ATTACK.on(seeds)


@blocks
def test_the_simulation_in_c_finds_what_the_verifier_finds(seeds: range) -> None:
    """The makespan and whether the memory suffices; also for the successor rule, which no solution can name."""
    for seed in seeds:
        rng = random.Random(f"simulation {seed}")
        instance = draw(rng, 6)
        solution, simulator = draw_solution(rng, instance), Simulator(instance)
        device, verdict = solution["device"], verify(instance, solution)
        if verdict.cost is None:
            continue
        if "order" in solution:
            execution = simulator.in_order(device, [v for part in solution["order"] for v in part])
        else:
            execution = simulator.by_priority(device, solution["priority"])
        assert execution.makespan == pytest.approx(verdict.cost, rel=1e-9, abs=0), seed
        if not any(reason.startswith("device[") for reason in verdict.violations):
            assert fits(instance, np.array(device, dtype=np.int64), execution) == verdict.feasible, seed
        execution = simulator.by_successors(device, (1, 1, 1, 5))
        order = [[v for v in execution.sequence.tolist() if device[v] == d] for d in range(instance.devices)]
        assert execution.makespan == pytest.approx(verify(instance, {"device": device, "order": order}).cost), seed
