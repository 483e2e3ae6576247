"""Common parts of the reproductions of the winner's Figures 6, 8, 9 and 10: sample, costs, published costs."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from shardmark.harness.campaign.problems import Problem
from shardmark.harness.results import published
from shardmark.instances import catalog
from shardmark.instances.catalog import Entry
from shardmark.leaderboard.report import Report, Section
from shardmark.leaderboard.reproductions import Cell, Run, Settings, _frame, entries_of, failures

FILE = Path(__file__).with_name("convergence2025.toml")
#: Instances that run in full if no requested one is at hand.
EMBEDDED = ("menus-150", "sharded-transformer-128", "sharded-resnet-152", "sharded-lstm-25")
#: The winner's method.
WINNER = "cfn-penalty"

Row = dict[str, Any]
Curve = Sequence[tuple[float, float]]


DEFAULTS = Settings(seed=0, seeds=1, instances=tuple(f"contest-{letter}" for letter in "AKLMRSFWXY"), percent=100)


@dataclass(frozen=True)
class Case:
    """An instance with its runs by solver; none if its file is missing."""

    entry: Entry
    runs: Mapping[str, Sequence[Run]]

    @property
    def name(self) -> str:
        """The name in tables."""
        return self.entry.id.removeprefix("contest-")

    @property
    def limit(self) -> float:
        """Time limit of a run here in seconds, else that of the contest."""
        return next((run.cell.timeout_s for runs in self.runs.values() for run in runs), self.entry.time_limit_s)

    @property
    def best(self) -> float:
        """The least cost of all runs here and the published ones."""
        costs = [run.cost for runs in self.runs.values() for run in runs if run.cost is not None]
        known = self.entry.published.get("best_cost")
        return min([*costs, *([float(known)] if known else [])], default=0.0)

    def curves(self, solver: str) -> dict[int, Curve]:
        """Time and cost of each better solution after the first, by seed.

        The first one of each run uses least memory and is not the solution of a network.
        """
        return {run.cell.seed: run.costs[1:] for run in self.runs.get(solver, ())}


def cells(settings: Settings, solvers: Sequence[str]) -> list[Cell]:
    """Every solver with every seed on every instance with a file."""
    return [
        Cell(problem, "solver", solver, _limit(entry, settings), settings.seed + i, entry.id)
        for entry, path in at_hand(settings)
        for problem in [Problem.of(entry, path)]
        for i in range(settings.seeds)
        for solver in solvers
    ]


def _limit(entry: Entry, settings: Settings) -> float:
    return entry.time_limit_s * (1.0 if entry.embedded else settings.percent / 100)


def at_hand(settings: Settings) -> list[tuple[Entry, Path]]:
    """The requested instances with a file and, if there are none, those that come with the project."""
    for entries in (entries_of(settings.instances, "intraop"), [catalog.find(name) for name in EMBEDDED]):
        found = [(entry, path) for entry in entries if (path := catalog.at_hand(entry)) is not None]
        if found:
            break
    return found


def cases(settings: Settings, runs: Iterable[Run]) -> list[Case]:
    """The requested instances, and those that ran instead."""
    found: dict[str, dict[str, list[Run]]] = {}
    for run in runs:
        found.setdefault(run.cell.about, {}).setdefault(run.cell.method, []).append(run)
    names = dict.fromkeys([*(entry.id for entry in entries_of(settings.instances, "intraop")), *found])
    return [Case(catalog.find(name), found.get(name, {})) for name in names]


def parts(every: Sequence[Case], figures: Iterable[int]) -> list[tuple[str, list[str], list[Case]]]:
    """Heading, quotations and instances per figure of the paper; then the instances of none."""
    found, others = [], list(every)
    for number in figures:
        figure = record()["figure"][str(number)]
        shown = [case for case in every if case.entry.id in figure["instances"]]
        others = [case for case in others if case not in shown]
        if shown:
            told = f"The plot has no numbers; the paper says of it: {figure['told']}."
            found.append((f"Figure {number}: {figure['of']}", [told], shown))
    return found + ([("Other instances", [], others)] if others else [])


def value_at(curve: Curve, time: float) -> float | None:
    """The value of a step function at a time, None before its first step."""
    return next((value for at, value in reversed(curve) if at <= time), None)


def median_curve(
    curves: Collection[Curve], until: float
) -> tuple[list[tuple[float, float]], list[tuple[float, float, float]]]:
    """Median and range of step functions, from the time when all have begun until ``until``."""
    times = sorted({at for curve in curves for at, _ in curve if at <= until} | {until})
    line, spread = [], []
    for time in times:
        values = [value for curve in curves if (value := value_at(curve, time)) is not None]
        if curves and len(values) == len(curves):
            line.append((time, float(median(values))))
            spread.append((time, min(values), max(values)))
    return line, spread


def settled(curve: Curve, within: float = 0.01) -> float | None:
    """Seconds until a falling curve comes within a fraction of its end."""
    if not curve:
        return None
    enough = curve[-1][1] * (1 + within)
    return next(time for time, value in curve if value <= enough)


def reduction(without: float, full: float) -> float:
    """(without - full) / without, in %."""
    return 100 * (without - full) / without if without else 0.0


def difference(without: Curve, full: Curve) -> Curve:
    """The reduction over time, from when both have begun."""
    times = sorted({time for time, _ in (*without, *full)})
    pairs = [(time, value_at(without, time), value_at(full, time)) for time in times]
    found = [(time, reduction(a, b)) for time, a, b in pairs if a is not None and b is not None]
    return [found[0], *(after for before, after in pairwise(found) if after[1] != before[1])] if found else []


def median_of(values: Iterable[float | None]) -> float | None:
    """The median of the values that are not None; None without any."""
    found = [value for value in values if value is not None]
    return float(median(found)) if found else None


@cache
def record() -> Mapping[str, Any]:
    """The content of the file: ``papers seeds figure nodes global reduction``."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def report(
    every: Sequence[Case], settings: Settings, section: Callable[..., Section], numbers: Iterable[int], **words: Any
) -> Report:
    """A report with a section for each part; ``words`` are its name, title and subject."""
    here = [case for case in every if case.runs]
    return _frame.report(
        settings,
        [section(*part) for part in parts(every, numbers)],
        sample=f"{len(here)} instances: {', '.join(case.name for case in here)}",
        seeds=settings.seeds,
        limits=f"seconds per run: {', '.join(f'{case.name} {case.limit:g}' for case in here)}",
        made=f"{published.figures()['made']['later']}; the curves show one of {record()['seeds']} seeds",
        notes=notes(settings, every),
        sources=record()["papers"],
        **words,
    )


def notes(settings: Settings, every: Sequence[Case]) -> list[str]:
    """List reasons why figures are not comparable: faults, other machines and limits, missing files."""
    missing = [case.name for case in every if not case.runs]
    embedded = any(case.entry.embedded for case in every)
    shorter = settings.percent < 100 and any(case.runs and not case.entry.embedded for case in every)
    less = f", and ours had {settings.percent} % of the contest's time limit" if shorter else ""
    words = [
        f"Published curves were not run here: another machine, 8 cores{less}.",
        *failures(run for case in every for runs in case.runs.values() for run in runs),
    ]
    if missing:
        words.append(f"Files missing: {', '.join(missing)}. `shardmark fetch contest` downloads them.")
    if missing and embedded:
        words.append("Instances that come with the project ran instead, with their own time limits.")
    return words
