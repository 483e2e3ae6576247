"""Every claim of ``scheduling`` against exact integers; see ``tests/support/fuzz.py``."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from fuzz import Attack, blocks, numbers
from oracle_scheduling import draw, draw_solution, judge, optimum
from schedules import conflicting, draw_devices, draw_instance, made, overfull_at_some_size, peaks, without_order

from shardmark.harness.verify import verify
from shardmark.instances import InputError
from shardmark.instances.scheduling import Instance
from shardmark.solvers.scheduling._kernels import Simulator
from shardmark.solvers.scheduling.memory_first import orders_to_try
from shardmark.solvers.scheduling.schedules.memory import fits
from shardmark.solvers.scheduling.schedules.memory_cuts import none_fits

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
def test_no_schedule_fits_where_cuts_prove_that_none_does(seeds: range) -> None:
    """Few of the instances above have so little memory, and fewer on several devices."""
    proofs = 0
    for seed in seeds:
        instance = tight(random.Random(f"cuts {seed}"))
        if none_fits(instance, 60.0):
            assert optimum(instance) is None, seed
            proofs += 1
    assert proofs or seeds != range(50)


#: Proofs of one kind each: units in conflict, sets of some size, orders of the vertices.
PROOFS = pytest.mark.parametrize(
    ("kind", "proved"),
    [("conflicts", conflicting), ("sizes", overfull_at_some_size), ("orders", without_order)],
    ids=("conflicts", "sizes", "orders"),
)


@PROOFS
@blocks
def test_no_schedule_fits_where_one_kind_of_proof_says_so(
    seeds: range, kind: str, proved: Callable[[Instance], bool]
) -> None:
    proofs = 0
    for seed in seeds:
        instance = tight(random.Random(f"{kind} {seed}"))
        if proved(instance):
            assert optimum(instance) is None, seed
            proofs += 1
    assert proofs or seeds != range(50)


@PROOFS
@blocks
def test_no_kind_of_proof_refutes_memory_that_some_schedule_needs(
    seeds: range, kind: str, proved: Callable[[Instance], bool]
) -> None:
    for seed in seeds:
        instance = lean(random.Random(f"lean {kind} {seed}"))
        assert instance is None or not proved(instance), seed


@blocks
def test_cuts_refute_no_memory_that_some_schedule_needs(seeds: range) -> None:
    """Give each device a few billionths more memory than a lean schedule needs: any proof that none fits errs."""
    for seed in seeds[::4]:
        instance = lean(random.Random(f"lean {seed}"))
        assert instance is None or not none_fits(instance, 0.2), seed


def tight(rng: random.Random) -> Instance:
    """Return an instance whose devices hold little more than what some vertex reads, or its largest tensor."""
    while True:
        drawn = draw(rng, 7) if rng.random() < 0.2 else draw_instance(rng, 6) if rng.random() < 0.3 else waist(rng)
        size = drawn.size * rng.choice([1.0, 1.0, 1e-9, 1.0 + 2.0**-30])
        if rng.random() < 0.5:
            size = np.where(size > 0, size.max(initial=0.0), 0.0)
        read = np.bincount(drawn.graph.head, size, drawn.nodes).max(initial=0.0)
        most = rng.choice([read, read, size.max(initial=0.0)]) * rng.choice([0.5, 1 + 1.5e-9, 1 + 3e-9, 1.2, 1.5])
        with np.errstate(over="ignore"):
            width = np.where(drawn.bandwidth > 0, drawn.bandwidth * rng.choice([1.0, 1e9]), 0.0)
        with suppress(InputError):  # less memory than a vertex reads
            return replace(drawn, size=size, bandwidth=width, memory=np.full(drawn.devices, most))


def waist(rng: random.Random) -> Instance:
    """Return two layers of vertices with tensors between, and one vertex behind the first and before the second."""
    first, last, size = rng.randint(1, 3), rng.randint(1, 3), numbers(rng)
    edges = [[u, first, rng.choice([0, size()])] for u in range(first)]
    edges += [[first, first + 1 + v, rng.choice([0, size()])] for v in range(last)]
    edges += [[u, first + 1 + v, size()] for u in range(first) for v in range(last) if rng.random() < 0.9]
    options = {"links": rng.choice(["independent", "queue", "share"]), "holding": rng.choice(["waiting", "reserved"])}
    few = rng.choice([[1], [1, 2], [1, 1, 2, 1e-3, 1e-7, 1e-9, 0]])
    times = [rng.choice(few) for _ in range(first + 1 + last)]
    try:
        return made(times, edges, [rng.choice([1, 1, 2]) for _ in range(rng.choice([1, 2, 2]))], options=options)
    except InputError:  # a size that passes no link in a finite time
        return waist(rng)


def lean(rng: random.Random) -> Instance | None:
    """Return an instance that gives each device what it needs in the leanest of some schedules; None if all fit so."""
    drawn = draw_instance(rng, 30)
    free = replace(drawn, memory=np.full(drawn.devices, np.inf))
    if rng.random() < 0.5:
        free = replace(free, bandwidth=np.where(free.bandwidth > 0, free.bandwidth * 1e6, 0.0))
    simulator, found = Simulator(free), list[Instance]()
    for priority in [*orders_to_try(free), *([rng.random() for _ in range(free.nodes)] for _ in range(6))]:
        device = np.array(draw_devices(rng, free))
        execution = simulator.by_priority(device, np.array(priority))
        if np.isfinite(execution.makespan):
            needed = peaks(free, device, execution) * (1 + rng.choice([2e-9, 4e-9])) + 1e-12
            with suppress(InputError):  # less memory than a vertex reads
                exact = replace(free, memory=needed)
                found += [exact] if fits(exact, device, execution) else []
    return min(found, key=lambda instance: float(instance.memory.sum()), default=None)


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
