"""Published results of others on instances of a track: rows and a chart of their own, never ranked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from shardmark.leaderboard import charts
from shardmark.leaderboard.charts import Mark, Strip, tag
from shardmark.leaderboard.text import page_of, times

if TYPE_CHECKING:
    from shardmark.leaderboard.pages.tracks import Division

Row = dict[str, Any]
LABEL = "published, not run here"
SCALE = "The scale is cost / {zero} − 1, linear within 0.01 % and logarithmic beyond; 2× is twice as much."
#: Shape and legend of published marks, by the role of their author; `OTHERS` for any other role.
MARKS = {
    "winner": ("target", "winner of the contest"),
    "compiler": ("cross", "XLA"),
    "bound": ("ring", "best lower bound"),
    "paper": ("ring", "the paper"),
}
OTHERS = ("ring", "others")
BOUND = "bound"  # the value that costs are compared with


def summary(rows: Sequence[Row]) -> list[Row]:
    """One row per author: number of instances, distance from our best cost, and how often theirs is better."""
    names = dict.fromkeys(row["who"] for row in rows if row["kind"] == "cost")
    return [_author([row for row in rows if row["who"] == name and row["kind"] == "cost"]) for name in names]


def _author(rows: Sequence[Row]) -> Row:
    ratios = [row["of_cost"] for row in rows if row["of_cost"] and row["of_cost"] > 0]
    return {
        **{key: rows[0][key] for key in ("who", "about", "made")},
        "instances": len(rows),
        "solved": sum(row["value"] is not None for row in rows),
        "of_cost": geometric_mean(ratios) if ratios else None,
        "better": sum(row["better"] for row in rows),
        "contradicted": sum(row["contradicted"] for row in rows),
    }


@dataclass(frozen=True)
class Comparison:
    """An instance with its published costs (in the order of `summary`) and bound, and our runs with a cost."""

    instance: Row
    costs: Sequence[Row]
    bound: Row | None
    runs: Sequence[Row]

    @property
    def here(self) -> tuple[str | None, float | None]:
        """The least cost of the runs, as text and float."""
        least = min(self.runs, key=itemgetter("cost"), default={"cost_exact": None, "cost": None})
        return least["cost_exact"], least["cost"]


def comparisons(
    instances: Iterable[Row], published: Mapping[str, Sequence[Row]], runs: Mapping[str, Sequence[Row]]
) -> list[Comparison]:
    """Return the instances with published results; ``published`` and ``runs`` are by instance."""
    found = []
    for instance in instances:
        rows = published[instance["instance"]]
        if rows:
            costs = [row for row in rows if row["kind"] == "cost"]
            bound = next((row for row in rows if row["kind"] == "bound"), None)
            solved = [run for run in runs[instance["instance"]] if run["cost"] is not None]
            found.append(Comparison(instance, costs, bound, solved))
    return found


def chart(division: Division, rows: Iterable[Comparison]) -> Markup | None:
    """Published costs and ours above the greatest lower bound of each instance; None without any."""
    found = [_strip(division, row) for row in rows if row.instance["lower_bound"]]
    shown = [strip for strip in found if strip.marks]
    return draw(shown, "cost above the best lower bound", BOUND) if shown else None


def draw(found: Sequence[Strip], axis: str, zero: str, wide: int = charts.WIDE) -> Markup:
    """Strips of relative distances from the value named ``zero``, with a legend."""
    values = [mark.value for strip in found for mark in strip.marks]
    low, high = min([0.0, *values]), max([0.0, *values])
    scale = charts.gaps(max(1.3 * low, -1.0), max(1.3 * high, 0.0 if low < 0 else 0.01), zero)
    drawn = charts.responsive(lambda width: charts.strips(found, scale, width, axis), wide)
    return drawn + charts.key(found) + tag("p", escape(SCALE.format(zero=zero)), class_="key")


def _strip(division: Division, row: Comparison) -> Strip:
    """Our solvers that have a colour, each with its best seed, and the published costs."""
    name, bound = row.instance["instance"], row.instance["lower_bound"]
    marks = []
    for solver, style in division.colours.items():
        costs = [run["cost"] for run in row.runs if run["solver"] == solver]
        if costs and style != "s0":
            marks.append(mark(solver, min(costs) / bound - 1, "", style, name, BOUND))
    shown = [x for x in row.costs if x["value"] is not None and x["role"] != "later"]
    marks += [mark(x["who"], x["value"] / bound - 1, x["role"], "s0", name, BOUND) for x in shown]
    return Strip(name, "../" + page_of("instances", division.track, name), marks)


def mark(name: str, distance: float, role: str, style: str, where: str, zero: str) -> Mark:
    """The mark of a value at its distance from the one named ``zero``; ``role`` is empty for our values."""
    what = f"{name} on {where}: {times(1 + distance)} times the {zero}"
    if not role:
        return Mark(name, distance, what, style)
    shape, words = MARKS.get(role, OTHERS)
    return Mark(f"{words}, {LABEL}", distance, f"{what}, {LABEL}", style, shape)
