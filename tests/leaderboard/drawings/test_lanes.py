"""Drawings of large splits: every node in a bar of its device, the pipeline as a staircase, small files."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

from shardmark.leaderboard.drawings import pictures
from shardmark.leaderboard.drawings.lanes_svg import KEY, MAX_LANES, draw
from shardmark.leaderboard.drawings.split_svg import MAX_MARKS
from shardmark.leaderboard.report import Device, Split

HOSTILE = "<script>alert('x')</script> & \"quoted\""


def chain(nodes: int, devices: int) -> Split:
    """A chain cut into equal parts, the last device first in the list."""
    device = [devices - 1 - v * devices // nodes for v in range(nodes)]
    names = [Device(f"{HOSTILE} {i}", "load 1") for i in range(devices)]
    return Split([HOSTILE] * nodes, [(v, v + 1) for v in range(nodes - 1)], device, names)


def lanes(split: Split) -> list[ET.Element]:
    tree = ET.fromstring(f"<div>{draw(split)}</div>")
    wide = tree.find("./div[@class='wide']/svg")
    assert wide is not None
    return [group for group in wide.iter("g") if (group.get("class") or "").startswith("lane")]


def test_large_graphs_have_lanes_in_the_order_of_the_data() -> None:
    split = chain(MAX_MARKS + 1, 3)
    assert pictures.key(split) == KEY
    assert str(pictures.draw(split)) == str(draw(split))
    found = lanes(split)
    titles = [group.findtext("title") or "" for group in found]
    assert [title.split(":")[0][-1] for title in titles] == ["2", "1", "0"]
    bars = [re.findall(r"M([\d.]+) [\d.]+v[\d.]+", group.find("path").get("d", "")) for group in found]  # type: ignore[union-attr]
    starts = [float(bar[0]) for bar in bars]
    assert starts == sorted(starts)
    assert all(float(a[-1]) <= float(b[0]) for a, b in pairwise(bars))


def test_drawings_of_many_nodes_and_devices_are_small_text() -> None:
    page = str(draw(chain(20_000, MAX_LANES + 2)))
    assert "<script>" not in page
    assert "Not drawn: 2 more devices with fewer nodes." in page
    assert len(page.encode()) < 200_000
