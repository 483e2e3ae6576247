"""Lower bounds of ``scheduling``: against every schedule of small instances, and where the optimum is known."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from effort import some_of
from oracle_scheduling import judge
from schedules import draw_devices, draw_document, draw_instance, made, optimum, parsed

from shardmark.instances import InputError
from shardmark.instances.generate import families
from shardmark.instances.scheduling import Instance
from shardmark.solvers.registry import LocalRun
from shardmark.solvers.scheduling._kernels import Simulator
from shardmark.solvers.scheduling.bounds import energetic as energetic_module
from shardmark.solvers.scheduling.bounds.critical_path import critical_path
from shardmark.solvers.scheduling.bounds.energetic import after_work, busiest_interval, energetic, sequence_bound
from shardmark.solvers.scheduling.bounds.load import heaviest_units, load, restricted_sets
from shardmark.solvers.scheduling.heuristics.ranks import longest_before
from shardmark.solvers.scheduling.schedules import heads_tails, segments
from shardmark.solvers.scheduling.schedules.heads_tails import early_first, heads_and_tails, paired_heads_and_tails
from shardmark.solvers.scheduling.schedules.merged_devices import merged

BOUNDS = (critical_path, energetic, load)


def bound_by(method: Any, instance: Instance) -> float:
    run = LocalRun()
    method(instance, run)
    assert all(math.isfinite(value) for value in run.bounds)
    return max(run.bounds)


def only_schedule(draw: random.Random) -> Instance:
    """A long graph whose vertices have one device each, and one order there; times differ by up to 32 digits."""
    n, k = draw.randint(40, 150), draw.randint(1, 4)
    device, last, edges = [draw.randrange(k) for _ in range(n)], dict[int, int](), set[tuple[int, int]]()
    for v, d in enumerate(device):
        edges |= {(last.get(d, v), v), *((u, v) for u in draw.sample(range(v), min(v, 2)))}
        last[d] = v
    wide = draw.choice([0, 1, 16])

    def number() -> float:
        return draw.choice([draw.random(), 0.1, 1 / 3]) * 10 ** draw.uniform(-wide, wide)

    return made(
        [number() for _ in range(n)],
        [[u, v, number()] for u, v in sorted(edges) if u != v],
        [draw.choice([1, 3, 0.7]) for _ in range(k)],
        bandwidth=draw.choice([0.3, 7, 1e6]),
        devices=[[d] for d in device],
    )


@pytest.mark.gate(cases=1)
@pytest.mark.parametrize("method", BOUNDS)
def test_bounds_are_not_above_the_exact_makespan_of_the_only_schedule(method: Any) -> None:
    draw, near = random.Random(19), 0
    for _ in range(some_of(12)):
        instance = only_schedule(draw)
        device = [int(instance.choices[number][0]) for number in instance.choice.tolist()]
        order = [[v for v, at in enumerate(device) if at == d] for d in range(instance.devices)]
        feasible, makespan = judge(instance, {"device": device, "order": order})
        assert feasible
        assert makespan is not None
        found = Fraction(bound_by(method, instance))
        assert found <= makespan
        near += found > makespan * (1 - Fraction(1, 10**10))
    assert near


def devices_alike(complexity: list[float], edges: list[list[float]], count: int, **columns: Any) -> Instance:
    return made(complexity, edges, [1] * count, **columns)


def sparse(seed: int) -> Instance | None:
    """Instances without groups, whose tensors are worth sending more often."""
    draw = random.Random(seed)
    document = draw_document(draw, 6)
    document["nodes"]["colocation"] = None
    document["edges"] = [edge for edge in document["edges"] if draw.random() < 0.6]
    rows = [[None if width is None else 3 * (width or 1) for width in row] for row in document["bandwidth"]]
    return parsed({**document, "bandwidth": rows})


def test_no_bound_is_above_the_optimum():
    seeds = range(some_of(80))
    drawn = [*(draw_instance(random.Random(seed), 6) for seed in seeds), *map(sparse, seeds)]
    better = dict.fromkeys(BOUNDS, 0)
    for instance in filter(None, drawn):
        best = optimum(instance)
        for method in BOUNDS:
            found = bound_by(method, instance)
            assert found <= best * (1 + 1e-12), (method.__name__, instance)
            better[method] += found > instance.simple_bound() * (1 + 1e-9)
    assert min(better.values()) >= some_of(5)


@pytest.mark.parametrize("most", [1, 2])
def test_devices_that_stand_for_several_leave_the_bound_valid(most: int):
    closer = 0
    for seed in range(some_of(100)):
        instance = sparse(seed)
        if instance is not None:
            few = heads_and_tails(merged(instance, most), 10.0)
            assert few.longest() <= optimum(instance) * (1 + 1e-12)
            closer += few.longest() > instance.simple_bound() * (1 + 1e-9)
    assert closer


def ladder(draw: random.Random) -> Instance | None:
    """Rows of up to three vertices that read from the row before, so that ways part and meet again."""
    n, k, row, edges = draw.randint(5, 7), draw.randint(2, 3), [0], []
    while row[-1] < n - 1:
        new = list(range(row[-1] + 1, min(n, row[-1] + 1 + draw.randint(1, 3))))
        edges += [[u, v, draw.randint(1, 5)] for v in new for u in draw.sample(row, draw.randint(1, len(row)))]
        row = new
    columns = {
        "colocation": [draw.choice([None] * 6 + [0, 1]) for _ in range(n)],
        "devices": [
            sorted(draw.sample(range(k), draw.randint(1, k))) if draw.random() < 0.1 else None for _ in range(n)
        ],
    }
    try:
        instance = devices_alike([draw.randint(1, 9) for _ in range(n)], edges, k, **columns)
    except InputError:
        return None
    bandwidth = np.array([[draw.randint(1, 3) for _ in range(k)] for _ in range(k)], dtype=np.float64)
    np.fill_diagonal(bandwidth, np.inf)
    return replace(instance, bandwidth=bandwidth, speed=np.array([draw.choice([1.0, 1.0, 2.0, 3.0]) for _ in range(k)]))


@pytest.mark.gate(cases=1)
@pytest.mark.parametrize(("reach", "few", "branches"), [(20, 3, 0), (20, 3, 64), (20, 2, 2), (4, 3, 2)])
def test_what_passes_between_vertices_makes_bounds_better_and_leaves_them_valid(
    reach: int, few: int, branches: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(heads_tails, "PACE_SEARCHED", heads_tails.PACE_BEHIND)
    for name, value in (("NEAR", reach), ("REACH", reach), ("FEW", few), ("ENOUGH", few)):
        monkeypatch.setattr(heads_tails, name, value)
    better = 0
    for instance in filter(None, (ladder(random.Random(seed)) for seed in range(some_of(50)))):
        known = heads_and_tails(instance, 1.0)
        work = instance.edges * reach**2 * few**3
        near = paired_heads_and_tails(instance, known, 1.1 * work / heads_tails.PACE_BEHIND, branches)
        assert near.instance.devices <= few
        assert near.longest() <= optimum(instance) * (1 + 1e-12)
        assert few < 3 or ((near.start >= known.start).all() and (near.behind >= known.behind).all())
        better += near.longest() > known.longest() * (1 + 1e-9)
    assert better >= some_of(3)


def test_two_ways_that_part_and_meet_begin_on_one_device():
    """Without that, the first one would be on ends devices, for each of the two that read from it on theirs."""
    instance = devices_alike([8, 9, 4, 6, 4], [[0, 1, 4], [0, 2, 2], [1, 3, 4], [2, 3, 5], [3, 4, 2]], 2)
    assert heads_and_tails(instance, 1.0).longest() == pytest.approx(8 + 4 + 5 + 6 + 4)
    assert bound_by(critical_path, instance) == pytest.approx(8 + 2 + 4 + 5 + 6 + 4) == optimum(instance)


def test_chains_that_part_and_meet_are_not_both_on_the_device_where_they_part():
    """Each chain alone could stay there until a tensor of size 0 or 2 moves it; both would run in turn."""
    chains = [[0, 1, 5], [1, 2, 4], [2, 3, 0], [3, 7, 4], [0, 4, 2], [4, 5, 5], [5, 6, 5], [6, 7, 2]]
    instance = devices_alike([1] * 8, chains, 3)
    known = heads_and_tails(instance, 1.0)
    plain, searched = (paired_heads_and_tails(instance, known, 1.0, branches).longest() for branches in (0, 64))
    assert plain < searched <= optimum(instance)


def test_memory_for_many_devices_leaves_lags_their_reach():
    """With much time all memory went to devices, and paths were followed over too few vertices to meet again."""
    instance = families()["recurrent-training"].build(0, devices=50)
    known = heads_and_tails(instance, 0.5)
    reaches: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heads_tails, "raise_ends", lambda few, reach, *rest: reaches.append(reach) or known)
        for seconds in (5.0, 20.0, 60.0, 600.0):
            paired_heads_and_tails(instance, known, seconds)
    assert min(reaches) >= heads_tails.NEAR


@pytest.mark.gate(cases=1)
@pytest.mark.parametrize("few", [3, 2])
def test_a_time_is_refuted_if_and_only_if_each_schedule_takes_longer(few: int):
    """With merged devices, or too few nodes for a proof, less is refuted, but nothing that is possible."""
    refuted = 0
    for draw in map(random.Random, range(some_of(60))):
        if (instance := ladder(draw)) is None:
            continue
        devices, least = merged(instance, few), optimum(instance)
        graph, nothing = devices.graph, np.zeros((devices.nodes, devices.devices))
        orders = early_first(devices, graph), early_first(devices, graph.reversed)
        for share, nodes in ((0.999, 10**6), (1 + 1e-8, 10**6), (0.999, 2)):
            ancestors = draw.choice([0, 4, 24])
            found, left = Simulator(devices).refute(*orders, ancestors, nothing, nothing, share * least, nodes)
            assert 0 <= left <= nodes
            assert not found or share < 1
            assert found or share > 1 or nodes == 2 or devices.devices < instance.devices
            refuted += found
    assert refuted > some_of(10)


@pytest.mark.gate(cases=1)
@pytest.mark.parametrize(("cores", "most"), [(1, 70), (1, 4), (2, 4)])
def test_segments_raise_heads_and_leave_them_valid(cores: int, most: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(segments, "MOST", most)
    better = 0
    for instance in filter(None, (ladder(random.Random(seed)) for seed in range(some_of(60)))):
        known = heads_and_tails(instance, 0.0)
        run = LocalRun(cores=cores)
        bound = max(segments.raised_by_segments(instance, known, run, 1.0), default=0.0)
        assert bound <= optimum(instance) * (1 + 1e-12)
        better += bound > known.longest() * (1 + 1e-9)
    assert better or most < 70  # few of these graphs have several segments


def test_segments_end_where_little_runs_in_parallel():
    """With two diamonds in a row, the first segment ends at the vertex between them, and the second at the last one."""
    diamond = [[0, 1, 1], [0, 2, 1], [1, 3, 1], [2, 3, 1], [3, 4, 1], [3, 5, 1], [4, 6, 1], [5, 6, 1]]
    instance = devices_alike([2] * 7, diamond, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "MOST", 4)
        found = segments.segments(heads_and_tails(instance, 1.0))
    assert [(part.first, part.last, part.vertices.tolist()) for part in found] == [
        (-1, 3, [0, 1, 2, 3]),
        (3, 6, [3, 4, 5, 6]),
    ]


def test_a_refutation_takes_no_more_nodes_than_the_time_left_suffices_for(monkeypatch: pytest.MonkeyPatch):
    """A clock goes on by a second whenever it is read, and each refutation fails once it has taken all its nodes."""
    ends = heads_and_tails(devices_alike([2] * 4, [[0, 1, 1], [0, 2, 1], [1, 3, 1], [2, 3, 1]], 2), 1.0)
    asked = list[int]()

    def refute(*given: Any) -> tuple[bool, int]:
        asked.append(given[-1])
        return False, 0

    monkeypatch.setattr(Simulator, "refute", refute)
    monkeypatch.setattr(segments, "PACE", 300)
    for measured, nodes in ((1, [3000, 6000, 6000, 6000]), (10**9, [3000, 2400, 1800, 1200])):
        asked.clear()
        monkeypatch.setattr(segments, "MEASURED", measured)
        monkeypatch.setattr(segments, "time", SimpleNamespace(monotonic=itertools.count().__next__))
        segments._sweep(ends, segments.segments(ends), 12)
        assert asked[: len(nodes)] == nodes


def test_two_inputs_run_in_turn_where_a_transfer_takes_longer():
    fork = devices_alike([2, 2, 1], [[0, 2, 9], [1, 2, 9]], 3)
    assert bound_by(critical_path, fork) == pytest.approx(5) == optimum(fork)
    near = devices_alike([2, 2, 1], [[0, 2, 1], [1, 2, 1]], 3)
    assert bound_by(critical_path, near) == pytest.approx(4) == optimum(near)


def test_a_transfer_that_restrictions_force_is_counted():
    instance = devices_alike([1, 1, 1], [[0, 1, 4], [1, 2, 2]], 2, devices=[[0], [1], [0]])
    assert bound_by(critical_path, instance) == pytest.approx(1 + 4 + 1 + 2 + 1)


def test_what_runs_between_first_and_last_shares_all_devices():
    edges = [[u, v, 0] for between in range(1, 5) for u, v in ((0, between), (between, 5))]
    instance = devices_alike([3, 1, 1, 1, 1, 4], edges, 2)
    assert bound_by(energetic, instance) == pytest.approx(3 + 4 / 2 + 4) == optimum(instance)
    assert heads_and_tails(instance, 1.0).longest() == pytest.approx(3 + 1 + 4)


def test_work_between_vertices_that_all_wait_for_is_done_before_them():
    instance = devices_alike([2, *[1] * 6, 2, *[1] * 6, 2], neck(6), 2)
    assert bound_by(energetic, instance) == pytest.approx(2 + 6 / 2 + 2 + 6 / 2 + 2)
    assert bound_by(load, instance) == pytest.approx(9)


def test_work_before_a_vertex_never_delays_it_more_than_schedules_do():
    draw, delayed = random.Random(17), 0
    for _ in range(150):
        instance = draw_instance(draw, 12, links="independent")
        time = instance.complexity / instance.fastest()
        head = after_work(instance, instance.graph, np.zeros(instance.nodes), time)
        path = longest_before(instance.graph, time) - time
        delayed += bool((head > path * (1 + 1e-9)).any())
        for _ in range(4):
            device, simulator = draw_devices(draw, instance), Simulator(instance)
            execution = simulator.by_priority(device, [draw.random() for _ in device])
            assert (head <= execution.start * (1 + 1e-12)).all()
    assert delayed >= 10


def by_all_intervals(ends: list[tuple[int, int, int]], speed: list[int]) -> float:
    """For each head and tail, the work between them on as many of the fastest devices as it has vertices."""
    best, fastest = 0.0, sorted(speed, reverse=True)
    for begin, end in itertools.product({head for head, _, _ in ends}, {tail for _, tail, _ in ends}):
        work = [amount for head, tail, amount in ends if head >= begin and tail >= end]
        if work:
            best = max(best, begin + end + sum(work) / sum(fastest[: len(work)]))
    return best


def test_the_interval_that_is_squeezed_most_is_found(monkeypatch: pytest.MonkeyPatch):
    draw, later = random.Random(18), 0
    for _ in range(100):
        ends = [(draw.randint(0, 9), draw.randint(0, 9), draw.randint(1, 9)) for _ in range(draw.randint(1, 12))]
        speed = [draw.randint(1, 4) for _ in range(draw.randint(1, 3))]
        columns = (*(np.array(column, dtype=np.float64) for column in zip(*ends, strict=True)), np.array(speed))
        best = by_all_intervals(ends, speed)
        assert busiest_interval(*columns)[0] == pytest.approx(best)
        with monkeypatch.context() as patch:
            patch.setattr(energetic_module, "EDGES", 3)
            later += busiest_interval(*columns)[0] < best * (1 - 1e-9)
            assert busiest_interval(*columns)[0] <= best * (1 + 1e-12)
    assert later


def neck(width: int) -> list[list[float]]:
    """Edges by which all vertices of a row wait for the one before it, and the one behind for them, twice."""
    last = 2 * width + 2
    rows = [(0, range(1, width + 1), width + 1), (width + 1, range(width + 2, last), last)]
    return [edge for first, row, then in rows for v in row for edge in ([first, v, 0], [v, then, 0])]


def test_a_group_runs_in_turn_on_one_device():
    instance = devices_alike([2, 3, 3, 1], [[0, 1, 0], [0, 2, 0], [2, 3, 0]], 3, colocation=[None, 0, 0, None])
    assert sequence_bound(heads_and_tails(instance, 1.0), np.array([1, 2])) == pytest.approx(2 + 3 + 3)
    assert heaviest_units(instance)[0] == pytest.approx(6)


def test_load_finds_the_devices_that_have_to_do_most():
    instance = devices_alike([4, 4, 5, 6, 1], [], 4, devices=[[0], [0, 1], [1], [2], None])
    assert restricted_sets(instance)[0] == pytest.approx(13 / 2)
    assert restricted_sets(devices_alike([4, 4, 4, 4], [], 2))[0] == pytest.approx(8)
    assert restricted_sets(devices_alike([], [], 2))[0] == 0


def test_bounds_know_graphs_without_vertices_and_without_work():
    for instance in (devices_alike([], [], 2), devices_alike([0, 0], [[0, 1, 0]], 2)):
        assert [bound_by(method, instance) for method in BOUNDS] == [0, 0, 0]


@pytest.mark.parametrize(("slow", "fast"), [(1e-2, 1e10), (1e-100, 1e250)])
def test_work_restricted_to_a_slow_device_counts_even_if_others_are_very_fast(slow: float, fast: float):
    instance = made([4e10, 3, 4, 5], [], [slow, fast, fast], devices=[None, [0], [0], None])
    assert restricted_sets(instance)[0] == pytest.approx(7 / slow)
    assert bound_by(load, instance) == pytest.approx(7 / slow)


def test_devices_without_links_among_them_stand_for_one_where_all_may_stay():
    """Both vertices may go to either of the slow devices, but only together."""
    instance = devices_alike([2, 2], [[0, 1, 1]], 4, devices=[[2, 3], [2, 3]])
    instance = replace(
        instance,
        speed=np.array([9.0, 9.0, 1.0, 1.0]),
        bandwidth=np.array([[np.inf, 1, 1, 1], [1, np.inf, 1, 1], [1, 1, np.inf, 0], [1, 1, 0, np.inf]]),
    )
    few = heads_and_tails(merged(instance, 3), 1.0)
    assert np.isinf(few.instance.bandwidth.diagonal()).tolist() == [True, True, False]
    assert few.longest() == pytest.approx(4)
    assert bound_by(critical_path, instance) == pytest.approx(4) == optimum(instance)
