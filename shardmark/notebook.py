"""What a notebook shows of a result: a small table, and a chart of costs and lower bounds over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from markupsafe import Markup, escape

from shardmark.harness.results.records import Bound, Incumbent
from shardmark.leaderboard import charts
from shardmark.leaderboard.charts import Curve, Rule, Scale, tag

SIZE = charts.HALF, 260  # SVG user units
MARGIN = 0.06  # of the range of values, above and below it

STYLE = Markup("""<style>
.shardmark table { border-collapse: collapse; }
.shardmark th, .shardmark td { text-align: left; padding: 2px 14px 2px 0; background: none; }
.shardmark svg { display: block; margin-top: 8px; max-width: 100%; font-size: 12px; }
.shardmark svg text { fill: currentColor; }
.shardmark svg .grid, .shardmark svg .base { stroke: currentColor; stroke-opacity: 0.15; }
.shardmark svg .rule { stroke: currentColor; stroke-dasharray: 1 4; }
.shardmark svg .series path { fill: none; stroke: var(--line); stroke-width: 2; }
.shardmark svg .series .lead { stroke-width: 1; }
.shardmark svg .series circle { fill: var(--line); }
.shardmark svg .cost { --line: #2c58c5; }
.shardmark svg .bound { --line: #a57f11; }
</style>""")


def in_notebook(facts: Mapping[str, str], *pictures: Markup) -> str:
    """HTML with a table of facts and pictures below it."""
    rows = [tag("tr", tag("th", escape(name)), tag("td", escape(value))) for name, value in facts.items()]
    return str(tag("div", STYLE, tag("table", *rows), *pictures, class_="shardmark"))


def chart(
    incumbents: Iterable[Incumbent], bounds: Iterable[Bound], wall_s: float, rules: Mapping[str, float]
) -> Markup:
    """A chart of the best cost and greatest bound over time in seconds; empty if there were no reports.

    ``rules``  values of dashed reference lines, by their labels
    """
    costs = best_so_far(((x.time_s, x.cost) for x in incumbents if x.feasible and x.cost is not None), min)
    proven = best_so_far(((x.time_s, x.value) for x in bounds), max)
    if not costs and not proven:
        return Markup("")
    until = max(wall_s, costs[-1][0] if costs else 0.0, proven[-1][0] if proven else 0.0)
    lines = [
        Curve(f"{words} {value:g}", points, until, style, words, marks=True)
        for words, style, points in (("cost", "cost", costs), ("lower bound", "bound", proven))
        for _, value in points[-1:]
    ]
    values = [value for _, value in costs + proven] + list(rules.values())
    x = charts.linear(0.0, until)
    drawn = [Rule(value, words, words) for words, value in rules.items()]
    return charts.curves(lines, x, scale(min(values), max(values)), SIZE, ("seconds", "cost"), rules=drawn)


def best_so_far(
    reported: Iterable[tuple[float, int | float]], best: Callable[[int | float, int | float], int | float]
) -> list[tuple[float, float]]:
    """Time and value of each report that is better than all earlier ones."""
    found: list[tuple[float, int | float]] = []
    for time_s, value in reported:
        if not found or best(value, found[-1][1]) != found[-1][1]:
            found.append((time_s, value))
    return [(time_s, float(value)) for time_s, value in found]


def scale(low: float, high: float) -> Scale:
    """An axis for values from low to high, with a margin; logarithmic if they differ by a factor of ten or more."""
    if 0 < low < high / 10:
        return charts.logarithmic(low / 1.2, high * 1.2)
    margin = MARGIN * (high - low) or MARGIN * abs(high) or 1.0
    return charts.linear(low - margin, high + margin)
