"""Gain of greedy post-processing in the contest winner's method over time: Figures 9 and 10."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shardmark.leaderboard.report import HERE, PAPER, Axis, Line, Plot, Report, Section, Table
from shardmark.leaderboard.reproductions import Cell, Run
from shardmark.leaderboard.reproductions.intraop import _curves as convergence
from shardmark.leaderboard.reproductions.intraop._curves import WINNER, Case, Curve, Row, Settings

DEFAULTS = convergence.DEFAULTS

WITHOUT = "cfn-penalty-nopost"
FIGURES = (9, 10)


def plan(settings: Settings, folder: Path) -> list[Cell]:
    """The method with and without its post-processing, with the same seeds."""
    return convergence.cells(settings, (WINNER, WITHOUT))


def report(settings: Settings, runs: list[Run]) -> Report:
    """Plot the reduction in cost by post-processing over time."""
    every = convergence.cases(settings, runs)
    return convergence.report(
        every,
        settings,
        _section,
        FIGURES,
        name="postprocessing",
        title="How much does post-processing gain?",
        about="The method that won the contest, with and without the greedy pass over single nodes after each feasible "
        "solution: (cost without − cost with) / cost without, for the best solutions of two runs with the same seed "
        "at the same time. The first networks of the two are the same. The paper compares costs before and after the "
        "pass within one run, in which later weights depend on it.",
    )


def _section(title: str, told: Sequence[str], cases: Sequence[Case]) -> Section:
    table = Table(
        "Reduction of the cost, %",
        [row for case in cases for row in _rows(case)],
        digits=3,
        note="Medians over the seeds. First: the first solutions with and without post-processing, on one core from "
        "the same network; later columns are times of the run. A published row has medians over the first and a late "
        "round of one seed.",
    )
    plots = [_plot(cases)] if any(case.runs for case in cases) else []
    return Section(title, told, [table] if table.rows else [], plots)


def _pairs(case: Case) -> list[tuple[Curve, Curve]]:
    """Costs over time without and with post-processing, for every seed that has solutions of both."""
    full, without = case.curves(WINNER), case.curves(WITHOUT)
    return [(curve, full[seed]) for seed, curve in without.items() if curve and full.get(seed)]


def _rows(case: Case) -> list[Row]:
    """Our row and the published one, if they exist."""
    rows = []
    if case.runs:
        pairs = _pairs(case)
        curves = [convergence.difference(*pair) for pair in pairs]
        firsts = [convergence.reduction(without[0][1], full[0][1]) for without, full in pairs]
        at = {
            f"at {share} %": convergence.median_of(convergence.value_at(x, share / 100 * case.limit) for x in curves)
            for share in (25, 50, 100)
        }
        first = convergence.median_of(firsts)
        rows.append({"instance": case.name, "figures": HERE, "pairs of runs": len(pairs), "first": first, **at})
    printed = [convergence.record()["reduction"][when].get(case.entry.id) for when in ("first", "late")]
    if any(value is not None for value in printed):
        blank = {"at 25 %": None, "at 50 %": None, "at 100 %": printed[1]}
        rows.append({"instance": case.name, "figures": PAPER, "pairs of runs": 1, "first": printed[0], **blank})
    return rows


def _plot(cases: Sequence[Case]) -> Plot:
    lines = []
    for colour, case in enumerate(cases, 1):
        points, spread = convergence.median_curve([convergence.difference(*pair) for pair in _pairs(case)], case.limit)
        lines.append(Line(case.name, points, colour, shape="steps", spread=spread))
    return Plot(
        "Reduction over time",
        "Median of the seeds; shaded: their range. A line begins when all its runs have a solution.",
        Axis("seconds", logarithmic=True),
        Axis("reduction of the cost; below 0: worse with post-processing", unit=" %"),
        [line for line in lines if line.points],
        [(0.0, "without")],
    )
