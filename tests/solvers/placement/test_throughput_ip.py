"""The integer programs: against every placement of small graphs in each mode, and what they decline."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from effort import some_of
from oracle_placement import optimum
from placements import DRAWS, built, cost_of, placements, small

from shardmark.harness.verify.placement import verify
from shardmark.instances.placement import Instance
from shardmark.solvers.placement import throughput_ip
from shardmark.solvers.placement.dp import dpl
from shardmark.solvers.placement.ip import cpsat
from shardmark.solvers.placement.ip.floating_point import FloatProgram
from shardmark.solvers.placement.ip.incumbent import Incumbent, cost
from shardmark.solvers.placement.ip.program import LoadProgram, TooLarge
from shardmark.solvers.placement.ip.shapes import programs
from shardmark.solvers.placement.throughput.simple_bounds import load_bound, node_bound
from shardmark.solvers.placement.throughput_ip import ip_contiguous, ip_noncontiguous
from shardmark.solvers.registry import Declined, LocalRun

pytestmark = pytest.mark.gate(cases=2)


def solved(instance: Instance, engine: str = "cpsat") -> LocalRun:
    run = LocalRun(timeout=20)
    method = ip_noncontiguous if instance.contiguity == "free" else ip_contiguous
    method(instance, run, engine=engine)
    return run


@pytest.mark.parametrize("contiguity", ["contiguous", "acyclic", "free"])
@pytest.mark.parametrize(("engine", "count"), [("cpsat", some_of(15)), ("scip", some_of(10))])
def test_equals_the_best_of_all_placements(
    monkeypatch: pytest.MonkeyPatch, contiguity: str, engine: str, count: int
) -> None:
    draw, found, count = random.Random(f"{contiguity} {engine}"), 0, DRAWS or count
    for number in range(count):
        instance = small(draw, contiguity)
        best = optimum(instance)
        with monkeypatch.context() as patch:
            if number % 2:  # the engine finds it from nothing
                patch.setattr(throughput_ip, "begin", lambda task, contiguity: None)
            if best is None:
                with pytest.raises(Declined, match="no placement fits the memory"):
                    solved(instance, engine)
                continue
            run = solved(instance, engine)
        assert cost_of(instance, run.solutions[-1]) == pytest.approx(float(best), rel=1e-9)
        assert best * (1 - 1e-5) - 1e-5 <= max(run.bounds, default=0.0) <= best
        found += 1
    assert found > count / 2


def worth(program: LoadProgram, place: list[int]) -> float:
    """Return the cost of a placement in a program; infinite if the program excludes it."""
    value = program.values(np.array(place))
    if value is None:
        return math.inf
    assert program.device(value).shape == (program.items.instance.nodes,)
    sums = [(sum(f * value[c] for c, f in zip(cols, fs, strict=True)), low, top) for cols, fs, low, top in program.rows]
    room = program.items.instance.capacity
    held = [sum(s * value[c] for c, s in zip(cols, sizes, strict=True)) <= room for cols, sizes in program.rooms]
    if not all(low <= total <= top for total, low, top in sums) or not all(held):
        return math.inf
    loads = dict.fromkeys(program.loads, 0.0)
    for columns, times, load in program.busy:
        loads[load] = max(loads[load], sum(t * value[c] for c, t in zip(columns, times, strict=True)))
    return sum(loads.values())


@pytest.mark.gate
@pytest.mark.thorough(cases=2)
@pytest.mark.parametrize("contiguity", ["contiguous", "acyclic", "free"])
def test_programs_have_exactly_the_feasible_placements_at_their_costs(contiguity: str) -> None:
    draw, had, missing = random.Random(contiguity), 0, 0
    for _ in range(DRAWS or some_of(20)):
        instance = small(draw, contiguity, most=200, filling=0.0)
        upper = Incumbent(instance, LocalRun()).upper()
        ways = [build(upper, 10**6, (), math.inf) for build in programs(instance, contiguity)]
        for place in placements(instance):
            verdict = verify(instance, place)
            found = min(worth(program, place) for program in ways)
            assert found == pytest.approx(verdict.cost if verdict.feasible else math.inf, rel=1e-9, abs=1e-12)
            had, missing = had + verdict.feasible, missing + (not verdict.feasible)
    assert min(had, missing) > some_of(50)


@pytest.mark.parametrize("contiguity", ["contiguous", "acyclic", "free"])
def test_programs_that_memory_or_time_do_not_allow_are_not_built(contiguity: str) -> None:
    for build in programs(fork(), contiguity):
        with pytest.raises(TooLarge, match="more than 9 entries, which the memory does not hold"):
            build(9.0, 9, (), math.inf)
        with pytest.raises(TooLarge, match="more than 1 entries, which take longer than there is time"):
            build(9.0, 10**6, (), -math.inf)
    task = Incumbent(fork(), LocalRun())
    task.until = 0.0
    assert task.build(build) is None


@pytest.mark.parametrize("contiguity", ["contiguous", "acyclic", "free"])
def test_no_bound_is_above_the_placement_known(contiguity: str) -> None:
    """Not even by what its cost is off by, as it is summed up."""
    for build in programs(fork(), contiguity):
        program = build(7.0, 10**6, (), math.inf)
        for bound in (cpsat._proved(program, math.inf), FloatProgram(program).bound(math.inf)):
            assert 7 * (1 - 1e-11) < bound < 7


def test_the_cost_of_a_placement_is_that_of_the_verifier() -> None:
    draw, fitting = random.Random(3), 0
    for _ in range(25):
        instance = small(draw, "free")
        for place in list(placements(instance))[:20]:
            verdict = verify(instance, place)
            expected = verdict.cost if verdict.feasible else math.inf
            assert cost(instance, np.array(place)) == pytest.approx(expected, rel=1e-9)
            fitting += verdict.feasible
    assert fitting > 100


def fork(**options: Any) -> Instance:
    """Two rows of nodes, a -> b and c -> d, whose best halves, {a, d} and {b, c}, wait for each other."""
    return built([3, 3, 4, 4], [(0, 2), (1, 3)], (2, 0), **options)


def test_three_devices_in_a_circle_follow_no_order() -> None:
    """Three trios, too dear to be torn apart, of which each reads the one before: apart they would take 2."""
    trios = [(3 * u, 3 * u + part, 100) for u in range(3) for part in (1, 2)]
    circle = [(3 * u + 1, 3 * v + 2, 0) for u, v in [(0, 1), (1, 2), (2, 0)]]
    instance = built([0, 1, 1] * 3, [*trios, *circle], (3, 0), contiguity="acyclic", cluster=2, slowdown=2.0)
    run = solved(instance, "scip")
    assert cost_of(instance, run.solutions[-1]) == 6
    assert 6 * (1 - 1e-5) <= max(run.bounds) <= 6


def test_contiguous_sets_alone_are_no_bound_on_any_sets() -> None:
    run = LocalRun()
    ip_contiguous(fork(contiguity="free"), run)
    assert cost_of(replace(fork(), cpus=1), run.solutions[-1]) > 0
    assert run.bounds == [max(load_bound(fork()), node_bound(fork()))]


@pytest.mark.parametrize(("contiguity", "which"), [("free", "contiguous "), ("contiguous", ""), ("acyclic", "")])
def test_that_no_contiguous_sets_fit_says_nothing_of_others(contiguity: str, which: str) -> None:
    """In a chain of sizes 2, 2, 1, 1, each large node fits into a memory of 3 only with a small one."""
    edges = [(0, 1), (1, 2), (2, 3)]
    instance = built([1] * 4, edges, (2, 0, 3), size=[2, 2, 1, 1], contiguity=contiguity)
    with pytest.raises(Declined, match=f"^no {which}placement fits the memory of the accelerators$"):
        ip_contiguous(instance, LocalRun())
    assert (optimum(instance) is None) == (contiguity != "free")


def test_time_that_ends_early_leaves_the_first_placement_and_a_bound() -> None:
    run = LocalRun(timeout=0.0)
    ip_contiguous(replace(fork(), cpus=1), run)
    assert cost_of(replace(fork(), cpus=1), run.solutions[-1]) > 0
    assert run.bounds


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"objective": "latency"}, "for throughput"),
        ({"allreduce": 2.0}, r"for allreduce none, found 2\.0"),
    ],
)
def test_what_the_programs_do_not_cover_is_declined(options: dict[str, Any], reason: str) -> None:
    for method in (ip_contiguous, ip_noncontiguous):
        with pytest.raises(Declined, match=reason):
            method(fork(**options), LocalRun())


@pytest.mark.parametrize("engine", ["cpsat", "scip"])
def test_one_engine_alone_is_not_believed_that_there_is_no_placement(
    monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    """Neither if it is wrong about the known placement, nor if the other one finds it."""
    instance = replace(fork(), cpus=1)

    def wrong(*_: object) -> bool:
        return False

    monkeypatch.setattr(throughput_ip, engine, wrong)
    monkeypatch.setitem(throughput_ip.ENGINES, engine, wrong)
    best = optimum(instance)
    assert best is not None
    for known in (True, False):
        if not known:
            monkeypatch.setattr(throughput_ip, "begin", lambda task, contiguity: None)
        run = solved(instance, engine)
        assert cost_of(instance, run.solutions[-1]) == pytest.approx(float(best), rel=1e-9)
        assert max(run.bounds) <= best


def test_other_modes_and_engines_are_declined() -> None:
    with pytest.raises(Declined, match="expected contiguity free, not contiguous"):
        ip_noncontiguous(fork(), LocalRun())
    with pytest.raises(Declined, match="expected engine cpsat or scip, found highs"):
        ip_contiguous(fork(), LocalRun(), engine="highs")


def row(time: float, accelerators: int, cpus: int, contiguity: str) -> Instance:
    """Three nodes in a row that take as long anywhere, each too large to share an accelerator; the last needs a CPU."""
    columns: dict[str, Any] = {"cpu": time, "size": 2, "supported": [True, True, False]}
    return built([time] * 3, [(0, 1), (1, 2)], (accelerators, cpus, 3), **columns, contiguity=contiguity)


@pytest.mark.parametrize("contiguity", ["contiguous", "acyclic", "free"])
@pytest.mark.parametrize("engine", ["cpsat", "scip"])
def test_two_thousand_million_devices_of_each_kind_are_as_good_as_three(contiguity: str, engine: str) -> None:
    instance = row(2.0, 2**31 - 1, 2**31 - 1, contiguity)
    few = replace(instance, accelerators=0)  # every node on a CPU of its own
    for given in (instance, few):
        assert cost_of(given, solved(given, engine).solutions[-1]) == 2


@pytest.mark.parametrize("contiguity", ["contiguous", "acyclic", "free"])
def test_the_least_times_there_are_have_placements_and_bounds(contiguity: str) -> None:
    least = math.ulp(0.0)
    run = solved(row(least, 1, 1, contiguity))
    assert cost_of(row(least, 1, 1, contiguity), run.solutions[-1]) == 2 * least
    assert 0 <= max(run.bounds) <= 2 * least  # rounding towards safety may leave nothing of the least number


def test_the_last_cpu_has_a_number_beyond_32_bits() -> None:
    """Two nodes that only CPUs take, equally long, with as many accelerators as there can be."""
    instance = replace(row(2.0, 2**31 - 1, 2, "acyclic"), supported=np.zeros(3, dtype=bool))
    run = LocalRun()
    dpl(instance, run)
    assert cost_of(instance, run.solutions[-1]) == 4
    assert run.solutions[-1].max() == 2**31


def test_what_has_a_cost_fits_the_memory_to_the_last_bit() -> None:
    draw, fitting = random.Random(3), 0
    for _ in range(200):
        sizes = [draw.random() for _ in range(draw.randint(3, 6))]
        memory = math.fsum(sizes) / (1 + 1e-9) * (1 + draw.randint(-3, 3) * 2.0**-52)
        instance = built([2] * len(sizes), (), (1, 1, memory), size=sizes, contiguity="free")
        instance = replace(instance, colour=np.zeros(len(sizes), dtype=np.int64))
        feasible = verify(instance, [0] * len(sizes)).feasible
        assert math.isfinite(cost(instance, np.zeros(len(sizes), dtype=np.int64))) == feasible
        fitting += feasible
    assert 40 < fitting < 160


def test_a_way_to_order_devices_that_nothing_fits_does_not_lower_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three layers on two accelerators that hold two each; the backward pass runs alike, not against it."""
    columns: dict[str, Any] = {"backward": [v > 2 for v in range(6)], "colour": [0, 1, 2] * 2}
    alike = built([1] * 6, [(0, 1), (1, 2), (3, 4), (4, 5)], (2, 0, 4), **columns, contiguity="acyclic")
    run = solved(alike)
    assert run.bounds[-1] == pytest.approx(4, rel=1e-9)
    monkeypatch.setattr(throughput_ip, "begin", lambda task, contiguity: None)
    run = solved(alike)
    assert run.bounds[0] == pytest.approx(3)
    assert run.bounds[-1] == pytest.approx(4, rel=1e-9)
