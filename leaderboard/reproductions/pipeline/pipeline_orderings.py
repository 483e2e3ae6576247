"""Quality of topological orders under optimal slicing: Tables 1 and 4 of the preprint."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from shardmark.leaderboard.report import Axis, Line, Plot, Report, Section, Table
from shardmark.leaderboard.reproductions import Cell, Run
from shardmark.leaderboard.reproductions.pipeline import _shared as archer
from shardmark.leaderboard.reproductions.pipeline._shared import ORDERINGS, STAGES, Cases, Settings

DEFAULTS = Settings(seed=0, graphs=8, models=4, costs_from="all", stages=STAGES, timeout=3.0)

SEARCHES = (*ORDERINGS, "annealing")
#: The plot shows all others relative to this one.
YARDSTICK = "brkga-10000"


def plan(settings: Settings, folder: Path) -> list[Cell]:
    """Every search for an order, and our search for partitions."""
    return archer.cells(settings, folder, SEARCHES, ())


def report(settings: Settings, runs: list[Run]) -> Report:
    """Means of cost / simple bound; the best order has the least."""
    cases = archer.by_case(runs)
    whole = {case: found for case, found in cases.items() if all(_has_ratio(found.get(m)) for m in SEARCHES)}
    return archer.report(
        settings,
        cases,
        [_section(group, settings, of_group) for group, of_group in archer.groups(whole)],
        archer.remarks(runs, [case for case in cases if case not in whole]),
        name="pipeline-orderings",
        title="Which orders are worth slicing?",
        about="Topological orders, each sliced into stages optimally: cost / the simple lower bound (Lemma 3.3); "
        "less is better. The last row, annealing, searches partitions, not orders.",
    )


def _has_ratio(run: Run | None) -> bool:
    """Return True if a run has a cost and a positive simple bound to divide it by."""
    return run is not None and run.cost is not None and run.cell.problem.summary["simple_bound"] > 0


def _section(group: str, settings: Settings, cases: Cases) -> Section:
    ours = partial(_ratio, cases)
    table = Table(
        f"Cost / simple bound (geometric means), and {archer.where('orderings', group)}",
        archer.comparison("order", SEARCHES, "orderings", group, settings, ours),
        digits=3,
    )
    return Section(archer.GROUPS[group], [archer.STANDS_FOR[group]], [table], [_plot(group, settings, cases)])


def _ratio(cases: Cases, method: str, stages: int) -> float | None:
    """Geometric mean of cost / simple bound."""
    there = [found[method] for case, found in cases.items() if case.stages == stages]
    return archer.geometric_mean([(run.cost or 0) / run.cell.problem.summary["simple_bound"] for run in there])


def _plot(group: str, settings: Settings, cases: Cases) -> Plot:
    def line(method: str, colour: int, *, published: bool) -> Line:
        figure = partial(archer.printed, "orderings", group) if published else partial(_ratio, cases)
        pairs = [(k, figure(method, k), figure(YARDSTICK, k)) for k in settings.stages]
        points = [(k, 100 * (value / least - 1)) for k, value, least in pairs if value and least]
        return Line(f"{method}, published" if published else method, points, colour, published)

    shown = {"annealing": 4, "brkga-100": 1, "random-10000": 3, "random-100": 2, "random-1": 6}
    lines = [
        line(method, colour, published=published) for method, colour in shown.items() for published in (False, True)
    ]
    return Plot(
        f"How far from {YARDSTICK}",
        f"Geometric means of the cost, compared with those of {YARDSTICK}. Dashed: as published.",
        Axis("stages", logarithmic=True, at=settings.stages),
        Axis(f"cost above that of {YARDSTICK}", unit=" %"),
        [line for line in lines if line.points],
        [(0.0, YARDSTICK)],
    )
