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
.shardmark { overflow-x: auto; }
.shardmark table { border-collapse: collapse; }
.shardmark .stages th, .shardmark .stages td { text-align: right; white-space: nowrap; padding: 2px 0 2px 14px; }
.shardmark .stages th:last-child, .shardmark .stages td:last-child { text-align: left; }
.shardmark th, .shardmark td { text-align: left; padding: 2px 14px 2px 0; background: none; }
.shardmark svg { display: block; margin-top: 8px; max-width: 100%; font-size: 12px; }
.shardmark svg text { fill: currentColor; }
.shardmark svg .grid, .shardmark svg .base { stroke: currentColor; stroke-opacity: 0.15; }
.shardmark svg .rule { stroke: currentColor; stroke-dasharray: 1 4; }
.shardmark { --s0: #98948c; --s1: #4a76d8; --s2: #b78a17; --s3: #1e9b93; --s4: #b84468; --s5: #7f55c4; --s6: #a8661c; }
.shardmark .narrow { display: none; }
@media (max-width: 600px) { .shardmark .wide { display: none; } .shardmark .narrow { display: block; } }
.shardmark .s0 { --c: var(--s0); } .shardmark .s1, .shardmark .cost { --c: var(--s1); }
.shardmark .s2, .shardmark .bound { --c: var(--s2); } .shardmark .s3 { --c: var(--s3); }
.shardmark .s4 { --c: var(--s4); } .shardmark .s5 { --c: var(--s5); } .shardmark .s6 { --c: var(--s6); }
.shardmark .series path { fill: none; stroke: var(--c); stroke-width: 2; }
.shardmark .series .lead, .shardmark .series .within { stroke-width: 1; }
.shardmark .series circle { fill: var(--c); }
.shardmark .mark.ring circle { fill: none; stroke: var(--c); stroke-width: 1.6; }
.shardmark .across { fill: none; stroke: currentColor; stroke-opacity: 0.4; stroke-width: 0.8; }
.shardmark .lane path { stroke: var(--s1); } .shardmark .lane.odd path { stroke: var(--s3); }
.shardmark .hit { fill: transparent; }
.shardmark .limit { stroke: currentColor; stroke-dasharray: 5 3; }
.shardmark .pass.forward { --c: var(--s1); } .shardmark .pass.backward { --c: var(--s3); }
.shardmark .pass.recomputation { --c: var(--s2); } .shardmark .pass.sync { --c: var(--s5); }
.shardmark rect.pass { fill: var(--c); } .shardmark path.pass { fill: none; stroke: var(--c); }
.shardmark rect.idle { fill: currentColor; fill-opacity: 0.08; }
.shardmark svg .inside { fill: #fff; font-size: 10px; }
.shardmark .legend { display: flex; flex-wrap: wrap; gap: 2px 16px; margin: 4px 0; padding: 0; list-style: none; }
.shardmark .legend li { display: flex; align-items: center; gap: 6px; }
.shardmark .legend svg { margin: 0; }
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
