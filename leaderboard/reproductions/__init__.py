"""Reproductions of published tables and figures: ours beside theirs. A module in a track's folder is one.

Nothing outside has to change when one is added; modules whose names begin with an underscore are shared by several,
published figures lie beside them as TOML. A reproduction offers three names:

``DEFAULTS``                its `Settings`, ``seed`` among them
``plan(settings, folder)``  the runs that it needs, as `Cell`s; what it has to generate is written to the folder
``report(settings, runs)``  what they found beside what is published, a `leaderboard.report.Report`

The runs go through the referee like all others: a campaign that resumes, verified, in a results folder.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from harness.campaign.problems import Problem
from instances import InputError, catalog
from instances.catalog import Entry
from leaderboard.report import Report

if TYPE_CHECKING:
    from harness.results.ranking import Tables


@dataclass(frozen=True)
class Option:
    """An option of the command line: its default, and the kind of its values or their ``choices``."""

    default: Any
    kind: str
    choices: Sequence[str]
    meaning: str


def setting(kind: str, meaning: str, choices: Sequence[str] = ()) -> Any:
    """A field of a reproduction's settings with an option of the command line, unless it is None in its defaults."""
    return field(default=None, metadata={"kind": kind, "meaning": meaning, "choices": choices})


@dataclass(frozen=True)
class Settings:
    """Settings of a reproduction; those that its defaults leave None are no options of it."""

    seed: int = setting("count", "of samples and of the first run on each instance; further runs count up")
    seeds: int = setting("positive", "runs of every solver on every instance")
    runs: int = setting("positive", "draws of weights and devices for every network, each run once by every method")
    graphs: int = setting("count", "random graphs in the sample")
    models: int = setting("count", "model graphs in the sample")
    costs_from: str = setting(
        "text", "tensors whose sizes a random graph's node has a random fraction of in its cost", ("all", "own")
    )
    instance: str = setting("text", "a file, or an id from `shardmark list instances`")
    instances: tuple[str, ...] = setting("names", "ids or suites; notes name those whose files are missing")
    networks: tuple[str, ...] = setting("names", "families of training graphs")
    stages: tuple[int, ...] = setting("numbers", "numbers of stages, as 2,4,8")
    solvers: tuple[str, ...] = setting(
        "names", "solvers that run, in the order of tables; for scheduling, besides the paper's pairs"
    )
    bounds: tuple[str, ...] = setting(
        "names", "bounds that run, in the order of tables; for pipeline, besides the paper's"
    )
    percent: int = setting("positive", "of the contest's time limit that each solver has")
    timeout: float = setting("seconds", "seconds that each solver has")
    bound_timeout: float = setting("seconds", "seconds that each bound has")


def options(defaults: Settings) -> dict[str, Option]:
    """The options of a reproduction with these defaults, by name."""
    return {
        x.name: Option(default, **x.metadata)
        for x in fields(defaults)
        if (default := getattr(defaults, x.name)) is not None
    }


def entries_of(names: Iterable[str], track: str) -> list[Entry]:
    """Entries of the catalog by ids and suites, each once; InputError for one of another track."""
    suites = catalog.suites()
    found = {entry.id: entry for name in names for entry in suites.get(name) or [catalog.find(name)]}
    for entry in found.values():
        if entry.track != track:
            expected = f"expected instances of {track}, found {entry.id!r} of {entry.track}"
            raise InputError("reproduce", "--instances", expected)
    return list(found.values())


@dataclass(frozen=True)
class Cell:
    """A run that a reproduction needs, of a ``kind`` that is "solver" or "bound"; it knows it by ``about``.

    ``keep``  whether it needs the solution as well
    """

    problem: Problem
    kind: str
    method: str
    timeout_s: float
    seed: int
    about: Any = None
    keep: bool = False


@dataclass(frozen=True)
class Run:
    """The outcome of a cell; None for values that were not found.

    ``cost``      least verified cost, found ``cost_s`` seconds after the start
    ``bound``     greatest lower bound, found ``bound_s`` seconds after the start; None if a cost contradicts it
    ``costs``     when each better solution came, in seconds, and its verified cost
    ``exact``     cost and bound as they were verified and stated, exact decimal text; the bound also if contradicted
    ``solution``  the best one, plain JSON, if the cell keeps it
    """

    cell: Cell
    status: str
    reason: str
    wall_s: float
    cost: float | None
    cost_s: float | None
    bound: float | None
    bound_s: float | None
    contradicted: bool
    costs: tuple[tuple[float, float], ...] = ()
    exact: tuple[str | None, str | None] = (None, None)
    solution: Any = None


class Reproduction(Protocol):
    """The interface of a reproduction module."""

    DEFAULTS: Settings
    __doc__: str | None

    def plan(self, settings: Settings, folder: Path) -> list[Cell]: ...

    def report(self, settings: Settings, runs: list[Run]) -> Report: ...


def reproductions() -> dict[str, Reproduction]:
    """All of them, by the names that the command line has for them."""
    found = (module.name for module in pkgutil.walk_packages(__path__, f"{__name__}.") if not module.ispkg)
    public = (name for name in found if not name.rpartition(".")[2].startswith("_"))
    return {
        name.rpartition(".")[2].replace("_", "-"): cast(Reproduction, importlib.import_module(name)) for name in public
    }


def finished(cells: Mapping[str, Cell], tables: Tables, solution: Callable[[str], Any] | None = None) -> list[Run]:
    """Return the outcomes of cells by the ids of their runs, without those that are not in the tables.

    ``solution`` has the best solution of a run by its id, None if no cell keeps one.
    """
    costs = tables.costs_over_time()
    return [
        Run(
            cell=cells[row["id"]],
            status=row["status"],
            reason=row["reason"],
            wall_s=row["wall_s"],
            cost=row["cost_float"],
            cost_s=row["time_to_best_s"],
            bound=row["lower_bound_float"] if row["bound_trusted"] else None,
            bound_s=row["time_to_bound_s"],
            contradicted=row["lower_bound"] is not None and not row["bound_trusted"],
            costs=tuple(costs[row["id"]]),
            exact=(row["cost"], row["lower_bound"]),
            solution=solution(row["id"]) if solution and cells[row["id"]].keep else None,
        )
        for row in tables.runs.iter_rows(named=True)
        if row["id"] in cells
    ]


def failures(runs: Iterable[Run]) -> list[str]:
    """A sentence for each way in which methods failed, and for every bound that a cost contradicts."""
    counts: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        if run.status not in ("ok", "timeout"):
            counts.setdefault((run.cell.method, run.status), []).append(run)
    words = [
        f"{method}: {len(which)} of its runs ended as {status}, the first because: {which[0].reason}."
        for (method, status), which in counts.items()
    ]
    return words + [
        f"{run.cell.method} on {run.cell.problem.id}: its bound is above a verified cost and counts nowhere."
        for run in runs
        if run.contradicted
    ]
