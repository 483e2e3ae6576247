"""Running times of slicing and lower bounds against graph size: Figures 4 and 5 of the paper."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from shardmark.leaderboard.report import Axis, Line, Plot, Report, Section, Table
from shardmark.leaderboard.reproductions import Cell, Run
from shardmark.leaderboard.reproductions.pipeline import _shared as archer
from shardmark.leaderboard.reproductions.pipeline._shared import HIERARCHY, Cases, Row, Settings

DEFAULTS = Settings(seed=0, graphs=8, models=4, costs_from="all", stages=(4, 16, 64), timeout=5.0, bound_timeout=5.0)

SLICING = "random-1"
#: A run that computes almost nothing, for the time that starting takes.
NOTHING = "simple"
NAMES = {SLICING: "slicing one order", "brkga-10000": "slicing 10,000 orders"}
SEARCHES = tuple(NAMES)
BOUNDS = HIERARCHY[1:]


def plan(settings: Settings, folder: Path) -> list[Cell]:
    """One slicing, a genetic search over slicings, and the programs of the paper."""
    return archer.cells(settings, folder, SEARCHES, (NOTHING, *BOUNDS))


def report(settings: Settings, runs: list[Run]) -> Report:
    """Wall times by number of nodes, one plot per number of stages."""
    cases = archer.by_case(runs)
    times = [run.wall_s for run in runs]
    span = 0.8 * min(times, default=1.0), 1.25 * max(times, default=1.0)
    return archer.report(
        settings,
        cases,
        [_section(group, settings, of_group, span) for group, of_group in archer.groups(cases)],
        archer.remarks(runs, []),
        name="pipeline-times",
        title="How long do slicing and bounds take?",
        about="Wall time of whole runs as measured by the referee, including the start of the process and reading "
        "the graph: slicing itself takes less. Bounds end by themselves shortly before their limit.",
    )


def _section(group: str, settings: Settings, cases: Cases, span: tuple[float, float]) -> Section:
    rows = [_row(method, cases, settings) for method in (NOTHING, *SEARCHES, *BOUNDS)]
    told = archer.published()["times"][group]
    words = [archer.STANDS_FOR[group], f"{told['table']} has no numbers; the paper says: {told['words']}."]
    table = Table("Wall time in seconds: median and maximum", rows, digits=2)
    return Section(archer.GROUPS[group], words, [table], [_plot(k, cases, settings, span) for k in settings.stages])


def _times(method: str, cases: Cases, stages: int) -> list[tuple[float, float]]:
    """Nodes and seconds of the runs of a method."""
    return sorted(
        (case.nodes, found[method].wall_s) for case, found in cases.items() if case.stages == stages and method in found
    )


def _row(method: str, cases: Cases, settings: Settings) -> Row:
    row: Row = {"run": "start of a run (simple)" if method == NOTHING else NAMES.get(method, method)}
    for k in settings.stages:
        times = [seconds for _, seconds in _times(method, cases, k)]
        row[f"k={k}"], row[f"k={k}, longest"] = (median(times), max(times)) if times else (None, None)
    return row


def _plot(stages: int, cases: Cases, settings: Settings, span: tuple[float, float]) -> Plot:
    colours = {SLICING: 3, "brkga-10000": 2, "bottleneck": 6, "bottleneck-guess": 4, "exact": 1}
    lines = [
        Line(NAMES.get(method, method), _times(method, cases, stages), colour, shape="dots")
        for method, colour in colours.items()
    ]
    starts = [seconds for _, seconds in _times(NOTHING, cases, stages)]
    rules = [(median(starts), "start of a run")] if starts else []
    return Plot(
        f"k = {stages}",
        "Each point is a run on one graph.",
        Axis("nodes", logarithmic=True),
        Axis("wall time", logarithmic=True, unit=" s", span=span),
        [line for line in lines if line.points],
        [*rules, (settings.bound_timeout or 0.0, "limit of a bound")],
    )
