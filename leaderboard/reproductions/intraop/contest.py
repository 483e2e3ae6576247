"""Costs of the contest's teams, XLA and our solvers within its time limits: Table 4 of the winner's paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shardmark.harness.results import published
from shardmark.leaderboard.report import HERE, PAPER, Report, Section, Strips, Table
from shardmark.leaderboard.reproductions import Cell, Run
from shardmark.leaderboard.reproductions._frame import percent_above, ratio
from shardmark.leaderboard.reproductions.intraop import _shared as contest
from shardmark.leaderboard.reproductions.intraop._shared import ALL, Case, Row, Settings

DEFAULTS = Settings(seed=0, instances=ALL, solvers=("cfn-native", "cfn-penalty"), percent=100)


def plan(settings: Settings, folder: Path) -> list[Cell]:
    """Every solver on every instance with a file, within the contest's time limit."""
    return contest.cells(settings)


def report(settings: Settings, runs: list[Run]) -> Report:
    """Costs, the contest's scores, and details of our runs."""
    every = contest.cases(settings, runs)
    return contest.report(
        every,
        settings,
        [_costs(every, settings), _scores(every, settings), *_ours(every, settings)],
        runs,
        name="contest",
        title="Who finds the cheapest strategies?",
        about="The instances of the ASPLOS / EuroSys 2025 contest on intra-operator parallelism: what its best teams "
        "and XLA found, as published, and what solvers of this project find under the referee. Published costs that "
        "include an infinite entry are left out.",
    )


def _found(case: Case, settings: Settings) -> dict[str, int | None]:
    """The costs of all participants, ours first, then those of Table 4."""
    theirs = {x.author.name: None if x.value is None else int(x.value) for x in published.contest_costs(case.entry.id)}
    return {**{name: case.cost(name) for name in settings.solvers}, **theirs}


def _costs(every: Sequence[Case], settings: Settings) -> Section:
    rows: list[Row] = [
        {
            "instance": case.name,
            "figures": contest.whose(case),
            "contest's limit, s": case.entry.time_limit_s,
            **_found(case, settings),
        }
        for case in every
    ]
    shown = [
        (case.name, [*contest.ours(settings.solvers, case.cost, case.best_bound), *contest.dots(case, case.best_bound)])
        for case in every
        if case.best_bound > 0
    ]
    picture = Strips(
        "Costs above the best lower bound",
        "At the left edge a cost is proven optimal. The bound is the best one known, published or proved here.",
        "cost above the best lower bound",
        "bound",
        shown,
    )
    table = Table(
        "Costs, and Table 4",
        rows,
        coarse=["contest's limit, s"],
        note="All digits; a dash if no feasible solution was found.",
    )
    return Section("Costs", [], [table], [picture] if shown else [])


def _scores(every: Sequence[Case], settings: Settings) -> Section:
    """The contest's scores, with our solvers as participants."""
    absent: Row = dict.fromkeys(settings.solvers)
    scores = [(case, _score(_found(case, settings)) | ({} if case.here else absent)) for case in every]
    here = [score for case, score in scores if case.here]
    rows: list[Row] = [{"instance": case.name, "figures": contest.whose(case), **score} for case, score in scores]
    each = Table("Score on each instance, and Table 4", rows, digits=3)
    note = "Geometric means leave out unsolved instances."
    points = Table(
        "Points on the instances run here", _points(here, settings), digits=3, as_printed=["printed, of 20"], note=note
    )
    words = [
        "The contest's rule: least cost of all / cost, 0 without a feasible solution, summed over the instances. Here "
        "XLA and our solvers take part. The last column has the points of the teams alone on the twenty instances that "
        "were not public."
    ]
    return Section("Scores of the contest", words, [points, each] if here else [each])


def _points(scores: Sequence[dict[str, float | None]], settings: Settings) -> list[Row]:
    """Sums over the instances that were run, and what was printed."""
    teams = [author.name for author in published.contestants()]
    printed = dict(zip(teams, published.figures()["points"]["printed"], strict=False))  # without XLA, the last one
    return [
        {
            "who": name,
            "figures": PAPER if name in teams else HERE,
            f"points of {len(scores)}": sum(score[name] or 0.0 for score in scores),
            "geometric mean": contest.geometric_mean(score[name] for score in scores),
            "printed, of 20": printed.get(name),
        }
        for name in (*settings.solvers, *teams)
    ]


def _score(found: dict[str, int | None]) -> dict[str, float | None]:
    """Least cost of all / cost, 0 without a cost."""
    least = min((cost for cost in found.values() if cost is not None), default=None)
    return {name: 0.0 if cost is None else ratio(least, cost) if cost else 1.0 for name, cost in found.items()}


def _ours(every: Sequence[Case], settings: Settings) -> list[Section]:
    """Compare our costs with the best ever published; empty if nothing ran."""
    rows = [_detail(case, name) for case in every for name in settings.solvers if name in case.runs]
    if not rows:
        return []
    words = [
        "The best published cost is the least by the teams, by XLA, by the winner after the contest, or during the "
        "computation of the published bounds (up to 72 hours). First and last: time of the first feasible and of the "
        "best solution, in percent of the solver's time limit."
    ]
    table = Table(
        "Ours, run by run",
        rows,
        digits=4,
        coarse=["first, %", "last, %", "seconds"],
        note="Gap: cost / greatest known bound − 1; the run's own bound counts too.",
    )
    return [Section("Ours against the best published", words, [table])]


def _detail(case: Case, name: str) -> Row:
    run, cost = case.runs[name], case.cost(name)
    best = published.best_cost(case.entry.id)
    limit = run.cell.timeout_s
    return {
        "instance": case.name,
        "solver": name,
        "cost": cost,
        "best published": case.best_published,
        "by": best.author.name if best else None,
        "cost / best published": ratio(cost, case.best_published),
        "gap, %": percent_above(cost, case.best_bound),
        "first, %": 100 * run.costs[0][0] / limit if run.costs else None,
        "last, %": 100 * run.costs[-1][0] / limit if run.costs else None,
        "seconds": run.wall_s,
        "status": run.status,
    }
