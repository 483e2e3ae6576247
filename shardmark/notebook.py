"""Results as a small table, and in a notebook also as a chart of costs and lower bounds over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from markupsafe import Markup, escape

from harness.results.records import decimal
from leaderboard import charts
from leaderboard.charts import Curve, Rule, Scale, tag
from leaderboard.text import exact, percent, seconds
from shardmark.cli.terminal import pairs
from shardmark.outcomes import CheckResult, Cost, RunResult

SIZE = charts.HALF, 260  # SVG user units
MARGIN = 0.06  # of the range of values, above and below it
MOST_VIOLATIONS = 10

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


def text_of_run(run: RunResult) -> str:
    """The table of a run for a terminal."""
    return pairs(_facts_of_run(run))


def text_of_check(checked: CheckResult) -> str:
    """The table of a verdict for a terminal."""
    return pairs(_facts_of_check(checked))


def html_of_run(run: RunResult) -> str:
    """The table and the chart of a run."""
    rules = []
    if run.lower_bound is not None and run.bound_from != run.method:
        rules.append(_rule(run.lower_bound, f"lower bound ({run.bound_from})"))
    return in_notebook(_facts_of_run(run), chart(run, rules))


def html_of_check(checked: CheckResult) -> str:
    """The table of a verdict, and the chart of the method's run with the cost of the solution across it."""
    run, facts = checked.run, _facts_of_check(checked)
    if run is None or checked.cost is None:
        return in_notebook(facts)
    return in_notebook(facts, chart(run, [_rule(checked.cost, "this solution")]))


def _facts_of_check(checked: CheckResult) -> dict[str, str]:
    run = checked.run
    return {
        "instance": checked.instance,
        "solution": "feasible" if checked.feasible else "infeasible",
        **{f"violation {i + 1}": words for i, words in enumerate(checked.violations[:MOST_VIOLATIONS])},
        "cost": exact(decimal(checked.cost)),
        **_facts_of_bound(checked),
        **({} if run is None else {"method": f"{run.method}: {_ending(run)}"}),
    }


def _facts_of_run(run: RunResult) -> dict[str, str]:
    return {
        "instance": run.instance,
        "method": run.method,
        "status": _ending(run),
        "cost": exact(decimal(run.cost)),
        **_facts_of_bound(run),
        "time": f"{seconds(run.wall_s)} s",
        "memory": f"{run.peak_mib:,.0f} MiB",
    }


def _facts_of_bound(found: RunResult | CheckResult) -> dict[str, str]:
    whose = f" ({found.bound_from})" if found.bound_from else ""
    gap = "proven optimal" if found.optimal else percent(found.gap)
    bound = {"lower bound": f"{exact(decimal(found.lower_bound))}{whose}", "gap": gap}
    if found.best_known is None:
        return bound
    return bound | {"best known cost": f"{exact(decimal(found.best_known))} ({found.best_from})"}


def _ending(run: RunResult) -> str:
    return f"{run.status}: {run.reason}" if run.reason else run.status


def _rule(value: Cost, words: str) -> Rule:
    return Rule(float(value), words, words)


def in_notebook(facts: Mapping[str, str], *pictures: Markup) -> str:
    """A table of facts, and pictures below it."""
    rows = [tag("tr", tag("th", escape(name)), tag("td", escape(value))) for name, value in facts.items()]
    return str(tag("div", STYLE, tag("table", *rows), *pictures, class_="shardmark"))


def chart(run: RunResult, rules: Sequence[Rule] = ()) -> Markup:
    """The best cost and the greatest lower bound over time, with lines of reference; empty if nothing was reported."""
    costs = best_so_far(((x.time_s, x.cost) for x in run.incumbents if x.feasible and x.cost is not None), min)
    bounds = best_so_far(((x.time_s, x.value) for x in run.bounds), max)
    if not costs and not bounds:
        return Markup("")
    until = max(run.wall_s, costs[-1][0] if costs else 0.0, bounds[-1][0] if bounds else 0.0)
    lines = [
        Curve(f"{words} {value:g}", points, until, style, words, marks=True)
        for words, style, points in (("cost", "cost", costs), ("lower bound", "bound", bounds))
        for _, value in points[-1:]
    ]
    values = [value for _, value in costs + bounds] + [rule.value for rule in rules]
    x = charts.linear(0.0, until)
    return charts.curves(lines, x, scale(min(values), max(values)), SIZE, ("seconds", "cost"), rules=rules)


def best_so_far(
    reported: Iterable[tuple[float, Cost]], best: Callable[[Cost, Cost], Cost]
) -> list[tuple[float, float]]:
    """Time and value of each report that is better than all before it."""
    found: list[tuple[float, Cost]] = []
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
