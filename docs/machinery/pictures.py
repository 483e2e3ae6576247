"""Draws the pictures of the tracks' pages from the examples on those pages, with the verifier's own figures.

``python docs/machinery/pictures.py`` writes them; a test compares. Colours follow the system's, light or dark.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

DOCS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(DOCS.parent)]

from shardmark import instances  # noqa: E402 the root of the project is on the path now
from shardmark.harness import verify  # noqa: E402
from shardmark.harness.verify.intraop import usage_profile  # noqa: E402
from shardmark.leaderboard.drawings import timeline_svg  # noqa: E402
from shardmark.plans.cluster.stages import Stage  # noqa: E402
from shardmark.plans.cluster.views import timeline  # noqa: E402

FILE = re.compile(r'^```json title="([^"]+)"\n(.*?)^```$', re.DOTALL | re.MULTILINE)
STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #1c1b19; } .soft { fill: #5f5c56; font-size: 12px; } .in { fill: #fff; }
.line { stroke: #8d897f; fill: none; } .limit { stroke: #9b1c31; stroke-width: 2; stroke-dasharray: 6 4; fill: none; }
.alarm { fill: #9b1c31; } .a { fill: #2c58c5; } .b { fill: #157a73; } .w { fill: #2c58c5; } .i { fill: #157a73; }
.o { fill: #8a6708; } .x { fill: #9b1c31; } .bad { stroke: #9b1c31; stroke-width: 2; fill: none; }
.good { stroke: #2c58c5; stroke-width: 3; fill: none; } .s { fill: #7a1f5c; }
@media (prefers-color-scheme: dark) { text { fill: #ecebe7; } .soft { fill: #a8a49c; } .in { fill: #10131a; }
.limit, .bad { stroke: #ff9aa8; } .alarm, .x { fill: #ff9aa8; } .a, .w { fill: #8aaef0; } .b, .i { fill: #57d0b8; }
.o { fill: #e5b84a; } .good { stroke: #8aaef0; } .s { fill: #e39ac9; } }
</style>"""
#: Colours of the passes.
PASSES = """<style>
.tick, .axis { fill: #5f5c56; font-size: 12px; } .grid, .hit { fill: none; } .base { stroke: #5f5c56; }
.inside { fill: #fff; font-size: 10px; } line.limit { stroke: #1c1b19; stroke-width: 1.5; }
.forward { fill: #2c58c5; } .recomputation { fill: #a57f11; } .backward { fill: #1e9b93; } .sync { fill: #4c1781; }
.idle { fill: #ece9e4; }
@media (prefers-color-scheme: dark) { .tick, .axis { fill: #a8a49c; } .base { stroke: #a8a49c; }
.inside { fill: #10131a; } line.limit { stroke: #ecebe7; } .idle { fill: #2a2926; }
.forward { fill: #8aaef0; } .recomputation { fill: #fec84c; } .backward { fill: #57ebd0; } .sync { fill: #9663d4; } }
</style>"""
ARROW = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 8 4 0 8z" fill="#8d897f"/></marker></defs>'
)
CLASSES = {"in": "i", "work": "w", "out": "o", "overflow": "x", "sync": "s"}  # of the style, by kind of time
DIAMOND = ((60, 100), (150, 45), (150, 155), (240, 100))  # places of the four nodes of an example


def examples(page: str) -> dict[str, Any]:
    """Return the files that a page shows, by name."""
    return {name: json.loads(text) for name, text in FILE.findall((DOCS / page).read_text(encoding="utf-8"))}


def example(page: str, file: str) -> Any:
    """Return an instance that a page shows."""
    return instances.parse(json.dumps(examples(page)[file]).encode(), file)


def picture(title: str, width: int, height: int, shapes: Iterable[str]) -> str:
    """Return an SVG document."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
    return "\n".join([head, f"<title>{escape(title)}</title>", STYLE, ARROW, *shapes, "</svg>\n"])


def text(x: float, y: float, words: object, kind: str = "", anchor: str = "middle") -> str:
    """Return a line of text; ``kind`` is a class of the style."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" class="{kind}">{escape(f"{words}")}</text>'


def box(x: float, y: float, width: float, height: float, kind: str) -> str:
    """Return a rectangle."""
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="2" class="{kind}"/>'


def diamond(names: Sequence[str], parts: Sequence[int], labels: Sequence[str]) -> list[str]:
    """Draw a diamond of four nodes, coloured by part; ``labels`` has one of each node's tensor."""
    shapes = []
    for u, v in ((0, 1), (0, 2), (1, 3), (2, 3)):
        (x, y), (z, w) = DIAMOND[u], DIAMOND[v]
        length = ((z - x) ** 2 + (w - y) ** 2) ** 0.5
        dx, dy = 20 * (z - x) / length, 20 * (w - y) / length
        shapes.append(
            f'<path class="line" marker-end="url(#tip)" d="M{x + dx:.1f} {y + dy:.1f}L{z - dx:.1f} {w - dy:.1f}"/>'
        )
        above = -8 if w < y or (w > y and v == 3) else 16
        shapes.append(text((x + z) / 2, (y + w) / 2 + (above if v != 3 else (-8 if u == 1 else 18)), labels[u], "soft"))
    for (x, y), name, part in zip(DIAMOND, names, parts, strict=True):
        shapes += [f'<circle cx="{x}" cy="{y}" r="18" class="{"ab"[part]}"/>', text(x, y + 5, name, "in")]
    return shapes


def bars(left: float, rows: Sequence[tuple[str, Sequence[tuple[str, float]]]], scale: float) -> list[str]:
    """Draw a stacked bar per row: its name, and the class and length of each piece that has a length."""
    shapes = []
    for i, (name, pieces) in enumerate(rows):
        y, x = 42 + 70 * i, left
        shapes.append(text(left, y - 8, f"{name}: {sum(length for _, length in pieces):g}", anchor="start"))
        for kind, length in pieces:
            if length:
                shapes.append(box(x, y, length * scale - 1, 26, kind))
                shapes.append(text(x + length * scale / 2, y + 18, f"{length:g}", "in"))
                x += length * scale
    return shapes


def legend(left: float, y: float, entries: Sequence[tuple[str, str]], step: float) -> list[str]:
    """Draw what the colours mean."""
    shapes = []
    for i, (words, kind) in enumerate(entries):
        shapes += [box(left + i * step, y - 10, 12, 12, kind), text(left + i * step + 17, y, words, "soft", "start")]
    return shapes


def load_pieces(instance: Any, split: Any) -> tuple[Sequence[float], list[tuple[str, list[tuple[str, float]]]]]:
    """Return the load of every part, and its name with what the load consists of, as `bars` draws it."""
    parts = verify.parts(instance, split)
    assert parts is not None
    rows = []
    for name, (times,) in zip(parts.names, parts.times, strict=True):
        rows.append((name, [(CLASSES[kind], time) for kind, time in times.items()]))
    return parts.loads, rows


def pipeline() -> str:
    """Draw the two stages of the diamond and what each pays."""
    instance, split = example("tracks/pipeline.md", "stages.json"), examples("tracks/pipeline.md")["halves.json"]
    loads, rows = load_pieces(instance, split)
    shapes = diamond(instance.node_names, split, [f"{size:g}" for size in instance.output_size])
    shapes += bars(300, rows, 34)
    end = 300 + 34 * max(loads)
    shapes.append(f'<path class="limit" d="M{end:g} 20V150"/>')
    shapes.append(text(end, 166, f"bottleneck {max(loads):g}", "alarm", "end"))
    shapes += legend(300, 192, [("tensors in", "i"), ("work", "w"), ("tensors out", "o"), ("overflow", "x")], 95)
    return picture("A diamond in two stages, and the load of each", 690, 204, shapes)


def placement() -> str:
    """Draw the diamond on two accelerators and what each pays."""
    page = "tracks/placement.md"
    instance, split = example(page, "graph.json"), examples(page)["pairs.json"]
    loads, rows = load_pieces(instance, split)
    shapes = diamond([f"{v}" for v in range(4)], split, [f"{time:g}" for time in instance.transfer])
    shapes += bars(300, rows, 34)
    end = 300 + 34 * max(loads)
    shapes.append(f'<path class="limit" d="M{end:g} 20V150"/>')
    shapes.append(text(end, 166, f"max-load {max(loads):g}", "alarm", "end"))
    shapes += legend(300, 192, [("transfers in", "i"), ("computation", "w"), ("transfers out", "o")], 120)
    return picture("A diamond on two accelerators, and the load of each", 690, 204, shapes)


def intraop() -> str:
    """Draw the memory of two choices over time, against the limit."""
    page = "tracks/intraop.md"
    instance = example(page, "strategies.json")
    shapes, scale, base = [], 14, 190
    shapes.append(f'<path class="line" d="M60 20V{base}H480"/>')
    for file, kind in (("cheapest.json", "bad"), ("fits.json", "good")):
        chosen = examples(page)[file]
        rows = [int(instance.strategy_start[v]) + s for v, s in enumerate(chosen)]
        path, x = f"M60 {base}", 60.0
        for begin, until, _, used in zip(*usage_profile(instance, instance.usage[rows]), strict=True):
            path += f"V{base - scale * used:g}H{60 + 130 * until:g}"
            y = base - scale * used + (-6 if kind == "bad" else 17)
            shapes.append(text(60 + 65 * (begin + until), y, used, "alarm" if kind == "bad" else ""))
            x = 60 + 130 * until
        shapes.append(f'<path class="{kind}" d="{path}V{base}"/>')
        y = 60 if kind == "bad" else 130
        cost = verify.verify(instance, chosen).cost
        shapes.append(text(x + 30, y, f"{chosen}: cost {cost}", "alarm" if kind == "bad" else "", "start"))
    level = base - scale * instance.usage_limit
    shapes += [f'<path class="limit" d="M60 {level}H480"/>', text(484, level + 4, "limit 7", "alarm", "start")]
    shapes += [text(125 + 130 * step, base + 18, f"step {step}", "soft") for step in range(3)]
    shapes.append(text(52, 30, "bytes", "soft", "end"))
    return picture("Memory in use over time of two choices of strategies", 640, 214, shapes)


def scheduling() -> str:
    """Draw when each vertex runs, and when tensors travel."""
    page = "tracks/scheduling.md"
    instance, schedule = example(page, "flow.json"), examples(page)["schedule.json"]
    times = verify.times(instance, schedule)
    assert times is not None
    shapes, scale, rows = [], 80, (40, 120)
    for d, name in enumerate(instance.device_names):
        shapes += [text(72, rows[d] + 22, name, anchor="end"), f'<path class="line" d="M80 {rows[d] + 38}H640"/>']
    for v, name in enumerate(instance.node_names):
        x, y = 80 + scale * times.start[v], rows[times.device[v]]
        width = scale * (times.finish[v] - times.start[v])
        shapes += [box(x, y, width - 1, 34, "ab"[times.device[v]]), text(x + width / 2, y + 22, name, "in")]
    for e, (u, v) in enumerate(zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), strict=True)):
        if times.device[u] != times.device[v]:
            down = times.device[v] > times.device[u]
            y, z = (76, 118) if down else (118, 76)
            begin, end = 80 + scale * times.finish[u], 80 + scale * times.arrival[e]
            shapes.append(f'<path class="line" marker-end="url(#tip)" d="M{begin:g} {y}L{end:g} {z}"/>')
    shapes += [text(80 + scale * t, 178, t, "soft") for t in range(7)]
    end = 80 + scale * max(times.finish)
    shapes += [
        f'<path class="limit" d="M{end:g} 24V164"/>',
        text(end, 18, f"makespan {max(times.finish):g}", "alarm", "end"),
    ]
    return picture("A schedule on two devices over time", 650, 186, shapes)


def hybrid() -> str:
    """Draw the replicas of each stage, what a microbatch takes, and what a device holds."""
    page = "tracks/hybrid.md"
    instance, plan = example(page, "layers.json"), examples(page)["plan.json"]
    loads, rows = load_pieces(instance, plan)
    stages = verify.stages(instance, plan)
    assert stages is not None
    shapes = []
    for i, replicas in enumerate(stages.data):
        layers = [v for v, stage in enumerate(plan["stage"]) if stage == i]
        for r in range(replicas):
            x, y = 10 + 100 * i, 42 + 45 * r
            shapes += [box(x, y, 84, 36, "ab"[i]), text(x + 42, y + 23, f"layers {', '.join(map(str, layers))}", "in")]
        shapes.append(text(52 + 100 * i, 24, f"stage {i}"))
    shapes += bars(240, [(f"{name}, time", pieces) for name, pieces in rows], 22)
    end = 240 + 22 * max(loads)
    shapes += [f'<path class="limit" d="M{end:g} 20V150"/>', text(end, 166, f"cost {max(loads):g}", "alarm", "end")]
    kinds = {"fixed": "w", "activations": "o"}
    held = [
        (f"memory, {y} in flight", [(kinds[k], b) for k, b in sizes.items() if b])
        for y, sizes in zip(stages.in_flight, stages.held, strict=True)
    ]
    shapes += bars(470, held, 12)
    end = 470 + 12 * instance.memory
    shapes += [
        f'<path class="limit" d="M{end:g} 20V150"/>',
        text(end, 166, f"{instance.memory:g} bytes", "alarm", "end"),
    ]
    shapes += legend(240, 192, [("in", "i"), ("work", "w"), ("out", "o"), ("sync", "s")], 55)
    shapes += legend(490, 192, [("state", "w"), ("activations", "o")], 70)
    return picture("Three layers in two stages, the time and the memory of each", 690, 204, shapes)


def clusters() -> str:
    """Draw the stages of the layout on the page over time; ``layout.json`` has them from its ``plan.json``."""
    plan = json.loads((DOCS / "machinery" / "layout.json").read_text(encoding="utf-8"))
    stages = [Stage(**stage, places=()) for stage in plan["stages"]]
    run = SimpleNamespace(microbatches=plan["microbatches"], training=True, objective="step")
    layout: Any = SimpleNamespace(stages=stages, run=run, cost_s=plan["cost_s"])
    drawn = timeline_svg.drawing(timeline.timeline(layout, timeline.simulated(layout)), 700)
    height = int(float(re.findall(r'height="([^"]+)"', str(drawn))[0]))
    shapes = [PASSES, re.sub(r"^<svg[^>]*>|</svg>$", "", str(drawn))]
    for i, (kind, words) in enumerate(timeline_svg.KINDS.items()):
        shapes += legend(20 + (0, 90, 300, 400)[i], height + 16, [(words, kind)], 0)
    return picture("A step of a layout under 1F1B", 700, height + 30, shapes)


PICTURES = {
    "clusters": clusters,
    "intraop": intraop,
    "pipeline": pipeline,
    "placement": placement,
    "scheduling": scheduling,
    "hybrid": hybrid,
}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (DOCS / "pictures" / f"{name}.svg").write_text(draw(), encoding="utf-8")
