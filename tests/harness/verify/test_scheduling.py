"""The scheduling verifier against hand-solved schedules, the simulation in C and broken solutions."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
from schedules import draw_devices, draw_document, draw_instance, draw_order

from shardmark.harness.verify import verify
from shardmark.instances import InputError
from shardmark.instances.scheduling import parse
from shardmark.solvers.scheduling._kernels import Simulator
from shardmark.solvers.scheduling.schedules.memory import fits

ATTACK = Path(__file__).parents[2] / "data" / "attack"


def scheduling(complexity, edges, *, speed=(1, 1), memory=None, bandwidth=1, colocation=None, devices=None, **options):
    document = {
        "format": "shardmark/scheduling/1",
        "nodes": {"complexity": complexity, "colocation": colocation, "devices": devices},
        "edges": edges,
        "devices": {"speed": list(speed), "memory": memory},
        "bandwidth": bandwidth,
    }
    return parse(document, "test", **options)


def fork(**options):
    """Vertex 0 sends tensors of size 4 to 1 and 2; links carry 2 at a time; device 1 is twice as fast."""
    return scheduling([2, 2, 4], [[0, 1, 4], [0, 2, 4]], speed=(1, 2), bandwidth=2, **options)


def order(device, *parts):
    return {"device": device, "order": [list(part) for part in parts]}


@pytest.mark.parametrize(
    ("links", "makespan"),
    [
        ("independent", 4 + 1 + 2),  # both arrive at 4
        ("queue", 6 + 2),  # at 4 and at 6
        ("share", 6 + 1 + 2),  # both at 6
    ],
)
def test_tensors_pass_each_other_queue_or_share_a_link(links, makespan):
    assert verify(fork(links=links), order([0, 1, 1], [0], [1, 2])).cost == makespan


def test_tensors_within_a_device_or_of_size_0_use_no_link():
    assert verify(fork(), order([0, 0, 0], [0, 1, 2], [])).cost == 8
    assert verify(scheduling([2, 2], [[0, 1, 0]]), order([0, 1], [0], [1])).cost == 4
    assert verify(scheduling([2, 2], [[0, 1, 0]], bandwidth=0), order([0, 1], [0], [1])).cost == 4


def test_a_device_waits_for_the_next_in_its_order_but_priorities_never_let_it_idle():
    instance = scheduling([1, 4, 3, 1], [[0, 2, 2]])
    device = [0, 1, 1, 1]
    assert verify(instance, order(device, [0], [2, 1, 3])).cost == 3 + 3 + 4 + 1
    assert verify(instance, {"device": device, "priority": [0, 1, 2, 1]}).cost == 4 + 3 + 1
    assert verify(instance, {"device": device, "priority": [0, 0, 0, 1]}).cost == 1 + 4 + 3


def test_of_equal_priorities_the_longest_executable_runs_first_then_the_first():
    instance = scheduling([1, 5, 1, 1, 1], [[0, 2, 1], [2, 4, 1]])
    # device 1 runs vertex 1 until 5, as 3 is executable at the same time but comes later; then 3, before 2, which
    # became executable at 2
    assert verify(instance, {"device": [0, 1, 1, 1, 0], "priority": [0.5] * 5}).cost == 5 + 1 + 1 + 1 + 1


@pytest.mark.parametrize(
    ("holding", "limit", "feasible"),
    [("waiting", 4, False), ("waiting", 4.5, True), ("reserved", 8, False), ("reserved", 8.5, True)],
)
def test_waiting_tensors_must_stay_below_the_memory(holding, limit, feasible):
    verdict = verify(fork(memory=[None, limit], holding=holding), order([0, 1, 1], [0], [1, 2]))
    assert verdict.feasible is feasible
    assert verdict.cost == 7
    if not feasible:
        first = {"waiting": "found 4 at time 4, when an input of vertex 2", "reserved": "found 8 at time 2"}[holding]
        assert f"device 1: expected less than its memory {limit:g} at every moment, {first}" in verdict.violations[0]


@pytest.mark.parametrize(
    ("sizes", "limit", "feasible"),
    [
        ((1, 2), 3, False),
        ((0.1, 0.2), 0.3, False),  # their sum is 0.3000000000000000167, and 0.3 is 0.2999999999999999889
        ((0.1, 0.2), 0.30000000000000004, False),  # the rounded sum
        ((0.1, 0.7), 0.8, False),  # their sum is 0.7999999999999999611
        ((1, 7), 8, False),
        ((1e16, 1e-270), 1e16, False),
        ((1e16, 1.0), 1e16 + 2, False),
        ((1e16, 1.0), 1.00000001e16, True),
        ((0.1, 0.2), 0.300000001, True),
    ],
)
def test_sums_of_waiting_tensors_equal_the_memory_up_to_a_relative_1e_9(sizes, limit, feasible):
    """Two tensors wait for vertex 3, which waits for a third one that takes no memory."""
    edges = [[0, 3, sizes[0]], [1, 3, sizes[1]], [2, 3, 0]]
    instance = scheduling([1, 1, 100, 1], edges, speed=(1, 1), bandwidth=1e16, memory=[None, limit])
    verdict = verify(instance, order([0, 0, 0, 1], [0, 1, 2], [3]))
    assert verdict.feasible is feasible


def test_an_input_that_is_there_is_named_when_others_leave_at_that_moment():
    """At 2 vertex 3 starts, which frees a tensor on its device, and a larger one begins to wait for vertex 4."""
    instance = scheduling([1, 1, 2, 1, 2], [[1, 4, 4], [0, 3, 3], [1, 2, 3]], memory=[4, None], bandwidth=1e9)
    verdict = verify(instance, order([0, 0, 1, 0, 0], [0, 1, 3, 4], [2]))
    assert verdict.violations == (
        "device 0: expected less than its memory 4 at every moment, found 4 at time 2, "
        "when an input of vertex 4 is there",
    )


def test_a_tensor_used_on_arrival_does_not_wait():
    instance = scheduling([1, 1], [[0, 1, 9]], memory=[1, 1])
    assert verify(instance, order([0, 1], [0], [1])).feasible
    assert verify(instance, order([0, 0], [0, 1], [])).feasible


@pytest.mark.parametrize(
    ("name", "solution"),
    [
        ("scheduling-held-for-an-ulp", "scheduling-held-for-an-ulp"),
        ("scheduling-held-for-an-ulp-times-10", "scheduling-held-for-an-ulp"),
        ("scheduling-held-for-0.4-at-1e16", "scheduling-held-for-0.4"),
        ("scheduling-held-for-0.4-at-1e15", "scheduling-held-for-0.4"),
    ],
)
def test_tensors_held_for_less_than_a_relative_1e_9_take_no_memory(name, solution):
    instance = parse(json.loads((ATTACK / f"{name}.json").read_text()), name)
    schedule = json.loads((ATTACK / f"{solution}.sol").read_text())
    device, order = np.array(schedule["device"]), [v for part in schedule["order"] for v in part]
    assert verify(instance, schedule).feasible
    assert fits(instance, device, Simulator(instance).in_order(device, order))


def test_tensors_held_for_more_than_a_relative_1e_9_take_memory():
    for held, feasible in ((1e-8, False), (1e-10, True)):
        instance = scheduling([1, held, 0], [[0, 2, 5]], speed=(1,), memory=[5])
        schedule = order([0, 0, 0], [0, 1, 2])
        assert verify(instance, schedule).feasible is feasible
        assert fits(instance, np.array([0, 0, 0]), Simulator(instance).in_order([0, 0, 0], [0, 1, 2])) is feasible


def rescaled(document, times, sizes):
    """Return the document in other units of time and size."""
    nodes, devices = document["nodes"], document["devices"]
    rows = document["bandwidth"]
    return {
        **document,
        "nodes": {**nodes, "complexity": [work * times for work in nodes["complexity"]]},
        "edges": [[u, v, size * sizes] for u, v, size in document["edges"]],
        "devices": {**devices, "memory": [limit if limit is None else limit * sizes for limit in devices["memory"]]},
        "bandwidth": [[width if width is None else width * sizes / times for width in row] for row in rows],
    }


@pytest.mark.gate(cases=2)
@pytest.mark.parametrize(("times", "sizes"), [(10, 1), (1, 10), (1 / 3, 7), (1e-200, 1e-80), (1e150, 1e100)])
def test_verdicts_do_not_depend_on_the_units(times, sizes):
    """Instances with many simultaneous events, or with exactly as much held as fits."""
    draw, seen = random.Random(8), set()
    for _ in range(150):
        document = draw_document(draw, 6)
        count = len(document["devices"]["speed"])
        document["nodes"]["complexity"] = [draw.choice([0.1, 0.2, 0.3]) for _ in document["nodes"]["complexity"]]
        document["edges"] = [[u, v, draw.choice([0.1, 0.2, 0.7])] for u, v, _ in document["edges"]]
        document["devices"] = {"speed": [1] * count, "memory": [draw.choice([0.3, 0.8, 0.9]) for _ in range(count)]}
        document["bandwidth"] = [[None if a == b else 1 for b in range(count)] for a in range(count)]
        try:
            instance, other = parse(document, "drawn"), parse(rescaled(document, times, sizes), "rescaled")
        except InputError:
            continue
        device = draw_devices(draw, instance)
        schedule = {"device": device, "order": draw_order(draw, instance, device)}
        if draw.random() < 0.5:
            schedule = {"device": device, "priority": [draw.choice([0, 1, 2]) for _ in device]}
        verdict, again = verify(instance, schedule), verify(other, schedule)
        assert verdict.feasible == again.feasible
        assert verdict.cost is None or again.cost == pytest.approx(verdict.cost * times, rel=1e-12)
        seen.add((verdict.feasible, "order" in schedule))
    assert len(seen) == 4


@pytest.mark.parametrize("parts", [10, 1])
def test_vertices_ready_at_times_equal_up_to_rounding_are_chosen_by_priority(parts):
    """Vertex 3 is executable at 0.1 + 0.2, vertex 1 at 0.3; with vertex 3 first, vertex 5 begins sooner."""
    work = [time / parts for time in (3, 10, 1, 10, 2, 50)]
    edges = [[0, 1, 0], [2, 4, 0], [4, 3, 0], [3, 5, 0]]
    instance = scheduling(work, edges)
    device, priority = [0, 0, 1, 0, 1, 1], [0, 1, 0, 2, 0, 0]
    assert verify(instance, {"device": device, "priority": priority}).cost == pytest.approx(63 / parts)
    assert Simulator(instance).by_priority(device, priority).makespan == pytest.approx(63 / parts)


def test_orders_that_wait_for_each_other_have_no_makespan():
    instance = scheduling([1, 1, 1, 1], [[0, 3, 1], [1, 2, 1]])
    verdict = verify(instance, order([0, 1, 0, 1], [2, 0], [3, 1]))
    assert (verdict.feasible, verdict.cost) == (False, None)
    assert "wait for each other" in verdict.violations[0]
    assert "2 -> 0 -> 3 -> 1 -> 2" in verdict.violations[0] or "0 -> 3 -> 1 -> 2 -> 0" in verdict.violations[0]


def test_of_many_vertices_in_a_cycle_some_are_named():
    """Device d runs 2 d + 1 before 2 d, which the first vertex of the next device waits for."""
    k = 30
    instance = scheduling([1] * 2 * k, [[2 * d, (2 * d + 3) % (2 * k), 1] for d in range(k)], speed=[1] * k)
    verdict = verify(instance, order([v // 2 for v in range(2 * k)], *([2 * d + 1, 2 * d] for d in range(k))))
    assert (verdict.feasible, verdict.cost) == (False, None)
    assert verdict.violations[0].endswith(" -> ...")
    assert verdict.violations[0].count("->") == 8


def test_groups_and_restrictions_are_named():
    instance = scheduling([1, 1, 1], [], colocation=[0, 0, None], devices=[None, None, [1]])
    verdict = verify(instance, {"device": [0, 1, 0], "priority": [1, 2, 3]})
    assert verdict.cost == 2
    assert verdict.violations == (
        "device[2]: expected one of the devices 1, found 0",
        "device[1]: expected device 0, where vertex 0 of its colocation group 0 is, found 1",
    )


def test_a_tensor_needs_a_link():
    instance = scheduling([1, 1], [[0, 1, 5]], bandwidth=0)
    verdict = verify(instance, order([0, 1], [0], [1]))
    assert (verdict.feasible, verdict.cost) == (False, None)
    expected = "edges[0]: expected a link for the tensor from vertex 0 on device 0 to 1 on 1"
    assert verdict.violations[0].startswith(expected)


HERE = {"device": [0, 0, 0]}


@pytest.mark.parametrize(
    ("solution", "reason"),
    [
        ([0, 1, 1], "expected the keys device and order, or device and priority, found a list of 3"),
        ({}, "found none"),
        (HERE, "found 'device': there is no order or priority"),
        ({"priority": [1, 1, 1]}, "found 'priority': there is no device"),
        ({"devices": [0, 0, 0]}, "found 'devices': there is no device and no order or priority"),
        ({**HERE, "order": [], "priority": []}, "device and priority, found 'device', 'order', 'priority'"),
        ({"device": [0, 0], "priority": [1, 1, 1]}, "device: expected 3 elements, one per vertex, found 2"),
        ({"device": [0, 0, 2], "priority": [1, 1, 1]}, "device[2]: expected a device from 0 to 1, found 2"),
        ({"device": [0, 0, True], "priority": [1, 1, 1]}, "device[2]: expected a device from 0 to 1, found true"),
        ({"device": [[0], 0, 0], "priority": [1, 1, 1]}, "device[0]: expected a device from 0 to 1, found a list of 1"),
        ({"device": "000", "priority": [1, 1, 1]}, "device: expected a list of 3 integers, found '000'"),
        ({"device": [0, 0, 10**5000], "priority": [1, 1, 1]}, "device[2]: expected a device from 0 to 1, found an int"),
        ({**HERE, "priority": [1, "1", 1]}, "priority[1]: expected a finite number, found '1'"),
        ({**HERE, "order": {}}, "order: expected 2 lists, one per device, found an object"),
        ({**HERE, "order": [[0, [1], 2], []]}, "order[0][1]: expected a vertex from 0 to 2, found a list"),
        ({**HERE, "order": [[0, 1.0, 2], []]}, "order[0][1]: expected a vertex from 0 to 2, found 1.0"),
        ({**HERE, "order": [[0, -1, 2], []]}, "order[0][1]: expected a vertex from 0 to 2, found -1"),
        ({**HERE, "priority": [1, 1]}, "priority: expected a list of 3 numbers, found a list of 2"),
        ({**HERE, "priority": [1, float("nan"), 1]}, "priority[1]: expected a finite number"),
        ({**HERE, "priority": [1, 10**400, 1]}, "priority[1]: expected a finite number"),
        ({**HERE, "order": [[0, 1, 2]]}, "order: expected 2 lists, one per device, found a list of 1"),
        ({**HERE, "order": [[0, 1, 2], None]}, "order: expected 2 lists"),
        ({**HERE, "order": [[0, 1], []]}, "order: expected every vertex once, but vertex 2 is missing"),
        ({**HERE, "order": [[0, 1, 1], []]}, "order[0][2]: expected every vertex once, found vertex 1 again"),
        ({**HERE, "order": [[0, 1], [2]]}, "order[1][0]: expected a vertex of device 1, found vertex 2"),
        ({**HERE, "order": [[0, 1, 3], []]}, "order[0][2]: expected a vertex from 0 to 2, found 3"),
    ],
)
def test_malformed_solutions_get_a_reason(solution, reason):
    verdict = verify(fork(), solution)
    assert (verdict.feasible, verdict.cost) == (False, None)
    assert reason in verdict.violations[0]


def test_devices_are_called_by_number_and_by_a_name_that_says_more():
    named = {"speed": [1, 1], "name": ["0", "gpu"], "memory": [None, 1]}
    nodes = {"complexity": [1, 1, 1], "devices": [[1], [0], None], "colocation": [None, 5, 5]}
    document = {"format": "shardmark/scheduling/1", "nodes": nodes, "edges": [[1, 2, 1]], "devices": named}
    instance = parse({**document, "bandwidth": 1}, "test")
    assert verify(instance, {"device": [0, 0, 1], "priority": [0, 0, 0]}).violations == (
        "device[0]: expected one of the devices 1 (gpu), found 0",
        "device[2]: expected device 0, where vertex 1 of its colocation group 5 is, found 1 (gpu)",
    )
    silent = parse({**document, "nodes": {"complexity": [1, 1, 1]}, "bandwidth": [[None, 0], [1, None]]}, "test")
    (found,) = verify(silent, {"device": [0, 0, 1], "priority": [0, 0, 0]}).violations
    assert found.startswith("edges[0]: expected a link for the tensor from vertex 1 on device 0 to 2 on 1 (gpu), found")
    full = {**document, "nodes": {"complexity": [9, 1, 1]}, "bandwidth": 1}
    (found,) = verify(parse(full, "test"), {"device": [1, 0, 1], "order": [[1], [0, 2]]}).violations
    assert found.startswith("device 1 (gpu): expected less than its memory 1 at every moment, found 1 at time 2, when")


@pytest.mark.parametrize("links", ["independent", "queue", "share"])
def test_the_simulation_in_c_finds_the_same_makespan(links):
    draw = random.Random(f"simulation {links}")
    ended = {"order": 0, "priority": 0, "msr": 0}
    for _ in range(340):
        instance = draw_instance(draw, 9, links=links)
        device = draw_devices(draw, instance)
        simulator, form = Simulator(instance), draw.choice(sorted(ended))
        if form == "priority":
            priority = [draw.choice([0, 1, 2.5]) for _ in device]
            execution, solution = simulator.by_priority(device, priority), {"device": device, "priority": priority}
        elif form == "order":
            parts = draw_order(draw, instance, device)
            execution = simulator.in_order(device, [v for part in parts for v in part])
            solution = {"device": device, "order": parts}
        else:
            execution = simulator.by_successors(device, (1, 1, 1, 5))
            parts = [[v for v in execution.sequence.tolist() if device[v] == d] for d in range(instance.devices)]
            solution = {"device": device, "order": parts}
        verdict = verify(instance, solution)
        if verdict.cost is not None:
            assert verdict.cost == execution.makespan
            ended[form] += 1
        elif form == "order":
            assert execution.makespan == float("inf")
    assert min(ended.values()) > 70
