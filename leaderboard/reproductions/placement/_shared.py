"""Common parts of the reproductions of Tarnawski et al. 2020: instances, methods, published figures, notes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from shardmark.harness.campaign.problems import Problem
from shardmark.harness.results.published import placement_figures as figures
from shardmark.harness.verify import Verdict, verify
from shardmark.instances import InputError, catalog
from shardmark.instances.catalog import Entry
from shardmark.instances.files.jsonfile import read_json
from shardmark.leaderboard.report import HERE, PAPER, Dot, Report, Section, Strips, Table
from shardmark.leaderboard.reproductions import Cell, Run, Settings, _frame, entries_of
from shardmark.leaderboard.reproductions._frame import percent_above, ratio

#: Suffix of ids in each mode, the most restrictive mode first: a placement in one is allowed in all after it.
MODES = {"acyclic": "-acyclic", "contiguous": "", "free": "-free"}
#: Costs and bounds within this relative distance count as equal.
SAME = 1e-9
#: It does not run: the published splits of the paper's experts are verified instead.
EXPERT = "expert"
#: Digits after the point of the paper's costs.
PRINTED_DIGITS = 2

Row = Mapping[str, Any]
Methods = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Workload:
    """A file with an objective; ``entry`` is the first one of this file, ``path`` is None if it is missing."""

    entry: Entry
    objective: str
    path: Path | None

    @cached_property
    def name(self) -> str:
        """The name in the paper's figures."""
        return self.known("contiguous")[0]

    def known(self, mode: str) -> tuple[str, Entry | None]:
        """The id of the file with this objective in a mode, and its catalog entry, if any."""
        options = self.options(mode)
        same = [x for x in _entries() if x.place == self.entry.place and dict(x.options) == options]
        if same:
            return same[0].id, same[0]
        file = self.entry.id.removesuffix("-free").removesuffix("-acyclic").removesuffix("-latency")
        return f"{file}{'-latency' if self.objective == 'latency' else ''}{MODES[mode]}", None

    def options(self, mode: str) -> dict[str, str]:
        """Options of the instance that differ from their defaults."""
        return {
            **({"objective": "latency"} if self.objective == "latency" else {}),
            **({"contiguity": mode} if mode != "contiguous" else {}),
        }

    def problem(self, mode: str) -> Problem | None:
        """Return the problem of a mode; None if the file is missing."""
        if self.path is None:
            return None
        name, entry = self.known(mode)
        return Problem.of(entry, self.path) if entry else Problem(name, self.path, "placement", self.options(mode))


def _entries() -> list[Entry]:
    return [entry for entry in catalog.entries() if entry.track == "placement"]


def workloads(names: Iterable[str], objective: str) -> list[Workload]:
    """The files of ids and suites, without repetition, in catalog order; InputError for one of another track."""
    places = {entry.place for entry in entries_of(names, "placement")}
    first = {entry.place: entry for entry in reversed(_entries()) if entry.place in places}
    return [
        Workload(entry, objective, catalog.at_hand(entry)) for entry in _entries() if first.get(entry.place) is entry
    ]


@dataclass(frozen=True)
class Case:
    """A workload with its runs, by method and mode, and its published figures.

    ``table`` is the part of the figures that has it; ``order`` has the modes, the most restrictive first.
    """

    work: Workload
    runs: Mapping[tuple[str, str], Run]
    table: str
    order: Sequence[str] = tuple(MODES)

    @property
    def name(self) -> str:
        """The name in tables."""
        return self.work.name

    @property
    def here(self) -> bool:
        """True if any run on it has ended."""
        return bool(self.runs)

    @property
    def published(self) -> Mapping[str, Any]:
        """Its row in the paper's table; empty if there is none."""
        found: Mapping[str, Any] = figures()[self.table].get(self.name, {})
        return found

    def printed(self, method: str) -> float | None:
        """The published cost of a method."""
        text = self.published.get("cost", {}).get(method)
        return None if text is None else float(text)

    def cost(self, method: str, mode: str) -> float | None:
        """The least verified cost of a method; for the expert, the cost of the published split."""
        if method == EXPERT:
            return self.expert.cost if self.expert and self.expert.feasible else None
        run = self.runs.get((method, mode))
        return None if run is None else run.cost

    def best(self, *modes: str) -> float | None:
        """The least cost of all methods in these modes."""
        return min((x.cost for (_, mode), x in self.runs.items() if mode in modes and x.cost is not None), default=None)

    def bound(self, mode: str) -> float | None:
        """The greatest bound of all methods that holds in a mode, without refuted ones."""
        bounds = [
            run.bound for (_, other), run in self.runs.items() if run.bound is not None and other in self.wider(mode)
        ]
        best = self.best(*self.narrower(mode))
        return max((x for x in bounds if best is None or x <= best * (1 + SAME)), default=None)

    def wider(self, mode: str) -> Sequence[str]:
        """The modes that allow everything that a mode allows, including itself."""
        return self.order[self.order.index(mode) :]

    def narrower(self, mode: str) -> Sequence[str]:
        """The modes whose placements a mode allows, including itself."""
        return self.order[: self.order.index(mode) + 1]

    @cached_property
    def expert(self) -> Verdict | None:
        """The verdict on the published expert split; None if there is none or its file is missing."""
        path, problem = split_of_expert(self.name), self.work.problem("free")
        return verify(problem.instance, read_json(path)) if path and problem else None


def split_of_expert(name: str) -> Path | None:
    """The file with an expert's split, in the mirror or the cache; None without one."""
    if name not in figures()["splits"]:
        return None
    path, blob = figures()["splits"][name]
    return catalog.at_hand(_expert_entry(catalog.find(name), path, blob))


def _expert_entry(entry: Entry, path: str, blob: str) -> Entry:
    """The file of an expert's split as an entry, in the repository of the workload."""
    return replace(entry, id=f"{entry.id}-expert", path=path, checksum=f"git-blob-sha1:{blob}")


def cells(settings: Settings, objective: str, methods: Methods, *, keep: bool = False) -> list[Cell]:
    """Every solver in its modes, and every bound, on every available file; InputError for a solver without a mode.

    Bounds are for the mode free, so they hold in all modes; ``keep`` is True if solutions are needed. The expert does
    not run.
    """
    for name in settings.solvers:
        if name not in methods:
            raise InputError("reproduce", "--solvers", f"expected some of {', '.join(methods)}, found {name!r}")
    solvers = [name for name in settings.solvers if name != EXPERT]
    runs = [("solver", name, mode, settings.timeout) for name in solvers for mode in methods[name]]
    runs += [("bound", name, "free", settings.bound_timeout or 0.0) for name in settings.bounds or ()]
    return [
        Cell(problem, kind, name, limit, settings.seed, (work.name, mode), keep)
        for work in workloads(settings.instances or (), objective)
        for problems in [{mode: work.problem(mode) for mode in MODES}]
        for kind, name, mode, limit in runs
        if (problem := problems[mode])
    ]


def cases(settings: Settings, objective: str, runs: Iterable[Run], order: Sequence[str] = tuple(MODES)) -> list[Case]:
    """The requested files with their runs."""
    found = _frame.grouped((run.cell.about[0], (run.cell.method, run.cell.about[1]), run) for run in runs)
    every = workloads(settings.instances or (), objective)
    return [Case(work, found.get(work.name, {}), objective, order) for work in every]


def report(
    every: Sequence[Case], settings: Settings, sections: Sequence[Section], remarks: Sequence[str] = (), **words: Any
) -> Report:
    """A report with the parts that all on this paper share; ``words`` has its name, title and subject."""
    missing = [case for case in every if case.work.path is None]
    told = _frame.notes(
        [case.name for case in missing],
        every,
        "they are from another machine and other programs.",
        (run for case in every for run in case.runs.values()),
        " ".join(dict.fromkeys(case.work.entry.suites[0] for case in missing)),
    )
    return _frame.report(
        settings,
        sections,
        sample=_frame.sample([case.name for case in every if case.here], every),
        limits=_frame.limits(settings, f"{settings.timeout:g} s for each solver"),
        made=figures()["made"],
        notes=[*told, *remarks],
        sources=figures()["papers"],
        contradictions=contradictions(every),
        empty=not any(case.here for case in every),
        **words,
    )


def parts(every: Sequence[Case], titles: Mapping[str, str]) -> list[tuple[str, list[Case]]]:
    """Non-empty groups of cases; ``titles`` has the title of each suffix of names, of which the first match counts."""
    found: dict[str, list[Case]] = {title: [] for title in titles.values()}
    for case in every:
        found[next(title for end, title in titles.items() if case.name.endswith(end))].append(case)
    return [(title, cases) for title, cases in found.items() if cases]


def certified(case: Case, settings: Settings, methods: Methods) -> list[Row]:
    """One row per method and mode: published and verified cost, the greatest bound that holds there, and the gap.

    A missing file, and an expert without a split, has published rows only.
    """
    rows = [_certified(case, name, mode) for name in settings.solvers for mode in methods[name]]
    return [row for row in rows if row["paper"] is not None or (case.here and row["method"] != EXPERT)]


def _certified(case: Case, name: str, mode: str) -> Row:
    run = case.runs.get((name, mode))
    ended = "file missing" if run is None else run.status
    if name == EXPERT:
        ended = "split missing" if case.expert is None else "ok" if case.expert.feasible else "infeasible"
    return {
        "instance": case.name,
        "method": name,
        "sets": mode,
        **proof(case.printed(name), case.cost(name, mode), case.bound(mode)),
        "paper's time": case.published.get("time", {}).get(name),
        "time, s": None if run is None else run.wall_s,
        "ended": ended,
    }


def section(
    title: str,
    cases_: Sequence[Case],
    settings: Settings,
    methods: Methods,
    tables: Sequence[Table],
    drawn: Sequence[str],
    yardstick: tuple[str, str],
) -> Section:
    """A section of tables with the table of proofs, and a picture of some methods relative to a yardstick."""
    columns = [(name, mode) for name in drawn for mode in methods[name]]
    return Section(title, [], [*tables, proofs(cases_, settings, methods)], picture(cases_, columns, yardstick))


def proofs(cases_: Sequence[Case], settings: Settings, methods: Methods) -> Table:
    """Tabulate the cost of each method in each mode, and the proven bounds."""
    return Table(
        "Row by row, with bounds",
        [row for case in cases_ for row in certified(case, settings, methods)],
        coarse=["time, s"],
        as_printed=["paper"],
        note="Bound: the greatest bound of any method that is valid for the row's sets. Gap: here / bound − 1. Here / "
        "paper: our cost is rounded to the printed digits.",
    )


def proof(printed: float | None, cost: float | None, bound: float | None) -> Row:
    """The columns with the paper's cost, ours, and the bound."""
    return {
        "paper": printed,
        "here": cost,
        "here / paper": of_printed(cost, printed),
        "bound": bound,
        "gap, %": percent_above(cost, bound),
    }


def comparison(cases_: Sequence[Case], settings: Settings, methods: Methods) -> list[Row]:
    """Two rows per workload, the paper's costs and ours, and a column per method and mode."""
    columns = [(name, mode) for name in settings.solvers for mode in methods[name]]
    titles = [name if len(methods[name]) == 1 else f"{name}, {mode}" for name, mode in columns]
    rows: list[Row] = []
    for case in cases_:
        printed, found = [case.printed(name) for name, _ in columns], [case.cost(*column) for column in columns]
        for whose, costs, shown in ((PAPER, printed, case.published), (HERE, found, case.runs)):
            if shown:
                rows.append({"instance": case.name, "figures": whose, **dict(zip(titles, costs, strict=True))})
    return rows


def picture(cases_: Sequence[Case], columns: Sequence[tuple[str, str]], yardstick: tuple[str, str]) -> list[Strips]:
    """Costs of some methods and modes, ours and the paper's, as distances from a yardstick; empty without any."""
    # the heading has the rest of the name
    names = [case.name.partition("-operators-")[0].partition("-layers-")[0] for case in cases_]
    rows = [(name, _dots(case, columns, yardstick)) for name, case in zip(names, cases_, strict=True)]
    words = f"Our costs relative to our {yardstick[0]}, the paper's relative to the paper's; left is better."
    shown = [(name, dots) for name, dots in rows if dots]
    title = f"How far from {yardstick[0]}"
    return [Strips(title, words, f"distance from the cost of {yardstick[0]}", yardstick[0], shown)] if shown else []


def _dots(case: Case, columns: Sequence[tuple[str, str]], yardstick: tuple[str, str]) -> list[Dot]:
    ours, theirs = case.cost(*yardstick), case.printed(yardstick[0])
    names = [name for name, _ in columns]
    dots = [
        Dot(name if names.count(name) == 1 else f"{name}, {mode}", cost / ours - 1, colour)
        for colour, (name, mode) in enumerate(columns, 1)
        if ours and (cost := case.cost(name, mode)) is not None
    ]
    printed = [(name, case.printed(name)) for name in dict.fromkeys(names)]
    return dots + [Dot(name, cost / theirs - 1, role="paper") for name, cost in printed if cost and theirs]


def contradictions(every: Sequence[Case]) -> list[str]:
    """A sentence per bound above a known cost, ours or printed: one of the two is wrong."""
    return [words for case in every for words in (*_above_ours(case), *_above_printed(case))]


def _above_ours(case: Case) -> list[str]:
    return [
        f"{case.name}: the bound of {name} for {mode} sets, {run.exact[1]}, is above a cost verified here, {best!r}."
        for (name, mode), run in case.runs.items()
        if run.exact[1] is not None
        and (best := case.best(*case.narrower(mode))) is not None
        and float(run.exact[1]) > best * (1 + SAME)
    ]


def _above_printed(case: Case) -> list[str]:
    """List printed costs below a bound by more than their last digit, which may have been truncated."""
    found = []
    for name, text in case.published.get("cost", {}).items():
        modes = {mode for method, mode in case.runs if method == name}
        last = Fraction(10) ** -len(text.partition(".")[2])
        bounds = [bound for mode in modes if (bound := case.bound(mode)) is not None]
        if bounds and Fraction(min(bounds)) > Fraction(text) + last:
            found.append(
                f"{case.name}: the published cost of {name}, {text}, is below a bound proved here, {min(bounds)!r}."
            )
    return found


def of_printed(cost: float | None, printed: float | None) -> float | None:
    """A cost / a printed cost, the former rounded like the latter; None without one."""
    return ratio(None if cost is None else round(cost, PRINTED_DIGITS), printed)
