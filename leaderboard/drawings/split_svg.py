"""Drawing of a split of a graph over devices: nodes in layers along the edges, coloured by device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from markupsafe import Markup, escape

from shardmark.leaderboard import charts
from shardmark.leaderboard.charts import COLOURS, NARROW, WIDE, spread, tag, tooltip
from shardmark.leaderboard.drawings.layers import Edges, Lists, layers, neighbours
from shardmark.leaderboard.report import Device, Split
from shardmark.leaderboard.text import count, printable

#: Most nodes and edges with a mark each; graphs of more are drawn as lanes.
MAX_MARKS, MAX_EDGES = 200, 600
MARGIN = 10  # around the nodes
KEY = (
    "Each colour is a stage or device; squares run on CPUs. Edges lead to the right (downwards on narrow screens); "
    "edges within one have its colour."
)
SWEEPS = 8  # over the layers, to bring nodes close to their neighbours


@dataclass(frozen=True)
class Held:
    """A device that holds nodes: its name, tooltip, classes of its marks, nodes, and edges within it."""

    name: str
    title: str
    style: str
    cpu: bool
    nodes: list[int]
    edges: list[tuple[int, int]]


def held(split: Split) -> list[Held]:
    """The devices that hold nodes, in their order; accelerators differ in colour, and colours recur as rings."""
    nodes: Lists = [[] for _ in split.devices]
    edges: list[list[tuple[int, int]]] = [[] for _ in split.devices]
    for v, i in enumerate(split.device):
        nodes[i].append(v)
    for u, v in split.edges:
        if split.device[u] == split.device[v]:
            edges[split.device[u]].append((u, v))
    number = accumulate((not device.cpu for device in split.devices), initial=0)
    return [
        Held(device.name, title(device, len(found)), _style(device, j), device.cpu, found, inside)
        for device, found, inside, j in zip(split.devices, nodes, edges, number, strict=False)
        if found
    ]


def title(device: Device, nodes: int) -> str:
    """Describe the contents of a device."""
    return ", ".join(filter(None, (f"{device.name}: {count(nodes, 'node')}", device.load)))


def _style(device: Device, number: int) -> str:
    """The classes of a CPU, or of an accelerator after ``number`` others."""
    ring = "mark ring " if number // COLOURS % 2 else ""
    return "series s0" if device.cpu else f"series {ring}s{number % COLOURS + 1}"


def is_large(split: Split) -> bool:
    """Return True if a graph has too many nodes or edges for a mark each."""
    return len(split.nodes) > MAX_MARKS or len(split.edges) > MAX_EDGES


def draw(split: Split, wide: int = WIDE) -> Markup:
    """The split for wide and for narrow screens, with a legend of the devices that hold nodes."""
    devices = held(split)
    places = placed(len(split.nodes), split.edges)
    return charts.responsive(lambda width: _drawing(split, devices, places, width), wide) + legend(devices)


def placed(nodes: int, edges: Edges) -> list[tuple[int, float]]:
    """The layer of each node and its position within the layer: from 0 on, nodes of a layer at least 1 apart.

    Sweeping forth and back over the layers, each node moves to the mean of its predecessors, or of its successors, as
    far as the other nodes of its layer leave room (Sugiyama, Tagawa & Toda 1981).
    """
    layer = layers(nodes, edges)
    after, before = neighbours(nodes, edges)
    members: Lists = [[] for _ in range(max(layer, default=-1) + 1)]
    for v in range(nodes):
        members[layer[v]].append(v)
    widest = max(map(len, members), default=1)
    across = [0.0] * nodes
    for found in members:
        for i, v in enumerate(found):
            across[v] = (widest - len(found)) / 2 + i
    for sweep in range(SWEEPS):
        near, ordered = (before, members) if sweep % 2 == 0 else (after, members[::-1])
        for found in ordered:
            wanted = [sum(across[u] for u in near[v]) / len(near[v]) if near[v] else across[v] for v in found]
            for v, place in zip(found, spaced(wanted, widest - 1.0), strict=True):
                across[v] = place
    return list(zip(layer, across, strict=True))


def spaced(wanted: Sequence[float], most: float) -> list[float]:
    """Positions from 0 to ``most``, at least 1 apart, near the wanted ones, with the same mean if there is room."""
    found = spread(wanted, 1.0, 0.0, most)
    shift = (sum(wanted) - sum(found)) / len(found)
    shift = min(max(shift, -min(found)), most - max(found))
    return [place + shift for place in found]


def _drawing(split: Split, devices: Sequence[Held], places: Sequence[tuple[int, float]], width: int) -> Markup:
    """The drawing at a width; layers follow the longer side."""
    deepest, widest = max((a for a, _ in places), default=0), max((b for _, b in places), default=0.0)
    downwards = width == NARROW
    along = min(max(11 * deepest, 100), 1600) if downwards else width - 2 * MARGIN
    aside = width - 2 * MARGIN if downwards else min(max(14 * widest, 160), 40 * max(widest, 1), 420)
    step, apart = along / max(deepest, 1), min(aside / max(widest, 1.0), 40.0)
    margin = MARGIN + (aside - apart * widest) / 2
    at = [(MARGIN + step * a, margin + apart * b) for a, b in places]
    if downwards:
        at = [(y, x) for x, y in at]
    radius = min(max(0.42 * min(step, apart), 1.2), 5.0)
    between = [(u, v) for u, v in split.edges if split.device[u] != split.device[v]]
    groups = [_edges(between, at, "across"), *(_device(split.nodes, device, at, radius) for device in devices)]
    height = round((along if downwards else aside) + 2 * MARGIN)
    label = f"{count(len(split.nodes), 'node')} on {count(len(devices), 'device')}"
    return charts.svg(width, height, label, groups)


def _edges(edges: Edges, at: Sequence[tuple[float, float]], style: str) -> Markup:
    """Edges as one path."""
    ends = [(*at[u], *at[v]) for u, v in edges]
    return tag("path", d="".join(f"M{a:.1f} {b:.1f}L{c:.1f} {d:.1f}" for a, b, c, d in ends), class_=style)


def _device(names: Sequence[str], device: Held, at: Sequence[tuple[float, float]], radius: float) -> Markup:
    """The nodes of a device over its edges; pointing at one fades the other devices out."""
    marks = [
        _node(*at[v], radius, device.cpu, [tooltip(f"{printable(names[v])} on {device.name}")]) for v in device.nodes
    ]
    return tag("g", tooltip(device.title), _edges(device.edges, at, "within"), *marks, class_=device.style)


def _node(x: float, y: float, radius: float, square: bool, words: Sequence[Markup]) -> Markup:
    if square:
        side = 2 * radius
        return tag("path", *words, d=f"M{x - radius:.1f} {y - radius:.1f}h{side:.1f}v{side:.1f}h-{side:.1f}z")
    return tag("circle", *words, cx=x, cy=y, r=radius)


def legend(devices: Sequence[Held]) -> Markup:
    """The devices that hold nodes: mark, name, number of nodes, load."""
    items = []
    for device in devices:
        shown = tag("g", _node(8.0, 8.0, 5.0, device.cpu, []), class_=device.style)
        sample = tag("svg", shown, viewBox="0 0 16 16", width=16, height=16)
        items.append(tag("li", sample, escape(printable(device.title))))
    return tag("ul", *items, class_="legend always")
