"""Convergence of the contest winner's method with one weight per node and with one for all: Figures 6 and 8."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shardmark.leaderboard.report import HERE, PAPER, Axis, Line, Plot, Report, Section, Table
from shardmark.leaderboard.reproductions import Cell, Run
from shardmark.leaderboard.reproductions.intraop import _curves as convergence
from shardmark.leaderboard.reproductions.intraop._curves import WINNER, Case, Curve, Row, Settings

DEFAULTS = convergence.DEFAULTS

#: The published curves of each solver, and the names of lines.
SOLVERS = {WINNER: "nodes", "cfn-penalty-global": "global"}
LINES = {WINNER: "weights of nodes", "cfn-penalty-global": "one weight"}
FIGURES = (6, 8)


def plan(settings: Settings, folder: Path) -> list[Cell]:
    """The method with a weight for every node and with one for all, several seeds each."""
    return convergence.cells(settings, tuple(SOLVERS))


def report(settings: Settings, runs: list[Run]) -> Report:
    """Costs over time, instance by instance, and the published ones."""
    every = convergence.cases(settings, runs)
    return convergence.report(
        every,
        settings,
        _section,
        FIGURES,
        name="convergence",
        title="How soon are costs good?",
        about="Costs over time of the method that won the contest, with a weight for every node and with one weight "
        "for all, as its solutions reached the referee. The first solution of each run, which uses least memory, is "
        "left out.",
    )


def _section(title: str, told: Sequence[str], cases: Sequence[Case]) -> Section:
    table = Table(
        "First and last costs / the least known cost, and their times",
        [row for case in cases for row in _rows(case)],
        coarse=["first after, s", "within 1 % after, s", "last after, s"],
        note="Medians over the seeds; a published row is one seed. Within 1 %: time until the cost is within 1 % of "
        "the run's last cost.",
    )
    return Section(title, told, [table], [_plot(case) for case in cases])


def _rows(case: Case) -> list[Row]:
    """Two rows per solver, ours and the published one, if they exist."""
    rows = []
    for solver in SOLVERS:
        for whose, curves in ((HERE, list(case.curves(solver).values())), (PAPER, _published(case, solver))):
            if curves:
                rows.append({"instance": case.name, "solver": solver, "figures": whose, **_figures(case, curves)})
    return rows


def _published(case: Case, solver: str) -> list[Curve]:
    curve = convergence.record()[SOLVERS[solver]].get(case.entry.id)
    return [curve] if curve else []


def _figures(case: Case, curves: Sequence[Curve]) -> Row:
    firsts, lasts = [curve[0] for curve in curves if curve], [curve[-1] for curve in curves if curve]
    best = case.best or 1.0
    return {
        "runs": len(curves),
        "solved": len(firsts),
        "first after, s": convergence.median_of(time for time, _ in firsts),
        "first / best": convergence.median_of(cost / best for _, cost in firsts),
        "within 1 % after, s": convergence.median_of(convergence.settled(curve) for curve in curves),
        "last after, s": convergence.median_of(time for time, _ in lasts),
        "last / best": convergence.median_of(cost / best for _, cost in lasts),
    }


def _plot(case: Case) -> Plot:
    lines = []
    for colour, solver in enumerate(SOLVERS, 1):
        ours, spread = convergence.median_curve(case.curves(solver).values(), case.limit)
        distance = [(time, _distance(case, value)) for time, value in ours]
        shaded = [(time, _distance(case, low), _distance(case, high)) for time, low, high in spread]
        lines.append(Line(LINES[solver], distance, colour, shape="steps", spread=shaded))
        for curve in _published(case, solver):
            points = [(time, _distance(case, value)) for time, value in curve]
            points.append((case.entry.time_limit_s, points[-1][1]))
            lines.append(Line(f"{LINES[solver]}, published", points, colour, published=True, shape="steps"))
    dashed = " Dashed: as published, one seed." if any(line.published for line in lines) else ""
    return Plot(
        case.name,
        f"Median of the seeds; shaded: their range.{dashed}",
        Axis("seconds", logarithmic=True),
        Axis("cost above the least known", distances=True),
        [line for line in lines if line.points],
    )


def _distance(case: Case, cost: float) -> float:
    return cost / case.best - 1 if case.best else 0.0
