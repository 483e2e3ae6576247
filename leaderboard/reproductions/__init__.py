"""Reproductions of published tables and figures, compared with ours: each is a module in a folder.

Adding one needs no other change. Modules whose names begin with an underscore are shared; published figures are in
TOML files in the same folder. A reproduction offers three names:

``DEFAULTS``                its `Settings`, ``seed`` among them
``plan(settings, folder)``  the runs that it needs, as `Cell`s; generated instances are written to the folder
``report(settings, runs)``  the results compared with the published ones, a `shardmark.leaderboard.report.Report`

Its runs are a campaign like any other: verified by the referee, resumable, stored in a results folder.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from shardmark.harness.campaign.problems import Problem
from shardmark.instances import InputError, catalog
from shardmark.instances.catalog import Entry
from shardmark.leaderboard.report import Report

if TYPE_CHECKING:
    from shardmark.harness.results.ranking import Tables


@dataclass(frozen=True)
class Option:
    """An option of the command line: its default, and the kind of its values or their ``choices``."""

    default: Any
    kind: str
    choices: Sequence[str]
    meaning: str


def setting(kind: str, meaning: str, choices: Sequence[str] = ()) -> Any:
    """A field of the settings; it is an option of the command line unless a reproduction's default is None."""
    return field(default=None, metadata={"kind": kind, "meaning": meaning, "choices": choices})


@dataclass(frozen=True)
class Settings:
    """Settings of a reproduction; those that are None in its defaults are no options of it."""

    seed: int = setting("count", "seed of samples and of the first run on each instance; later runs count up from it")
    seeds: int = setting("positive", "number of runs of every solver on every instance, each with another seed")
    runs: int = setting("positive", "random draws of weights and devices per network; each method runs once per draw")
    parts: tuple[str, ...] = setting("names", "parts of the report")
    graphs: int = setting("count", "number of random graphs in the sample")
    nodes: int = setting("positive", "number of nodes of the large generated graphs")
    tight: int = setting("positive", "number of instances with tight memory, from a sample of 200")
    models: int = setting("count", "number of model graphs in the sample")
    costs_from: str = setting(
        "text",
        "in random graphs, add to each node's cost a random fraction of all tensors or of its own",
        ("all", "own"),
    )
    instance: str = setting("text", "a file, or an id from `shardmark list instances`")
    instances: tuple[str, ...] = setting("names", "ids or suites; a note lists those whose files are missing")
    networks: tuple[str, ...] = setting("names", "families of training graphs")
    stages: tuple[int, ...] = setting("numbers", "numbers of stages, such as 2,4,8")
    solvers: tuple[str, ...] = setting(
        "names", "solvers to run, in the order of the tables; for scheduling, in addition to the paper's pairs"
    )
    bounds: tuple[str, ...] = setting(
        "names", "bounds to run, in the order of the tables; for pipeline, in addition to the paper's"
    )
    percent: int = setting("positive", "percentage of the contest's time limit for each solver")
    timeout: float = setting("seconds", "seconds for each solver")
    bound_timeout: float = setting("seconds", "seconds for each bound")


def options(defaults: Settings) -> dict[str, Option]:
    """The options of a reproduction with these defaults, by name."""
    return {
        x.name: Option(default, **x.metadata)
        for x in fields(defaults)
        if (default := getattr(defaults, x.name)) is not None
    }


def entries_of(names: Iterable[str], track: str) -> list[Entry]:
    """Entries of the catalog, by ids and suites, without repetition; InputError for one of another track."""
    suites = catalog.suites()
    found = {entry.id: entry for name in names for entry in suites.get(name) or [catalog.find(name)]}
    for entry in found.values():
        if entry.track != track:
            expected = f"expected instances of {track}, found {entry.id!r} of {entry.track}"
            raise InputError("reproduce", "--instances", expected)
    return list(found.values())


@dataclass(frozen=True)
class Cell:
    """A run that a reproduction needs; ``kind`` is "solver" or "bound".

    ``about``  the reproduction's own label for it
    ``keep``   True if it needs the solution as well
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
    ``costs``     (seconds, verified cost) of each better solution
    ``cpu_s``, ``cores``, ``peak_mib``  CPU seconds used, cores given, greatest memory
    ``exact``     verified cost and stated bound as exact decimal text; the bound even if contradicted
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
    cpu_s: float = 0.0
    cores: int = 1
    peak_mib: float = 0.0


class Reproduction(Protocol):
    """The interface of a reproduction module."""

    DEFAULTS: Settings
    __doc__: str | None

    def plan(self, settings: Settings, folder: Path) -> list[Cell]: ...

    def report(self, settings: Settings, runs: list[Run]) -> Report: ...


def reproductions() -> dict[str, Reproduction]:
    """All reproductions, by their names on the command line."""
    found = (module.name for module in pkgutil.walk_packages(__path__, f"{__name__}.") if not module.ispkg)
    public = (name for name in found if not name.rpartition(".")[2].startswith("_"))
    return {
        name.rpartition(".")[2].replace("_", "-"): cast(Reproduction, importlib.import_module(name)) for name in public
    }


def finished(cells: Mapping[str, Cell], tables: Tables, solution: Callable[[str], Any] | None = None) -> list[Run]:
    """Return the outcomes of cells, given by run id, that are in the tables.

    ``solution`` returns the best solution of a run id; it is not needed if no cell keeps one.
    """
    costs = tables.costs_over_time()
    return [
        Run(
            cell=cells[row["id"]],
            status=row["status"],
            reason=row["reason"],
            wall_s=row["wall_s"],
            cost=row["cost"],
            cost_s=row["time_to_best_s"],
            bound=row["lower_bound"] if row["bound_trusted"] else None,
            bound_s=row["time_to_bound_s"],
            contradicted=row["lower_bound"] is not None and not row["bound_trusted"],
            costs=tuple(costs[row["id"]]),
            exact=(row["cost_exact"], row["lower_bound_exact"]),
            solution=solution(row["id"]) if solution and cells[row["id"]].keep else None,
            cpu_s=row["cpu_s"],
            cores=row["cores"],
            peak_mib=row["peak_mib"],
        )
        for row in tables.runs.iter_rows(named=True)
        if row["id"] in cells
    ]


def failures(runs: Iterable[Run]) -> list[str]:
    """A sentence per method and kind of failure, and per bound that a cost contradicts."""
    counts: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        if run.status not in ("ok", "timeout"):
            counts.setdefault((run.cell.method, run.status), []).append(run)
    words = [
        f"{method}: {len(which)} of its runs ended with the status {status}, the first because: {which[0].reason}."
        for (method, status), which in counts.items()
    ]
    return words + [
        f"{run.cell.method} on {run.cell.problem.id}: its bound is above a verified cost and is not counted."
        for run in runs
        if run.contradicted
    ]
