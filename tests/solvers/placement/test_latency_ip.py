"""The integer programs for latency: against every placement of small graphs, and what they decline."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from effort import some_of
from oracle_placement import draw_solution
from placements import DRAWS, built, cost_of, crossing, draw_instance, filled

from shardmark.harness.verify.placement import verify
from shardmark.instances.errors import InputError
from shardmark.instances.placement import Instance
from shardmark.solvers.placement.bounds.critical_path import critical_path
from shardmark.solvers.placement.bounds.memory_path import memory_path
from shardmark.solvers.placement.ideals.dynamic_program import fits
from shardmark.solvers.placement.ip.engine_cpsat import search, whole_sizes
from shardmark.solvers.placement.latency.ip_incumbent import LatencyIncumbent, schedule
from shardmark.solvers.placement.latency.ip_program import LatencyProgram
from shardmark.solvers.placement.latency_dp import chains
from shardmark.solvers.placement.latency_ip import ip
from shardmark.solvers.placement.throughput_ip import ip_noncontiguous
from shardmark.solvers.registry import Declined, LocalRun

pytestmark = pytest.mark.gate(cases=2)


def devices(instance: Instance) -> Iterator[list[int]]:
    """Every device a node, but for accelerators changing places: the one that has the first unit is 0, and so on."""
    k, units = instance.accelerators, int(instance.unit.max()) + 1
    choices = [*range(min(k, units)), *([k] if instance.cpus else [])]
    for choice in product(choices, repeat=units):
        used = list(dict.fromkeys(d for d in choice if d < k))
        if used == list(range(len(used))):
            yield [choice[u] for u in instance.unit.tolist()]


def slots(instance: Instance, device: list[int], q: int) -> Iterator[list[int]]:
    """Every subgraph a node: one of ``q``; if that is 0 one of either pass in either order, or one of both."""
    on = sorted({d for d in device if d < instance.accelerators})
    if q:
        placed = [d < instance.accelerators for d in device]
        for choice in product(range(q), repeat=sum(placed)):
            chosen = iter(choice)
            yield [next(chosen) if there else 0 for there in placed]
        return
    passes = [(0, 0), (0, 1), (1, 0)] if instance.training else [(0, 0)]
    for way in product(passes, repeat=len(on)):
        turn = dict(zip(on, way, strict=True))
        yield [turn.get(d, (0, 0))[back] for d, back in zip(device, instance.backward.tolist(), strict=True)]


def optimum(instance: Instance, q: int) -> float:
    """The least latency of any placement; infinite if none is feasible."""
    best = math.inf
    for device in devices(instance):
        for slot in slots(instance, device, q):
            verdict = verify(instance, {"device": device, "slot": slot})
            if verdict.feasible and verdict.cost is not None:
                best = min(best, verdict.cost)
    return best


def small(
    draw: random.Random, contiguity: str, most_nodes: int, most: int, *, fills: bool = False
) -> tuple[Instance, int]:
    """An instance with about so many placements at most, and the number of subgraphs an accelerator.

    If it ``fills`` a memory, the last bits of sizes decide whether they fit.
    """
    while True:
        instance = draw_instance(draw, most_nodes, objective="latency", contiguity=contiguity)
        if fills:
            try:
                instance = filled(draw, instance)
            except InputError:  # too large for the accelerators, and there are no CPUs
                continue
        q = 0 if contiguity == "contiguous" else draw.choice([1, 2, 2, instance.nodes])
        ways = (1 + q * min(instance.accelerators, 2)) ** instance.nodes
        units = int(instance.unit.max()) + 1
        if (ways if q else (instance.accelerators + 1) ** units * 3 ** (2 * instance.training)) <= most:
            return instance, q


def solved(instance: Instance, q: int) -> LocalRun:
    run = LocalRun(timeout=20)
    if q:
        ip_noncontiguous(instance, run, q=q)
    else:
        ip(instance, run)
    return run


def compare(draw: random.Random, contiguity: str) -> bool:
    """Compare the program and all bounds with every placement of an instance; whether there is a placement."""
    instance, q = small(draw, contiguity, 6, 800)
    best = optimum(instance, q)
    if math.isinf(best):
        with pytest.raises(Declined, match="no placement fits the memory"):
            solved(instance, q)
        return False
    run = solved(instance, q)
    assert cost_of(instance, run.solutions[-1]) == pytest.approx(best, rel=1e-9)
    assert max(run.bounds, default=0.0) <= best
    if not q or q == instance.nodes:
        assert max(run.bounds, default=0.0) >= best * (1 - 1e-6)
        assert greatest_bound(instance) <= best
    return True


def greatest_bound(instance: Instance) -> float:
    """The greatest of the bounds that need no program."""
    run = LocalRun()
    for method in (critical_path, memory_path, chains):
        method(instance, run)
    return max(run.bounds)


@pytest.mark.parametrize("contiguity", ["contiguous", "free"])
@pytest.mark.parametrize("alone", [False, True])
def test_equals_the_best_of_all_placements(monkeypatch: pytest.MonkeyPatch, contiguity: str, alone: bool) -> None:
    """Also where the program has nothing to begin with."""
    if alone:
        for method in ("begin", "follow_chains"):
            monkeypatch.setattr(LatencyIncumbent, method, lambda *_, **__: None)
    draw = random.Random(f"{contiguity} {alone}")
    assert sum(compare(draw, contiguity) for _ in range(some_of(16))) > some_of(8)


@pytest.mark.parametrize("contiguity", ["contiguous", "free"])
def test_bounds_hold_where_the_last_bits_of_sizes_count(contiguity: str) -> None:
    draw, found = random.Random(contiguity), 0
    for _ in range(max(some_of(20), DRAWS)):
        instance, q = small(draw, contiguity, 4, 300, fills=True)
        best = optimum(instance, q and instance.nodes)
        assert greatest_bound(instance) <= best
        with suppress(Declined):  # for no placement fits so many subgraphs, or none that is found
            run = solved(instance, q)
            assert all(cost_of(instance, solution) >= 0 for solution in run.solutions)
            assert max(run.bounds, default=0.0) <= best
            found += bool(run.solutions)
    assert found > some_of(5)


@pytest.mark.parametrize("contiguity", ["contiguous", "free"])
def test_bounds_hold_for_two_nodes_that_fill_the_memory_but_for_a_bit(contiguity: str) -> None:
    columns = {"cpu": [6, 0], "size": [109951162777.6, 425866588267.50696]}
    modes = {"objective": "latency", "contiguity": contiguity}
    instance = built([0.4, 1.7], [(0, 1, 3)], (3, 1, 535817750509.2891), **columns, **modes)
    path = LocalRun()
    memory_path(instance, path)
    run = solved(instance, 2 * (contiguity == "free"))
    assert cost_of(instance, run.solutions[-1]) == cost_of(instance, [0, 0]) == pytest.approx(2.1)
    assert max(*path.bounds, *run.bounds) <= 2.1


@pytest.mark.gate
def test_sizes_in_whole_numbers_fit_where_they_do_in_truth() -> None:
    """Two classes of nodes of 0.1, the sums of which come out too great, fill the memory."""
    count = 50_000
    memory = math.fsum([0.1] * (2 * count)) / (1 + 1e-9)
    instance = built([1] * (2 * count), (), (1, 1, memory), size=0.1, colour=[0, 1] * count)
    sizes, room = whole_sizes(instance.of_units(instance.size).tolist(), instance)
    assert fits(instance, np.zeros(2 * count, dtype=np.int64))
    assert room * (1 - 1e-9) < sum(sizes) <= room
    whole = replace(instance, size=np.ones(2 * count), memory=float(count))
    assert whole_sizes([count, count], whole) == ([count, count], count)


def test_a_model_that_is_none_is_no_model_without_solutions() -> None:
    from ortools.sat.python import cp_model_helper as cp_sat

    model = cp_sat.CpModelProto()
    model.objective.vars.append(7)
    model.objective.coeffs.append(1)
    with pytest.raises(RuntimeError, match="CP-SAT refuses the model"):
        search(model, LocalRun(), 1.0, lambda _: None, lambda _: None)


def test_no_bound_is_above_the_placement_known() -> None:
    instance = crossing(1.0, contiguity="free")
    program = LatencyProgram(instance, 2.0, 0.0, 2)
    assert program.proved(math.inf) == pytest.approx(2.0, rel=1e-11)
    assert program.proved(math.inf) < 2.0


def test_a_program_has_a_placement_if_its_slots_on_accelerators_do_not_exceed_those_of_the_program() -> None:
    """On a CPU, a slot means nothing."""
    instance = built([1, 1], [(0, 1)], (1, 1), objective="latency", contiguity="free")
    program = LatencyProgram(instance, 20.0, 0.0, 1)
    on_cpu, on_accelerator = (program.places(np.array([device, 0]), np.array([1, 0])) for device in (1, 0))
    assert on_accelerator == {}
    assert on_cpu == program.places(np.array([1, 0]), np.array([0, 0]))
    assert sorted(column for column, there in on_cpu.items() if there) == sorted([program.pool[0], program.on[0][1]])


def test_the_schedule_is_that_of_the_verifier() -> None:
    draw, ended, endless = random.Random(3), 0, 0
    for _ in range(150):
        instance = draw_instance(draw, objective="latency", contiguity="free")
        solution = draw_solution(draw, instance)
        if isinstance(solution, list):
            solution = {"device": solution, "slot": instance.backward.astype(int).tolist()}
        verdict = verify(instance, solution)
        found = schedule(instance, np.array(solution["device"]), np.array(solution["slot"]))
        if math.isinf(found.end):
            assert not verdict.feasible
            endless += 1
            continue
        ended += 1
        assert verdict.cost == pytest.approx(found.end, rel=1e-12)
        again = cost_of(instance, {"device": found.device, "slot": found.slot})
        assert again == pytest.approx(found.end, rel=1e-12)
    assert min(ended, endless) > 20


@pytest.mark.parametrize("time", [0.0, 1.0])
def test_tasks_do_not_wait_for_each_other_in_a_circle_even_if_they_take_no_time(time: float) -> None:
    with pytest.raises(Declined, match="no placement fits the memory"):
        solved(crossing(time), 0)
    free = crossing(time, contiguity="free")
    assert cost_of(free, solved(free, 2).solutions[-1]) == 2 * time


def test_subgraphs_that_take_no_time_do_not_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row whose nodes alternate between two accelerators: three subgraphs on each. With two, all are on the CPU."""
    for method in ("begin", "follow_chains"):
        monkeypatch.setattr(LatencyIncumbent, method, lambda *_, **__: None)
    columns = {"colour": [0, 1] * 3, "objective": "latency", "contiguity": "free"}
    instance = built([0] * 6, pairwise(range(6)), (2, 1, 3), **columns)
    assert cost_of(instance, solved(instance, 3).solutions[-1]) == 0
    assert cost_of(instance, solved(instance, 2).solutions[-1]) == 54


def test_one_subgraph_is_no_bound_on_any_number() -> None:
    """Three nodes in a row, the middle one only for the CPU, which is slow: 3 with two subgraphs, else 11."""
    given: dict[str, Any] = {"cpu": [9, 1, 9], "supported": [True, False, True], "objective": "latency"}
    instance = built([1, 1, 1], [(0, 1), (1, 2)], (1, 1), **given, contiguity="free")
    for q, best in ((1, 11), (2, 3)):
        run = solved(instance, q)
        assert cost_of(instance, run.solutions[-1]) == best
        assert max(run.bounds) <= 3


def test_time_that_ends_early_leaves_a_placement_and_a_bound() -> None:
    run = LocalRun(timeout=0.0)
    ip(replace(crossing(1.0), cpus=1), run)
    assert len(run.solutions) >= 1
    assert run.bounds


def test_thousands_of_millions_of_accelerators_are_as_good_as_four() -> None:
    instance = replace(crossing(2.0), accelerators=2**31 - 1)
    assert cost_of(instance, solved(instance, 0).solutions[-1]) == 4


def test_the_least_times_there_are_have_placements_and_bounds() -> None:
    least = math.ulp(0.0)
    instance = replace(crossing(least), accelerators=3)
    run = solved(instance, 0)
    assert cost_of(instance, run.solutions[-1]) == 2 * least
    assert 0 <= max(run.bounds, default=0.0) <= 2 * least


def test_what_does_not_fit_the_memory_of_the_run_is_not_solved(capsys: pytest.CaptureFixture[str]) -> None:
    run = LocalRun(memory=1e-3)
    ip(replace(crossing(1.0), cpus=1), run)
    assert "entries do not fit into 0 MiB" in capsys.readouterr().err
    assert run.solutions


def test_what_the_programs_are_not_for_is_declined() -> None:
    with pytest.raises(Declined, match="ip is for latency"):
        ip(replace(crossing(1.0), objective="throughput"), LocalRun())
    with pytest.raises(Declined, match="for latency of contiguous ones there is ip"):
        ip_noncontiguous(crossing(1.0), LocalRun())
    with pytest.raises(Declined, match="engine cpsat, found scip"):
        ip_noncontiguous(crossing(1.0, contiguity="free"), LocalRun(), engine="scip")
    with pytest.raises(Declined, match="q of at least 1, found 0"):
        ip_noncontiguous(crossing(1.0, contiguity="free"), LocalRun(), q=0)
