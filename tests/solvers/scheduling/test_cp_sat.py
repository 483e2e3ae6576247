"""``cp-sat`` of ``scheduling``: against every schedule of small instances, with and without what its model lacks."""

from __future__ import annotations

import math
import random
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from effort import draws, some_of
from schedules import Claims, draw_devices, draw_document, draw_instance, draw_order, made, optimum, parsed

from shardmark.harness.verify import verify
from shardmark.instances.generate import families
from shardmark.instances.scheduling import Instance
from shardmark.solvers.registry import Declined, LocalRun
from shardmark.solvers.scheduling._kernels import Simulator
from shardmark.solvers.scheduling.cp_sat import cp_sat
from shardmark.solvers.scheduling.exact import rules
from shardmark.solvers.scheduling.exact.model import Clock, Model, clock
from shardmark.solvers.scheduling.exact.rules import demands_of
from shardmark.solvers.scheduling.schedules.heads_tails import heads_and_tails
from shardmark.solvers.scheduling.schedules.memory import fits

pytestmark = pytest.mark.gate(cases=2)


def draw_plain(seed: int, most_nodes: int) -> Instance | None:
    """An instance as the model has it, in which sending tensors pays now and then."""
    draw = random.Random(seed)
    document = draw_document(draw, most_nodes, links="independent")
    document["devices"]["memory"] = None
    document["edges"] = [edge for edge in document["edges"] if draw.random() < 0.6]
    if draw.random() < 0.7:
        document["nodes"]["colocation"] = None
        rows = document["bandwidth"]
        document["bandwidth"] = [[None if width is None else 3 * width for width in row] for row in rows]
    return parsed(document)


def solved(instance: Instance) -> tuple[float, float]:
    """The least makespan found, infinite if none, and the greatest bound; every schedule reported is as claimed."""
    run = Claims(timeout=20)
    cp_sat(instance, run)
    for solution, cost in zip(run.solutions, run.claimed, strict=True):
        verdict = verify(instance, solution)
        assert verdict.feasible, verdict
        assert verdict.cost == pytest.approx(cost, rel=1e-9)
    return min(run.claimed, default=math.inf), max(run.bounds)


def test_the_optimum_is_that_of_trying_everything():
    drawn = [instance for seed in range(some_of(60)) if (instance := draw_plain(seed, 8))]
    assert len(drawn) >= some_of(50)
    for instance in drawn:
        cost, bound = solved(instance)
        best = optimum(instance)
        assert cost == pytest.approx(best, rel=1e-9)
        assert best * (1 - 1e-9) <= bound <= best * (1 + 1e-12)


@pytest.mark.parametrize(("dense", "queued"), [(20_000, 5_000), (0, 5_000), (0, 0)])
def test_bounds_hold_and_schedules_can_be_run_whatever_the_options_and_rules(
    dense: int, queued: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(rules, "DENSE", dense)
    monkeypatch.setattr(rules, "QUEUED", queued)
    monkeypatch.setattr(sys.modules[cp_sat.__module__], "FIRST", 0.001)
    for seed in range(0, some_of(60), 1 if dense else 3):
        instance = draw_instance(random.Random(seed), 5)
        best = optimum(instance)
        try:
            cost, bound = solved(instance)
        except Declined:
            assert best == math.inf
            continue
        assert bound <= best * (1 + 1e-12)
        assert cost >= best * (1 - 1e-12)


def draw_tight(seed: int, links: str, holding: str) -> Instance | None:
    """An instance whose memory is short more often; every vertex takes time."""
    draw = random.Random(seed)
    document = draw_document(draw, 6, links=links, holding=holding)
    if draw.random() < 0.7:
        document["nodes"]["colocation"] = None
    document["nodes"]["complexity"] = [work or 1 for work in document["nodes"]["complexity"]]
    document["edges"] = [edge for edge in document["edges"] if draw.random() < 0.7]
    document["devices"]["memory"] = [
        draw.choice([None, draw.randint(1, 7), draw.randint(2, 10)]) for _ in document["devices"]["speed"]
    ]
    return parsed(document)


@pytest.mark.gate
@pytest.mark.parametrize("holding", ["waiting", "reserved"])
@pytest.mark.parametrize("links", ["independent", "queue"])
def test_the_optimum_is_found_and_proved_with_memory_and_queues_and_that_there_is_none(links: str, holding: str):
    drawn = [instance for seed in range(draws(13, 13, 25)) if (instance := draw_tight(seed, links, holding))]
    feasible, shorter = 0, 0
    for instance in drawn:
        best = optimum(instance)
        if best == math.inf:
            with pytest.raises(Declined, match="no schedule fits"):
                cp_sat(instance, LocalRun(timeout=20))
            continue
        cost, bound = solved(instance)
        assert cost == pytest.approx(best, rel=1e-9)
        assert best * (1 - 1e-8) <= bound <= best * (1 + 1e-12)
        feasible += 1
        free = replace(instance, memory=np.full(instance.devices, np.inf), links="independent", holding="waiting")
        shorter += solved(free)[0] < best * (1 - 1e-6)
    assert feasible >= some_of(12)
    assert feasible < len(drawn) or holding == "reserved"
    assert shorter


@pytest.mark.parametrize("seed", [10, 26, 33, 34, 38, 53, 58])
def test_a_schedule_or_a_proof_that_none_fits_is_found_where_links_are_shared(seed: int):
    """In the model they are not: what it takes for a schedule may not fit when it is run."""
    instance = draw_tight(seed, "share", "waiting")
    assert instance is not None
    best = optimum(instance)
    if best == math.inf:
        with pytest.raises(Declined, match="no schedule fits"):
            cp_sat(instance, LocalRun(timeout=20))
    else:
        cost, bound = solved(instance)
        assert bound <= best * (1 + 1e-12)
        assert best * (1 - 1e-9) <= cost < math.inf


@pytest.mark.gate
def test_it_says_that_it_has_found_neither_a_schedule_that_fits_nor_a_proof_that_there_is_none():
    """Seven tensors have to wait for the eighth: that is not in the model, and to try all orders takes far too long."""
    instance = made(
        [1] * 9,
        [[v, 8, 1] for v in range(8)],
        [1, 1],
        memory=[None, 1.5],
        options={"links": "share"},
        devices=[[0]] * 8 + [[1]],
    )
    with pytest.raises(Declined, match=r"found no schedule that fits .*, and no proof that there is none"):
        cp_sat(instance, LocalRun(timeout=1))


def test_sums_of_sizes_below_a_memory_are_within_the_capacity_and_no_whole_ones_above():
    draw = random.Random(41)
    for _ in range(60):
        instance = draw_instance(draw, 8)
        whole = bool((instance.size % 1 == 0).all())
        for d in np.flatnonzero(np.isfinite(instance.memory)).tolist():
            demand, capacity = demands_of(instance, d)
            for _ in range(5):
                some = draw.sample(range(instance.edges), draw.randint(0, min(4, instance.edges)))
                used = sum(Fraction(float(instance.size[e])) for e in some)
                below = not used or used < Fraction(float(instance.memory[d]))
                assert (
                    sum(demand[e] for e in some) <= capacity
                    if below
                    else not whole or sum(demand[e] for e in some) > capacity
                )


@pytest.mark.parametrize(("sizes", "fit"), [((0.5, 0.49999), True), ((0.5, 0.5), False)])
def test_sizes_whose_sum_is_little_below_the_memory_are_within_the_capacity(sizes: tuple[float, float], fit: bool):
    instance = made([1, 1, 1], [[0, 2, sizes[0]], [1, 2, sizes[1]]], [1], memory=[1])
    demand, capacity = demands_of(instance, 0)
    assert (sum(demand) <= capacity) == fit


def test_a_schedule_that_waits_until_there_is_room_is_no_solution():
    """Vertex 1 could start later, so that its tensor arrives when vertex 4 has read; no order makes it do so."""
    instance = made(
        [1, 1, 4, 4, 4],
        [[0, 2, 2], [1, 3, 2]],
        [1, 1],
        bandwidth=2,
        memory=[None, 2],
        devices=[[0], [0], [1], [1], [0]],
    )
    assert optimum(instance) == 11
    assert solved(instance) == pytest.approx((11, 11))


def test_a_device_that_has_to_wait_for_a_tensor_takes_longer_than_all_that_runs():
    """The inputs of vertex 1 fit only if it starts at once, so vertex 2, which is first by its path, has to wait."""
    instance = made([1, 1, 100], [[0, 1, 10]], [1, 1], memory=[None, 5], devices=[[0], [1], [1]])
    assert solved(instance) == pytest.approx((112, 112))


def test_the_first_schedule_is_improved_to_the_optimum():
    instance = made([5, 5, 4, 4, 3, 3, 3], [], [1, 1, 1])
    run = Claims(timeout=20)
    cp_sat(instance, run)
    assert run.claimed[0] == 11
    assert solved(instance) == pytest.approx((9, 9))


def test_presolving_does_not_lose_the_optimum():
    """One device alone for a pair, the other for the third: OR-tools 9.15 as it is by default calls 4.44 optimal."""
    instance = made(
        [6.803400563552648, 3.122912003190116, 8.336160649707733],
        [[1, 0, 4.881007812181186]],
        [3.230950744325685, 2.2356831183029318],
        bandwidth=[[None, 4.539265489268374], [9.182150556972523, None]],
    )
    assert solved(instance) == pytest.approx((optimum(instance),) * 2, rel=1e-9)


def test_cuts_do_not_lose_all_schedules():
    """On device 0 what is held fills its memory but for 1e-7; with its cuts OR-tools 9.15 says that none fits."""
    instance = made(
        [0.2, 0.1, 0, 0.7, 0.1],
        [[4, 1, 8], [1, 3, 8], [1, 2, 2], [2, 3, 9], [0, 3, 8], [4, 2, 8], [4, 0, 2]],
        [1, 1],
        memory=[25.0000025, 8],
        options={"links": "share", "holding": "reserved"},
    )
    assert solved(instance) == pytest.approx((1.1, 1.1))


def test_presolving_the_neighbourhood_of_a_solution_does_not_crash():
    """No schedule fits the memory; OR-tools 9.15 as it is by default throws an exception on the way."""
    instance = made(
        [
            5.633275725209815e122,
            1.126655145041963e123,
            1.1266551450419626e123,
            1.1266551450419634e123,
            2.253310290083927e123,
        ],
        [
            [4, 3, 0.7758644100442387],
            [4, 2, 0.9977233712809114],
            [1, 3, 0.7079984767126339],
            [1, 2, 0.6849884183098681],
            [0, 3, 0.839876670901437],
            [0, 4, 0.6486109478059803],
            [0, 2, 0.3047339806106757],
            [0, 1, 0.349660864886822],
            [3, 2, 0.13116070957457837],
        ],
        [1, 1, 3],
        bandwidth=[[None, 7, 7], [0.3, None, 0.3], [7, 3, None]],
        memory=[0.13116072269064932, 1.2242236918266698, 0.0],
        options={"links": "share"},
        colocation=[None, 1, None, 1, 0],
    )
    with pytest.raises(Declined, match="schedule"):  # one reason or the other, as time permits
        cp_sat(instance, LocalRun(timeout=1, seed=5421))


def test_vertices_that_take_no_time_are_run_after_what_they_read():
    instance = made([0] * 5, [[4, 2, 1], [2, 3, 1], [3, 0, 1], [0, 1, 1]], [1])
    model = Model(instance, heads_and_tails(instance, 1.0), clock(instance, 1.0))
    device, sequence = model.found([1] * len(model.writer.proto.variables))
    assert device.tolist() == [0] * 5
    assert sequence.tolist() == [4, 2, 3, 0, 1]


def test_large_graphs_are_declined():
    with pytest.raises(Declined, match="terms"):
        cp_sat(families()["recurrent-training"].build(0), LocalRun())


@pytest.mark.parametrize("holding", ["waiting", "reserved"])
def test_memory_suffices_where_the_verifier_says_so(holding: str):
    seen = set()
    for seed in range(some_of(400)):
        draw = random.Random(seed)
        instance = draw_instance(draw, 8, holding=holding)
        device = draw_devices(draw, instance)
        order = draw_order(draw, instance, device)
        verdict = verify(instance, {"device": device, "order": order})
        execution = Simulator(instance).in_order(device, [v for part in order for v in part])
        if verdict.cost is not None:
            assert fits(instance, np.array(device), execution) == verdict.feasible
            seen.add(verdict.feasible)
    assert seen == {True, False}


def test_times_are_whole_if_they_can_be_and_never_rounded_up():
    for seed in range(40):
        instance = draw_instance(random.Random(seed), 6)
        made = clock(instance, 100.0)
        units = made.units(instance.complexity, instance.speed)
        gaps = [
            Fraction(amount) / Fraction(rate) - count * made.unit
            for amount, counts in zip(instance.complexity.tolist(), units.tolist(), strict=True)
            for rate, count in zip(instance.speed.tolist(), counts, strict=True)
        ]
        assert all(gap >= 0 for gap in gaps)
        assert not made.whole or not any(gaps)
        assert max(gaps, default=0) <= made.unit + Fraction(1, 10**11)


@pytest.mark.parametrize("times", [[1e10, 1, 0], [1e10 / 3, 1 / 3, 0], [1e16, 0.4, 0], [0.3, 1e-11, 0]])
def test_what_is_held_for_a_moment_that_counts_as_none_fits(times: list[float]) -> None:
    """Vertex 2 waits for vertex 1, for which what it reads of vertex 0 waits, too."""
    instance = made(times, [[0, 1, 0], [0, 2, 5], [1, 2, 0]], [1], memory=[5])
    assert solved(instance) == pytest.approx((sum(times),) * 2)


@pytest.mark.parametrize("scale", [1e-280, 1e280])
def test_times_of_any_magnitude_are_modelled(scale: float) -> None:
    instance = made([2 * scale, scale, scale / 3], [[0, 1, 1]], [1, 3], bandwidth=1 / scale)
    assert solved(instance) == pytest.approx((optimum(instance),) * 2)


def test_times_far_beyond_the_longest_are_cut() -> None:
    units = Clock(Fraction(1, 2**1000), False, 100).units(np.array([1e300, 0.0]), np.array([1e-5, 1.0, np.inf]))
    assert units.tolist() == [[101, 101, 0], [0, 0, 0]]
