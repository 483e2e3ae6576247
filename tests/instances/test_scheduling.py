"""Instances of scheduling: what is read, what follows from it, and what is refused."""

from __future__ import annotations

import json
import random
import re
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from documents import changed
from referee import refusal
from schedules import draw_instance

from shardmark.harness.verify import verify
from shardmark.instances import InputError
from shardmark.instances import parse as parse_any
from shardmark.instances.scheduling import parse, to_document

TINY: dict[str, Any] = {
    "format": "shardmark/scheduling/1",
    "name": "tiny",
    "nodes": {"name": ["a", "b"], "complexity": [10, 20], "colocation": [0, None], "devices": [None, [0, 1]]},
    "edges": [[0, 1, 50]],
    "devices": {"name": ["d0", "d1"], "speed": [10, 5], "memory": [1000, None]},
    "bandwidth": [[None, 20], [20, None]],
}


def test_the_example_of_the_format_is_read_and_recognised():
    instance = parse_any(json.dumps(TINY).encode(), "tiny.json")
    assert (instance.track, instance.nodes, instance.edges, instance.devices) == ("scheduling", 2, 1, 2)
    assert instance.memory.tolist() == [1000, np.inf]
    assert instance.bandwidth.tolist() == [[np.inf, 20], [20, np.inf]]
    assert (instance.links, instance.holding) == ("independent", "waiting")
    assert instance.summary()["simple_bound"] == pytest.approx(3, rel=1e-9)
    assert not instance.speed.flags.writeable


def test_what_is_written_is_read_back_unchanged():
    draw = random.Random(5)
    for _ in range(50):
        instance = draw_instance(draw)
        document = to_document(instance)
        again = parse(json.loads(json.dumps(document)), "again")
        assert to_document(again) == document
        assert (again.links, again.holding) == (instance.links, instance.holding)


def test_one_number_is_the_bandwidth_of_all_links_and_all_else_has_a_default():
    nodes, devices = {"complexity": [1, 2]}, {"speed": [1, 1, 2]}
    document = {"format": TINY["format"], "nodes": nodes, "edges": [], "devices": devices, "bandwidth": 3}
    instance = parse(document, "short")
    assert instance.bandwidth[0].tolist() == [np.inf, 3, 3]
    assert instance.node_names == ("0", "1")
    assert instance.unit.tolist() == [0, 1]
    assert instance.unit_choice.tolist() == [-1, -1]
    assert instance.fastest().tolist() == [2, 2]


def test_a_group_may_use_what_all_its_members_may():
    nodes = {"complexity": [1] * 4, "colocation": [7, None, 7, 7], "devices": [[0, 1], None, [2, 1], None]}
    instance = parse({**TINY, "nodes": nodes, "edges": [], "devices": {"speed": [9, 1, 3]}, "bandwidth": 1}, "group")
    assert instance.unit.tolist() == [0, 1, 0, 0]
    assert [choice.tolist() for choice in instance.unit_choices] == [[1]]
    assert instance.unit_choice.tolist() == [0, -1]
    assert instance.fastest().tolist() == [1, 9, 1, 1]


@pytest.mark.parametrize("group", [0, 1, 2, 3, 4, 5, 2**63 - 1])
def test_a_group_of_any_number_has_no_other_members(group):
    nodes = {"complexity": [1, 1, 1], "colocation": [None, group, group]}
    instance = parse({**TINY, "nodes": nodes, "edges": []}, "group")
    assert instance.unit.tolist() == [0, 1, 1]


def test_options_in_the_file_give_way_to_those_given():
    document = {**TINY, "options": {"links": "queue", "holding": "reserved"}}
    assert parse(document, "options").links == "queue"
    instance = parse(document, "options", links="share")
    assert (instance.links, instance.holding) == ("share", "reserved")


@pytest.mark.parametrize(
    ("path", "value", "place", "expected"),
    [
        ("format", "shardmark/scheduling/2", "format", "expected 'shardmark/scheduling/1'"),
        ("color", 1, "key 'color'", "expected only the keys"),
        ("nodes.complexity", [10, -1], "nodes.complexity[1]", "expected a finite number, at least 0, found -1"),
        ("nodes.complexity", [1e308, 1e308], "nodes", "expected numbers for which every time and size is finite"),
        ("nodes.name", ["a"], "nodes", "expected columns of equal length, found name 1, complexity 2"),
        ("nodes.colocation", [0, -2], "nodes.colocation[1]", "expected null or at least 0, found -2"),
        (
            "nodes.colocation",
            [0, -(10**5000)],
            "nodes.colocation[1]",
            "expected null or at least 0, found an integer of",
        ),
        ("nodes.colocation", [0, 0.5], "nodes.colocation[1]", "expected an integer, found 0.5"),
        ("nodes.devices", [None, [2]], "nodes.devices[1]", "expected device numbers from 0 to 1, found 2"),
        ("nodes.devices", [None, ["d0"]], "nodes.devices[1]", "expected device numbers from 0 to 1, found 'd0'"),
        ("nodes.devices", [None, []], "nodes.devices[1]", "expected null or at least one device, each once"),
        ("nodes.devices", [None, [1, 1]], "nodes.devices[1]", "expected null or at least one device, each once"),
        ("nodes", {"complexity": [1, 1], "colocation": [3, 3], "devices": [[0], [1]]}, "nodes.devices[1]", "group"),
        ("edges", [[0, 1]], "edges[0]", "expected [tail, head, size], found a list of 2"),
        ("edges", [[0, 2, 1]], "edges[0]", "expected a node index from 0 to 1 as head, found 2"),
        ("edges", [[0, 1, 1], [0, 1, 2]], "edges[1]", "expected every edge once"),
        ("edges", [[0, 1, 1], [1, 0, 1]], "edges[0]", "cycle"),
        ("edges", [[0, 0, 1]], "edges[0]", "cycle"),
        ("edges", [[0, 1, -1]], "edges[0][2]", "expected a finite number, at least 0, found -1"),
        ("edges", [[0, 1, "5"]], "edges[0][2]", "expected a finite number, at least 0, found '5'"),
        ("edges", [[0, 1, float("nan")]], "edges[0][2]", "expected a finite number, at least 0, found nan"),
        ("edges", [[0, 1, 10**400]], "edges[0][2]", "expected a finite number, at least 0, found an integer of"),
        ("edges", [[0, 1, [5]]], "edges[0][2]", "expected a finite number, at least 0, found a list of 1"),
        ("edges", [[0, "b", 5]], "edges[0]", "expected an integer, found 'b'"),
        ("nodes.devices", [None, [[0]]], "nodes.devices[1]", "expected device numbers from 0 to 1, found a list of 1"),
        ("nodes.devices", [None, [True]], "nodes.devices[1]", "expected device numbers from 0 to 1, found true"),
        ("devices.speed", [10, 1e-320], "nodes", "expected numbers for which every time and size is finite"),
        (
            "devices.speed",
            [1, 1e300],
            "nodes",
            "expected numbers for which every time and size is 0 or at least 1e-290",
        ),
        ("edges", [[0, 1, 1e-300]], "nodes", "expected numbers for which every time and size is 0 or at least 1e-290"),
        ("devices.speed", [10, 0], "devices.speed[1]", "expected a positive number, found 0"),
        ("devices", {"speed": []}, "devices.speed", "expected at least one device"),
        ("devices.memory", [1], "devices", "expected columns of equal length, found name 2, speed 2, memory 1"),
        ("bandwidth", [[None, 1]], "bandwidth", "expected 2 elements, found 1"),
        ("bandwidth", [[None, 1], [1]], "bandwidth[1]", "expected 2 elements, found 1"),
        ("bandwidth", [[None, 1], [1, 5]], "bandwidth[1][1]", "expected null within a device, found 5"),
        ("bandwidth", [[None, None], [1, None]], "bandwidth[0][1]", "expected a finite number, at least 0, found null"),
        ("options", {"links": "tangled"}, "option links", "expected one of independent, queue, share, found 'tangled'"),
        ("options", {"speed": 1}, "options key 'speed'", "expected only the keys links, holding"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(path, value, place, expected):
    document = changed(TINY, {path: value})
    if place in ("devices.speed",) and value == {"speed": []}:
        document["nodes"]["devices"], document["bandwidth"] = None, []
    message = refusal(parse, document, "file.json")
    assert message.startswith(f"file.json: {place}: ")
    assert expected in message


@pytest.mark.parametrize("value", [float("nan"), -1.0])
@pytest.mark.parametrize(
    ("name", "at", "place"),
    [
        ("complexity", 1, "nodes.complexity[1]"),
        ("size", 0, "edges[0][2]"),
        ("memory", 1, "devices.memory[1]"),
        ("bandwidth", (1, 0), "bandwidth[1][0]"),
    ],
)
def test_instances_made_of_arrays_have_no_numbers_that_are_none_or_negative(name, at, place, value):
    instance = parse(TINY, "tiny")
    column = getattr(instance, name).copy()
    column[at] = value
    with pytest.raises(InputError, match=rf"{re.escape(place)}: expected a number, at least 0, found {value:g}"):
        replace(instance, **{name: column})


@pytest.mark.parametrize(
    ("place", "names"),
    [("nodes", ("node_names", "complexity", "colocation", "choice")), ("edges", ("size",)), ("devices", ("memory",))],
)
def test_instances_made_of_arrays_have_columns_of_equal_length(place, names):
    instance = parse(TINY, "tiny")
    shorter = {name: getattr(instance, name)[:-1] for name in names}
    found = ", ".join(f"{name} {len(column)}" for name, column in shorter.items())
    with pytest.raises(
        InputError, match=rf"{place}: expected . elements per column, one per {place[:-1]}, .* {found}$"
    ):
        replace(instance, **shorter)


def test_devices_that_must_talk_need_a_link():
    nodes = {"complexity": [1, 1], "devices": [[0], [1]]}
    document = {**TINY, "nodes": nodes, "bandwidth": [[None, 0], [5, None]]}
    with pytest.raises(InputError, match=r"edges\[0\]: expected a link .* found bandwidth 0"):
        parse(document, "silent")
    assert parse({**document, "edges": [[1, 0, 50]]}, "linked").edges == 1
    assert parse({**document, "edges": [[0, 1, 0]]}, "empty").edges == 1


def test_what_is_reserved_at_once_must_fit_some_device():
    document = {**TINY, "devices": {"speed": [1, 1], "memory": [50, 40]}, "options": {"holding": "reserved"}}
    with pytest.raises(InputError, match=r"nodes\[1\]: expected a device with memory above 50, .* found at most 50"):
        parse(document, "crowded")
    assert parse({**document, "options": {}}, "waiting").nodes == 2


def test_a_vertex_that_takes_no_time_need_not_hold_what_it_reads():
    crowded = {"nodes": {"complexity": [1, 0]}, "devices": {"speed": [1], "memory": [50]}, "bandwidth": 1}
    instance = parse({**TINY, **crowded, "options": {"holding": "reserved"}}, "at once")
    assert verify(instance, {"device": [0, 0], "order": [[0, 1]]}).feasible


def test_a_vertex_that_takes_next_to_no_time_need_not_hold_what_it_reads():
    """It takes less than a relative 1e-9 of the time at which it finishes."""
    crowded = {"nodes": {"complexity": [1e15, 0.4]}, "devices": {"speed": [1], "memory": [50]}, "bandwidth": 1}
    instance = parse({**TINY, **crowded, "options": {"holding": "reserved"}}, "nearly at once")
    assert verify(instance, {"device": [0, 0], "order": [[0, 1]]}).feasible


@pytest.mark.parametrize(
    ("sizes", "limit", "crowded"),
    [
        ((0.1, 0.2), 0.3, True),
        ((0.1, 0.2), 0.30000000000000004, True),
        ((0.1, 0.7), 0.8, True),  # their sum is 0.7999999999999999611
        ((0.1, 0.2), 0.300000001, False),
    ],
)
def test_what_is_reserved_must_be_below_the_memory_by_a_relative_1e_9(sizes, limit, crowded):
    last = len(sizes)
    document = {
        **TINY,
        "nodes": {"complexity": [1] * (last + 1)},
        "edges": [[u, last, size] for u, size in enumerate(sizes)],
        "devices": {"speed": [1], "memory": [limit]},
        "bandwidth": 1,
        "options": {"holding": "reserved"},
    }
    with pytest.raises(InputError, match="expected a device with memory above") if crowded else nullcontext():
        parse(document, "exact")


def test_the_simple_bound_of_a_long_chain_is_not_above_its_exact_makespan():
    """A sum of so many floats is too great by a relative 2e-12."""
    n = 100_000
    document = {
        "format": "shardmark/scheduling/1",
        "nodes": {"complexity": [0.1] * n},
        "edges": [[v, v + 1, 0] for v in range(n - 1)],
        "devices": {"speed": [1]},
        "bandwidth": 1,
    }
    bound, makespan = Fraction(parse(document, "chain").simple_bound()), n * Fraction(0.1)
    assert makespan * (1 - Fraction(1, 10**9)) <= bound <= makespan
