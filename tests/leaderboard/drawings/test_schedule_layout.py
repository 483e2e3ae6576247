"""Drawings of schedules: when everything runs, and a critical chain without a gap from 0 to the end."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from schedules import draw_devices, draw_instance, draw_order

from shardmark.harness.verify import has_times, times, verify
from shardmark.instances import tracks
from shardmark.instances.scheduling import Instance, parse
from shardmark.leaderboard.drawings.schedule_layout import critical_chain, drawing
from shardmark.leaderboard.report import Link


def draw_solution(draw: random.Random, instance: Instance) -> dict[str, Any]:
    device = draw_devices(draw, instance)
    if draw.random() < 0.5:
        return {"device": device, "priority": [draw.choice([0, 1, 2.5]) for _ in device]}
    return {"device": device, "order": draw_order(draw, instance, device)}


def document(complexity: list[int], edges: list[list[int]], **devices: Any) -> Instance:
    return parse(
        {
            "format": "shardmark/scheduling/1",
            "nodes": {"complexity": complexity},
            "edges": edges,
            "devices": {"speed": [1, 2], **devices},
            "bandwidth": [[None, 1], [1, None]],
        },
        "made up",
    )


@pytest.mark.parametrize("links", ["independent", "queue", "share"])
def test_the_chain_takes_all_the_time_and_every_cause_is_true(links: str) -> None:
    draw = random.Random(f"chains {links}")
    causes = dict.fromkeys(("start", "device", "input", "transfer"), 0)
    for _ in range(250):
        instance = draw_instance(draw, 9, links=links)
        solution = draw_solution(draw, instance)
        verdict, found = verify(instance, solution), times(instance, solution)
        assert (found is not None) == verdict.feasible
        if found is None:
            continue
        chain = critical_chain(instance, found)
        first, last = chain[0].vertex, chain[-1].vertex
        assert (found.start[first], found.finish[last], chain[0].cause) == (0, verdict.cost, "start")
        edges = list(zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), strict=True))
        for a, b in pairwise(chain):
            u, v = a.vertex, b.vertex
            near = found.device[u] == found.device[v]
            arrivals = [found.arrival[e] for e, ends in enumerate(edges) if ends == (u, v)]
            if b.cause == "device":
                assert near
                assert found.finish[u] == found.start[v]
            else:
                assert near == (b.cause == "input")
                assert found.start[v] in arrivals
        for link in chain:
            causes[link.cause] += 1
    assert min(causes.values()) > 60


def test_vertices_that_take_no_time_are_in_the_chain_in_their_order() -> None:
    instance = document([2, 0, 0, 3], [])
    found = times(instance, {"device": [0, 0, 0, 0], "order": [[2, 0, 1, 3], []]})
    assert found is not None
    chain = critical_chain(instance, found)
    assert chain == [Link(2, "start"), Link(0, "device"), Link(1, "device"), Link(3, "device")]


def test_a_drawing_has_the_devices_in_use_the_fastest_first() -> None:
    instance = document([4, 6, 2], [[0, 1, 3], [1, 2, 0]])
    picture = drawing(instance, {"device": [0, 1, 1], "priority": [0, 0, 0]}, bound=5.0, title="t", caption="Made up.")
    assert picture is not None
    assert [(device.name, device.speed, device.load) for device in picture.devices] == [
        ("device 1", "speed 2", "busy 36 % of the time"),
        ("device 0", "speed 1", "busy 36 % of the time"),
    ]
    assert (picture.device, picture.start, picture.finish) == ([1, 0, 0], [0, 7, 10], [4, 10, 11])
    assert picture.chain == [Link(0, "start"), Link(1, "transfer"), Link(2, "input")]
    assert (picture.bound, picture.title) == (5.0, "t")
    assert picture.caption == (
        "Made up. Its critical chain has 3 vertices, which run for 8, and 1 transfer between devices, which takes 3."
    )
    alone = drawing(instance, {"device": [1, 1, 1], "priority": [0, 0, 0]})
    assert alone is not None
    assert [device.name for device in alone.devices] == ["device 1"]
    assert alone.caption == "Its critical chain has 3 vertices, which run for 6."


@pytest.mark.parametrize(
    ("complexity", "caption"),
    [
        ([3], "Its critical chain has 1 vertex, which runs for 3."),
        ([3, 1], "Its critical chain has 2 vertices, which run for 4; 1 of them waits for a device, not for an input."),
        (
            [3, 1, 1],
            "Its critical chain has 3 vertices, which run for 5; 2 of them wait for a device, not for an input.",
        ),
    ],
)
def test_numbers_of_a_caption_fit_its_words(complexity: list[int], caption: str) -> None:
    alone = {"device": [0] * len(complexity), "priority": [0] * len(complexity)}
    picture = drawing(document(complexity, []), alone)
    assert picture is not None
    assert picture.caption == caption


def test_what_breaks_a_rule_has_no_drawing() -> None:
    instance = document([4, 6, 2], [[0, 1, 3], [2, 1, 1]])
    solution = {"device": [0, 1, 0], "order": [[2, 0], [1]]}  # the tensor of 2 waits
    assert drawing(instance, solution)
    assert drawing(instance, {"device": [0, 1, 0]}) is None
    assert drawing(replace(instance, memory=np.full(2, 1.0)), solution) is None


def test_only_schedules_have_times() -> None:

    assert [track for track in tracks() if has_times(track)] == ["scheduling"]
