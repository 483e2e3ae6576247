"""The convergence chart of an instance: costs and bounds of its runs over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from shardmark.harness.records.best import RECORDS
from shardmark.harness.results.ranking.cases import KNOWN
from shardmark.leaderboard import charts
from shardmark.leaderboard.charts import Curve, Rule, tag
from shardmark.leaderboard.pages.axes import times
from shardmark.leaderboard.pages.site import Site
from shardmark.leaderboard.pages.tracks import Division, Row
from shardmark.leaderboard.text import count, exact, seconds

FARTHEST = 9.0  # distance to the best cost at which the axis ends, 10 times that cost, unless every run ends beyond


def convergence(site: Site, division: Division, instance: Row, published: Row, runs: Sequence[Row]) -> Markup | None:
    """Incumbents from above and trusted bounds from below over time, relative to the best cost if there is one."""
    best = instance["best_cost"]
    relative = best is not None and best > 0

    def place(value: float) -> float:
        return value / best - 1 if relative else value

    runs = sorted(runs, key=lambda run: run["kind"] == "bound")  # draws solvers on top
    trusted = sorted((run for run in runs if run["bound_trusted"]), key=lambda run: -run["lower_bound"])
    events = [t for run in runs for t, _ in (*site.found[run["id"]], *site.proved[run["id"]])]
    if not events:
        return None
    x = times(events, max(run["timeout_s"] for run in runs))
    leaders = {solver for solver, style in division.colours.items() if style != "s0"} | {site.newest[division.track]}
    costs = _run_curves(division, runs, site.found, place, x.high, leaders, bounds=False)
    ends = [line.points[-1][1] for line in costs]
    most = max(FARTHEST, 10 * min(ends, default=0.0)) if relative else math.inf
    lines = [line for line, end in zip(costs, ends, strict=True) if end <= most]
    best_bound = {run["solver"] for run in trusted[:1]}
    lines += _run_curves(division, trusted, site.proved, place, x.high, best_bound, bounds=True)
    rules = _known_before(instance, published, place)
    y = _heights(lines, [rule.value for rule in rules], relative, most)
    bound = instance["lower_bound"]
    open_gap = best is not None and bound is not None and not instance["proven"]
    band = (place(bound), place(best), "the optimum lies here") if open_gap else None
    y_axis = "distance to the best known cost" if relative else "cost"
    chart = charts.figure(lines, x, y, ("time since the start", y_axis), rules=rules, band=band)
    return chart + _beyond(costs, lines)


def _beyond(costs: Sequence[Curve], drawn: Sequence[Curve]) -> Markup:
    """A sentence on the solvers that are not drawn because all their runs end beyond the axis."""
    left = len({line.solver for line in costs} - {line.solver for line in drawn})
    words = f"Beyond the axis, at many times the best cost: {count(left, 'solver')}."
    return tag("p", words, class_="key") if left else Markup("")


def _known_before(instance: Row, published: Row, place: Callable[[float], float]) -> list[Rule]:
    """Return the published best cost and bound, and those of the record if nothing that was published is as good.

    A record whose bound meets its cost is one line, as two labels in one place cannot be read.
    """
    rules: list[Rule] = []
    recorded: list[str] = []
    for what, key in (("best", "best_cost"), ("bound", "lower_bound")):
        holders = instance[f"{what}_by"]
        if published.get(key) is not None:
            words = f"{'known' if KNOWN in holders else 'published'} {what}"
            rules.append(Rule(place(float(published[key])), words, f"{words}: {exact(str(published[key]))}"))
        if RECORDS in holders and not {"published", KNOWN} & set(holders):
            recorded.append(what)
            words = f"{what} of the records"
            rules.append(Rule(place(instance[key]), words, f"{words}: {exact(instance[f'{key}_exact'])}"))
    if len(recorded) == 2 and instance["proven"]:
        words = "record, proven optimal"
        rules = [rule for rule in rules if not rule.label.endswith("of the records")]
        rules.append(Rule(place(instance["best_cost"]), words, f"{words}: {exact(instance['best_cost_exact'])}"))
    return rules


def _heights(lines: Sequence[Curve], more: Sequence[float], relative: bool, most: float) -> charts.Scale:
    """Scale of a convergence chart: it covers everything drawn up to ``most``; first incumbents may lie beyond."""
    values = [*more, *(value for line in lines for _, value in line.points)]
    low, high = min(values), max(values)
    if not relative:
        return charts.amounts(min(low, 0.0), high if high > 0 else 1.0)
    return charts.gaps(max(1.5 * min(low, 0.0), -1.0), max(1.5 * min(high, most), 0.002))


def _run_curves(
    division: Division,
    runs: Sequence[Row],
    reports: Mapping[str, Any],
    place: Any,
    until: float,
    leaders: Collection[str | None],
    *,
    bounds: bool,
) -> list[Curve]:
    """One curve per run, in the order of the runs; the first of each of the ``leaders`` has its name as label."""
    lines: list[Curve] = []
    named: set[str] = set()
    for run in runs:
        reported = reports[run["id"]]
        if not reported:
            continue
        solver, style = run["solver"], division.colours.get(run["solver"], "s0")
        last = exact(run["lower_bound_exact"] if bounds else run["cost_exact"])
        what = "lower bound" if bounds else "cost"
        name = f"{solver} bound" if bounds and run["kind"] == "solver" else solver
        lines.append(
            Curve(
                title=f"{solver}, seed {run['seed']}: {what} {last} after {seconds(reported[-1][0])} s",
                points=[(time_s, place(value)) for time_s, value in reported],
                until=until,
                style=f"{style} bound" if bounds else style,
                label=name if solver in leaders and solver not in named else "",
                marks=style != "s0",
                solver=solver,
            )
        )
        named.add(solver)
    return lines
