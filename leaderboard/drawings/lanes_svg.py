"""Drawing of a large split: a lane per device, along it the number of its nodes in each part of the graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from markupsafe import Markup

from shardmark.leaderboard import charts
from shardmark.leaderboard.charts import NARROW, WIDE, tag, text, tooltip
from shardmark.leaderboard.drawings.layers import Edges, layers, positions
from shardmark.leaderboard.drawings.split_svg import title
from shardmark.leaderboard.report import Split
from shardmark.leaderboard.text import count, printable, shorten

#: Most lanes drawn.
MAX_LANES = 64
#: Most lines drawn between lanes, those of the most edges first.
MAX_LINES = 250
#: Width of a bar, in SVG user units.
BAR = 4
KEY = (
    "Each lane is a stage or device; those with the earliest nodes come first. Data flows from left to right. The "
    "taller a bar, the more nodes the lane has there; lines are edges between lanes."
)

Bin = tuple[int, int]  # lane, and column along the graph


def draw(split: Split, wide: int = WIDE) -> Markup:
    """The lanes for wide and for narrow screens, and a sentence on those that are left out."""
    layer = layers(len(split.nodes), split.edges)
    held = Counter(split.device)
    place = positions(layer, split.device, len(split.devices))
    busiest = sorted(held, key=lambda device: -held[device])[:MAX_LANES]
    lanes = sorted(busiest, key=lambda device: (split.devices[device].cpu, place[device], device))
    drawing = charts.responsive(lambda width: _drawing(split, layer, lanes, width), wide)
    left = len(held) - len(lanes)
    words = f"Not drawn: {count(left, 'more device')} with fewer nodes."
    return drawing + (tag("p", words, class_="key") if left else Markup(""))


def _drawing(split: Split, layer: Sequence[int], lanes: Sequence[int], width: int) -> Markup:
    left, right = (150.0, 8.0) if width > NARROW else (88.0, 4.0)
    row = 34.0 if len(lanes) <= 12 else 22.0 if len(lanes) <= 24 else 14.0
    inner = width - left - right
    deepest = max(layer, default=0) + 1
    columns = max(min(int(inner) // BAR, deepest), 1)
    step = inner / columns
    lane = {device: i for i, device in enumerate(lanes)}
    bins = [(lane.get(device, -1), at * columns // deepest) for at, device in zip(layer, split.device, strict=True)]
    heights = Counter(bins)
    tallest = max(heights.values(), default=1)

    def middle(bin_: Bin) -> tuple[float, float]:
        return left + step * (bin_[1] + 0.5), row * (bin_[0] + 0.5) + 4

    parts = [_lines(split.edges, bins, middle)]
    for device, i in lane.items():
        found = {column: number for (other, column), number in heights.items() if other == i}
        parts.append(_lane(split, device, i, found, (left, row, step, tallest), width))
    foot = row * len(lanes) + 4
    words = "from inputs to outputs of the graph" if width > NARROW else "inputs to outputs"
    parts.append(text(words, left + inner / 2, foot + 16, class_="axis", text_anchor="middle"))
    label = f"{count(len(split.nodes), 'node')} on {count(len(lanes), 'device')}"
    return charts.svg(width, round(foot + 22), label, parts)


def _lane(
    split: Split, device: int, i: int, heights: dict[int, int], frame: tuple[float, float, float, int], width: int
) -> Markup:
    left, row, step, tallest = frame
    y = row * (i + 0.5) + 4
    of = split.devices[device]
    words = title(of, sum(heights.values()))
    path = []
    for column, number in sorted(heights.items()):
        tall = max((row - 5) * (number / tallest) ** 0.5, 1.4)
        path.append(f"M{left + step * (column + 0.5):.1f} {y - tall / 2:.1f}v{tall:.1f}")
    name = printable(of.name)
    name = shorten(name, 20) if width > NARROW else shorten(name.replace("accelerator ", "accel. "), 11)
    style = f"lane cpu{'' if i % 2 else ' odd'}" if of.cpu else f"lane{'' if i % 2 else ' odd'}"
    hit = tag("rect", class_="hit", x=0, y=y - row / 2, width=width, height=row)
    base = tag("line", class_="strip", x1=left, x2=float(width), y1=y, y2=y)
    bars = tag("path", d="".join(path), stroke_width=max(step - 0.8, 1.0))
    label = text(name, left - 10, y + 4.5, class_="name", text_anchor="end")
    return tag("g", tooltip(words), hit, base, bars, label, class_=style)


def _lines(edges: Edges, bins: Sequence[Bin], middle: Callable[[Bin], tuple[float, float]]) -> Markup:
    """Lines between the bars of different lanes."""
    ends = ((bins[u], bins[v]) for u, v in edges)
    pairs = Counter((a, b) for a, b in ends if a[0] != b[0] and min(a[0], b[0]) >= 0)
    path = []
    for (a, b), _ in sorted(pairs.items(), key=lambda item: (-item[1], item[0]))[:MAX_LINES]:
        (x, y), (to, down) = middle(a), middle(b)
        path.append(f"M{x:.0f} {y:.0f}L{to:.0f} {down:.0f}")
    return tag("path", d="".join(path), class_="across")
