"""Common parts of the reproductions of the contest: instances, published figures with the runs, notes."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from shardmark.harness.campaign.problems import Problem
from shardmark.harness.results import published
from shardmark.harness.results.claims import quotient
from shardmark.instances import InputError, catalog
from shardmark.instances.catalog import Entry
from shardmark.leaderboard.report import HERE, PAPER, Dot, Report, Section
from shardmark.leaderboard.reproductions import Cell, Run, Settings, _frame

Row = dict[str, Any]

ALL = ("contest",)


@dataclass(frozen=True)
class Case:
    """An instance of the contest with its runs by method."""

    entry: Entry
    runs: Mapping[str, Run]

    @property
    def here(self) -> bool:
        """True if any run on it has ended."""
        return bool(self.runs)

    @property
    def name(self) -> str:
        """The name in tables."""
        return self.entry.id.removeprefix("contest-")

    def cost(self, method: str) -> int | None:
        """The least verified cost of a method, exact."""
        run = self.runs.get(method)
        return None if run is None or run.exact[0] is None else int(run.exact[0])

    def bound(self, method: str) -> Fraction | None:
        """The greatest bound of a method, exact; None if a cost verified here refutes it."""
        run, least = self.runs.get(method), self.best_here
        if run is None or run.exact[1] is None:
            return None
        bound = Fraction(run.exact[1])
        return None if least is not None and bound > least else bound

    @property
    def best_here(self) -> int | None:
        """The least cost of all runs."""
        return min((int(run.exact[0]) for run in self.runs.values() if run.exact[0] is not None), default=None)

    @property
    def bound_here(self) -> Fraction | None:
        """The greatest bound of all runs."""
        return max((bound for method in self.runs if (bound := self.bound(method)) is not None), default=None)

    @property
    def best_published(self) -> int:
        """The least published cost."""
        return int(self.entry.published["best_cost"])

    @property
    def bound_published(self) -> Fraction:
        """The greatest published lower bound."""
        return Fraction(self.entry.published["lower_bound"])

    @property
    def best(self) -> int:
        """The least cost known."""
        return self.best_published if self.best_here is None else min(self.best_published, self.best_here)

    @property
    def best_bound(self) -> Fraction:
        """The greatest known lower bound that no known cost refutes."""
        stand = [bound for bound in (self.bound_published, self.bound_here) if bound is not None and bound <= self.best]
        return max(stand, default=Fraction(0))


def cells(settings: Settings) -> list[Cell]:
    """Every solver and every requested bound on every instance with a file."""
    solvers = [("solver", name) for name in settings.solvers]
    bounds = [("bound", name) for name in settings.bounds or ()]
    return [
        Cell(problem, kind, method, _limit(entry, kind, settings), settings.seed, entry.id)
        for entry in entries(settings)
        if (path := catalog.at_hand(entry)) is not None
        for problem in [Problem.of(entry, path)]
        for kind, method in (*solvers, *bounds)
    ]


def _limit(entry: Entry, kind: str, settings: Settings) -> float:
    if kind == "bound":
        return settings.bound_timeout or 0.0
    return entry.time_limit_s * settings.percent / 100


def entries(settings: Settings) -> list[Entry]:
    """The requested instances, in the order of the contest; InputError for one without published results."""
    suites = catalog.suites()
    known = published.instances()
    asked = {
        entry.id
        for name in settings.instances
        for entry in ([e for e in suites[name] if e.id in known] if name in suites else [catalog.find(name)])
    }
    for name in sorted(asked - set(known)):
        raise InputError("reproduce", "--instances", f"expected instances of the contest, found {name!r}")
    return [catalog.find(name) for name in known if name in asked]


def cases(settings: Settings, runs: Iterable[Run]) -> list[Case]:
    """The requested instances with their runs."""
    found = _frame.grouped((run.cell.about, run.cell.method, run) for run in runs)
    return [Case(entry, found.get(entry.id, {})) for entry in entries(settings)]


def report(
    every: Sequence[Case], settings: Settings, sections: Sequence[Section], runs: Sequence[Run], **words: Any
) -> Report:
    """A report with the parts that all on the contest share; ``words`` has its name, title and subject."""
    lengths = sorted({case.entry.time_limit_s for case in every})
    share = "" if settings.percent == 100 else f"{settings.percent} % of "
    span = f"{lengths[0]:g}{f' to {lengths[-1]:g}' if len(lengths) > 1 else ''}"
    made = published.figures()["made"]
    return _frame.report(
        settings,
        sections,
        sample=_frame.sample([case.name for case in every if case.here], every),
        limits=_frame.limits(settings, f"{share}the contest's {span} s for each solver"),
        made=f"the teams and XLA: {made['contest']}; lower bounds: {made['bounds']}",
        notes=_frame.notes(
            [case.name for case in every if not case.here],
            every,
            "they are from other machines, with 8 cores, and have no part in a ranking of solvers.",
            (run for case in every for run in case.runs.values()),
            "contest",
        ),
        sources=published.figures()["papers"],
        contradictions=contradictions(every),
        empty=not runs,
        **words,
    )


def whose(case: Case) -> str:
    """Return the source of the figures in a row of an instance."""
    return f"{PAPER} and {HERE}" if case.here else PAPER


def contradictions(every: Sequence[Case]) -> list[str]:
    """A sentence for each bound above a known cost, ours or published: one of the two is wrong."""
    return [sentence for case in every for sentence in _contradictions(case)]


def _contradictions(case: Case) -> list[str]:
    found = []
    least, lowest = case.best_here, case.best_published
    for method, run in case.runs.items():
        text = run.exact[1]
        if text is None:
            continue
        whose = f"{case.name}: the bound of {method}, {text}, is above a"
        if least is not None and Fraction(text) > least:
            found.append(f"{whose} cost verified here, {least}: the bound is wrong.")
        elif Fraction(text) > lowest:
            found.append(f"{whose} published cost, {lowest}: one of the two is wrong.")
    if least is not None and case.bound_published > least:
        text = case.entry.published["lower_bound"]
        found.append(f"{case.name}: the published bound, {text}, is above a cost verified here, {least}: it is wrong.")
    return found


def ours(methods: Iterable[str], of: Callable[[str], int | Fraction | None], over: int | Fraction) -> list[Dot]:
    """Results of our methods on an instance, as relative distances from a value."""
    found = [(method, of(method)) for method in methods]
    return [
        Dot(method, quotient(value, over) - 1, colour)
        for colour, (method, value) in enumerate(found, 1)
        if value is not None
    ]


def dots(case: Case, over: Fraction) -> list[Dot]:
    """The contest's costs on an instance, as relative distances from a value."""
    return [
        Dot(result.author.name, quotient(int(result.value), over) - 1, role=result.author.role)
        for result in published.contest_costs(case.entry.id)
        if result.value is not None
    ]


def geometric_mean(values: Iterable[float | None]) -> float | None:
    """Geometric mean of the values that are not None; None without any."""
    found = [value for value in values if value]
    return statistics.geometric_mean(found) if found else None
