"""Drawings of splits: layers that edges lead along, nodes that do not cover each other, every device in the legend."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from shardmark.leaderboard.drawings.layers import layers
from shardmark.leaderboard.drawings.split_svg import draw, held, placed, spaced
from shardmark.leaderboard.report import Device, Split

HOSTILE = "<script>alert('x')</script> & \"quoted\""
ACCELERATORS = [Device(f"accelerator {i}", f"load {i}.5") for i in range(8)]


def drawn(split: Split) -> ET.Element:
    return ET.fromstring(f"<div>{draw(split)}</div>")


def random_graph(seed: int, nodes: int) -> list[tuple[int, int]]:
    chance = random.Random(seed)
    order = chance.sample(range(nodes), nodes)
    return [(order[u], order[v]) for v in range(nodes) for u in range(v) if chance.random() < 3 / nodes]


def test_nodes_of_a_layer_spread_around_where_they_want_to_be() -> None:
    assert spaced([2.0, 2.0, 2.0], 6.0) == [1.0, 2.0, 3.0]
    assert spaced([0.0, 0.0, 5.0], 6.0) == pytest.approx([0.0, 1.0, 5.0])  # there is no room on the left
    assert spaced([6.0, 6.0], 6.0) == [5.0, 6.0]


def test_a_node_that_only_feeds_another_is_drawn_next_to_it() -> None:
    chain, weight = [(0, 1), (1, 2), (2, 3)], (4, 3)
    assert layers(6, [*chain, weight]) == [0, 1, 2, 3, 2, 0]


@pytest.mark.parametrize("seed", range(5))
def test_edges_lead_to_greater_layers_and_nodes_are_apart(seed: int) -> None:
    edges = random_graph(seed, 60)
    found = placed(60, edges)
    assert all(found[u][0] < found[v][0] for u, v in edges)
    widest = max(sum(layer == x for x, _ in found) for layer, _ in found)
    for layer in {layer for layer, _ in found}:
        across = sorted(place for x, place in found if x == layer)
        assert all(b - a >= 1 - 1e-9 for a, b in pairwise(across))
        assert across[0] > -1e-9
        assert across[-1] < widest - 1 + 1e-9


def test_every_node_has_the_mark_of_its_device_at_both_widths() -> None:
    device = [0, 0, 1, 8]
    split = Split(
        ["a", "b", HOSTILE, "d"], [(0, 1), (1, 2), (2, 3)], device, [*ACCELERATORS, Device("CPU 8", cpu=True)]
    )
    page = drawn(split)
    for width in ("wide", "narrow"):
        [picture] = page.findall(f"./div[@class='{width}']/svg")
        groups = {group.get("class"): group for group in picture.findall("g")}
        assert {name: len(group.findall("circle")) for name, group in groups.items()} == {
            "series s1": 2,
            "series s2": 1,
            "series s0": 0,
        }
        assert len(groups["series s0"].findall("path")) == 2  # its edges, none, and a square
        between = picture.find("path")
        assert between is not None
        assert (between.get("d") or "").count("M") == 2
        assert picture.get("aria-label") == "4 nodes on 3 devices"
    told = ["".join(item.itertext()) for item in page.findall("ul/li")]
    assert told == ["accelerator 0: 2 nodes, load 0.5", "accelerator 1: 1 node, load 1.5", "CPU 8: 1 node"]
    assert f"{HOSTILE} on accelerator 1" in "".join(page.itertext())


def test_colours_recur_as_rings() -> None:
    split = Split(["v"] * 8, [], list(range(8)), ACCELERATORS)
    assert [held(split)[i].style for i in (0, 5, 6, 7)] == [
        "series s1",
        "series s6",
        "series mark ring s1",
        "series mark ring s2",
    ]


def test_devices_have_their_nodes_and_the_edges_within_them() -> None:
    split = Split(["v"] * 5, [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)], [2, 2, 0, 0, 0], ACCELERATORS)
    assert [(x.name, x.nodes, x.edges, x.style) for x in held(split)] == [
        ("accelerator 0", [2, 3, 4], [(2, 3), (3, 4)], "series s1"),
        ("accelerator 2", [0, 1], [(0, 1)], "series s3"),
    ]


def test_one_node_and_none_are_drawn() -> None:
    assert len(drawn(Split(["v"], [], [0], ACCELERATORS)).findall("./div[@class='wide']/svg/g/circle")) == 1
    assert drawn(Split([], [], [], [])).find("ul") is not None
