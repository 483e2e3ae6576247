"""Gaps between costs and proven bounds, published and ours: Table 5 of the winner's paper."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from shardmark.harness.results import published
from shardmark.harness.results.claims import quotient
from shardmark.leaderboard.report import Dot, Report, Section, Strips, Table
from shardmark.leaderboard.reproductions import Cell, Run
from shardmark.leaderboard.reproductions._frame import percent_above, ratio
from shardmark.leaderboard.reproductions.intraop import _shared as contest
from shardmark.leaderboard.reproductions.intraop._shared import ALL, Case, Row, Settings

DEFAULTS = Settings(
    seed=0,
    instances=ALL,
    solvers=("cfn-native",),
    bounds=("simple", "cfn-relaxed", "lagrange", "lp"),
    percent=100,
    bound_timeout=600.0,
)


def plan(settings: Settings, folder: Path) -> list[Cell]:
    """Every bound, and solvers that prove bounds, on every instance with a file."""
    return contest.cells(settings)


def report(settings: Settings, runs: list[Run]) -> Report:
    """Bounds, remaining gaps and times, by instance."""
    every = contest.cases(settings, runs)
    return contest.report(
        every,
        settings,
        [_bounds(every, settings), _gaps(every, settings), *_times(every, settings)],
        runs,
        name="contest-bounds",
        title="How close to the optimum?",
        about="Lower bounds of the contest's instances: the best published ones, from Gurobi and from Lagrangian "
        "relaxation within up to 72 hours, and those that methods of this project prove under the referee, with "
        "their gaps to the best known cost.",
    )


def methods(settings: Settings) -> list[str]:
    """Methods that have bounds: bound methods and solvers."""
    return [*(settings.bounds or ()), *settings.solvers]


def _bounds(every: Sequence[Case], settings: Settings) -> Section:
    rows: list[Row] = [
        {
            "instance": case.name,
            "figures": contest.whose(case),
            **{name: _number(case.bound(name)) for name in methods(settings)},
            "published": _number(case.bound_published),
            "best here / published": ratio(case.bound_here, case.bound_published),
        }
        for case in every
    ]
    note = "A bound refuted by a cost verified here is left out, and listed as a contradiction."
    table = Table("Lower bounds, and Table 5", rows, digits=4, coarse=["published", *methods(settings)], note=note)
    shown = [(case.name, _dots(case, settings)) for case in every if case.best > 0]
    picture = Strips(
        "Lower bounds below the best known cost",
        "At the right edge a bound proves the best known cost optimal.",
        "distance to the best known cost",
        "best",
        shown,
    )
    return Section("Bounds", [], [table], [picture] if shown else [])


def _number(bound: Fraction | None) -> int | float | None:
    """A bound for a table: an int if it is whole."""
    if bound is None:
        return None
    return bound.numerator if bound.denominator == 1 else float(bound)


def _dots(case: Case, settings: Settings) -> list[Dot]:
    """Ours on top, then the published bound."""
    theirs = Dot(published.BOUND, quotient(case.bound_published, case.best) - 1, role="bound")
    return [*contest.ours(methods(settings), case.bound, case.best), theirs]


def _gaps(every: Sequence[Case], settings: Settings) -> Section:
    words = [
        "Each bound / the best known cost: 1 proves optimality. The last columns have the remaining gap, cost / bound "
        "− 1: first for the runs alone (their least cost and greatest bound), then for everything known."
    ]
    rows = [_gap(case, settings) for case in every]
    note = "The winner's cost / the published bound is Table 5 as printed."
    table = Table("Lower bound / best known cost", rows, digits=5, as_printed=["winner's cost / published"], note=note)
    return Section("Gaps", words, [table])


def _gap(case: Case, settings: Settings) -> Row:
    return {
        "instance": case.name,
        "figures": contest.whose(case),
        **{name: ratio(case.bound(name), case.best) for name in methods(settings)},
        "published": ratio(case.bound_published, case.best),
        "winner's cost / published": published.figures()["cost_over_bound"][case.entry.id],
        "open here, %": percent_above(case.best_here, case.bound_here),
        "open, %": percent_above(case.best, case.best_bound),
    }


def _times(every: Sequence[Case], settings: Settings) -> list[Section]:
    """Seconds until each bound last rose; empty if nothing ran."""
    rows: list[Row] = [
        {
            "instance": case.name,
            **{name: run.bound_s if (run := case.runs.get(name)) else None for name in methods(settings)},
        }
        for case in every
        if case.here
    ]
    table = Table("Seconds to the last rise of each bound", rows, digits=1)
    return [Section("Times", [], [table])] if rows else []
