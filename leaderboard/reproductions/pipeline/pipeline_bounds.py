"""Lower bounds relative to the best partition: Tables 1 and 3 of the paper, 2 and 5 of its preprint."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from shardmark.leaderboard.report import HERE, PAPER, Axis, Line, Plot, Report, Section, Table
from shardmark.leaderboard.reproductions import Cell, Run
from shardmark.leaderboard.reproductions.pipeline import _shared as archer
from shardmark.leaderboard.reproductions.pipeline._shared import (
    HIERARCHY,
    OURS,
    SAME,
    SEARCHES,
    STAGES,
    Cases,
    Row,
    Settings,
)

DEFAULTS = Settings(
    seed=0, graphs=4, models=2, costs_from="all", stages=STAGES, bounds=OURS, timeout=2.0, bound_timeout=2.0
)

#: The relaxation without the order and the one without the tensors; only the preprint has them.
HALVES = ("bottleneck-no-dag", "bottleneck-no-cut-io")
ALL = "all bounds"

Mean = Callable[[str, int], float | None]


def plan(settings: Settings, folder: Path) -> list[Cell]:
    """Searches for the best partition, and all bounds, the paper's and ours."""
    first, *others = archer.ladder(settings)
    return archer.cells(settings, folder, SEARCHES, tuple(dict.fromkeys((first, *HALVES, *others))))


def report(settings: Settings, runs: list[Run]) -> Report:
    """Means of bound / best partition, the share of the gap that bounds close, and the best bound of each graph."""
    cases = archer.by_case(runs)
    whole = {case: found for case, found in cases.items() if _has_fractions(found)}
    return archer.report(
        settings,
        cases,
        [_section(group, settings, of_group) for group, of_group in archer.groups(whole)],
        archer.remarks(runs, [case for case in cases if case not in whole]),
        name="pipeline-bounds",
        title="How close do lower bounds come?",
        about="Lower bounds as fractions of the best partition found, the least cost of all runs on the graph.",
    )


def _has_fractions(found: dict[str, Run]) -> bool:
    """Return True if a case has a positive cost and a positive simple bound, as fractions and means need."""
    return (best_cost(found) or 0) > 0 and (bound_of(found, "simple") or 0) > 0


def best_cost(found: dict[str, Run]) -> float | None:
    """The least cost of all runs on a case."""
    return min((run.cost for run in found.values() if run.cost is not None), default=None)


def bound_of(found: dict[str, Run], *methods: str) -> float | None:
    """The greatest bound of some methods on a case."""
    bounds = [run.bound for method in methods if (run := found.get(method)) and run.bound is not None]
    return max(bounds, default=None)


def _section(group: str, settings: Settings, cases: Cases) -> Section:
    ladder = archer.ladder(settings)
    mean = partial(fraction, cases, ladder)
    gain = partial(_gain, cases)
    tables = [
        Table(
            f"Best bound so far / best partition (geometric means), and {archer.where('bounds', group)}",
            archer.comparison("bounds down to", ladder, "bounds", group, settings, mean),
            note="Each row has the best bound of its method and all methods above it, as in the paper.",
        ),
        Table(
            "Share of the gap between simple and the best partition that is closed, %",
            _closed(group, settings, cases),
            digits=0,
            note="From the geometric means above: (best bound − simple) / (1 − simple).",
        ),
        Table(
            f"Each bound alone / simple (geometric means), and {archer.where('gains', group)}",
            archer.comparison("bound", tuple(dict.fromkeys((*HALVES, *ladder[1:]))), "gains", group, settings, gain),
            digits=3,
        ),
        Table(
            "Number of graphs on which each bound is best, and median seconds to its last improvement there",
            _winners(cases, settings),
            digits=1,
            note="Of equal bounds, only the one listed first counts.",
        ),
    ]
    return Section(archer.GROUPS[group], [archer.STANDS_FOR[group]], tables, [_plot(group, settings, mean)])


def fraction(cases: Cases, ladder: tuple[str, ...], method: str, stages: int) -> float | None:
    """Geometric mean of (best bound of a ladder down to a method / best partition)."""
    down_to = ladder[: ladder.index(method) + 1]
    there = [found for case, found in cases.items() if case.stages == stages]
    return archer.geometric_mean([(bound_of(found, *down_to) or 0) / (best_cost(found) or 1) for found in there])


def _gain(cases: Cases, method: str, stages: int) -> float | None:
    """Geometric mean of (bound of a method / simple bound) over the cases in which it has one."""
    there = [found for case, found in cases.items() if case.stages == stages]
    bounds = [(bound_of(found, method), bound_of(found, "simple")) for found in there]
    return archer.geometric_mean([bound / simple for bound, simple in bounds if bound and simple and bound > 0])


def _closed(group: str, settings: Settings, cases: Cases) -> list[Row]:
    """Tabulate the gap that the paper's programs close, each bound by itself and all together."""
    ladder = archer.ladder(settings)
    all_of, theirs = partial(fraction, cases, ladder), partial(archer.printed, "bounds", group)
    rows: list[tuple[str, str, Mean, str]] = [("the paper's programs", HERE, all_of, "exact")]
    rows.append(("the paper's programs", PAPER, theirs, "exact"))
    alone = [(f"{m} alone", HERE, partial(fraction, cases, (ladder[0], m)), m) for m in ladder[len(HIERARCHY) - 1 :]]
    rows += [*alone, (ALL, HERE, all_of, ladder[-1])]
    return [
        archer.row("bounds", name, whose, settings, partial(share, figure, last)) for name, whose, figure, last in rows
    ]


def share(figure: Mean, last: str, stages: int) -> float | None:
    simple, best = figure("simple", stages), figure(last, stages)
    return 100 * (best - simple) / (1 - simple) if simple and best and simple < 1 - SAME else None


def _winners(cases: Cases, settings: Settings) -> list[Row]:
    """Two rows per method: how often its bound is the best, and the median time of its last improvement then."""
    ladder = archer.ladder(settings)
    won: dict[tuple[str, int], list[float]] = {}
    for case, found in cases.items():
        enough = (bound_of(found, *ladder) or 0) * (1 - SAME)
        winner = next(method for method in ladder if (bound_of(found, method) or -1) >= enough)
        won.setdefault((winner, case.stages), []).append(found[winner].bound_s or 0.0)
    rows = []
    for method in ladder:
        times = {k: won.get((method, k), []) for k in settings.stages}
        rows.append({"bound": method, "figures": "graphs", **{f"k={k}": len(found) for k, found in times.items()}})
        middle = {f"k={k}": median(found) if found else None for k, found in times.items()}
        rows.append({"bound": method, "figures": "seconds", **middle})
    return rows


def _plot(group: str, settings: Settings, mean: Mean) -> Plot:
    stages = settings.stages

    def line(name: str, colour: int, figure: Mean, method: str, *, published: bool = False) -> Line:
        points = [(k, value) for k in stages if (value := figure(method, k)) is not None]
        return Line(name, points, colour, published)

    lines = [line(ALL, 4, mean, archer.ladder(settings)[-1])]
    for colour, method in zip((1, 3, 2, 0), reversed(HIERARCHY), strict=True):
        lines.append(line(method, colour, mean, method))
        theirs = partial(archer.printed, "bounds", group)
        lines.append(line(f"{method}, published", colour, theirs, method, published=True))
    return Plot(
        "Best bound so far / best partition",
        "The best partition is at 1. Dashed: as published.",
        Axis("stages", logarithmic=True, at=stages),
        Axis("bound / best partition"),
        lines,
    )
