"""The standing of a solver: its runs on the suite ``quick``, compared with best known results and other solvers."""

from __future__ import annotations

import json
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from shardmark.cli.against import timeouts_of
from shardmark.cli.matrix import missing
from shardmark.cli.terminal import Progress
from shardmark.harness.campaign import host
from shardmark.harness.campaign.discover import SolverInfo, discover
from shardmark.harness.campaign.jobs import Job, utc_now
from shardmark.harness.campaign.local_executor import LocalExecutor
from shardmark.harness.campaign.problems import Problem
from shardmark.harness.campaign.queue import campaign
from shardmark.harness.editions.comparing import compared
from shardmark.harness.editions.folder import Edition
from shardmark.harness.results.database import FILE_NAME, Store
from shardmark.harness.results.ranking import Tables, tables
from shardmark.harness.sandbox.backends.choice import Backend, choose
from shardmark.harness.sandbox.contract import CAMPAIGN_TIMEOUT_S, DEFAULT_MEMORY_MIB, Limits
from shardmark.instances import catalog

SUITE = "quick"

#: Columns of tables and their names in `Standing`.
SOLVER = {"status": "status", "cost_exact": "cost", "best_cost_exact": "best_known", "score": "score"}
BOUND = {"status": "status", "lower_bound_exact": "bound", "best_bound_exact": "best_known", "bound_score": "score"}


@dataclass(frozen=True)
class Standing:
    """Runs of a solver on each instance, and the ranking of each division with its other solvers; rows for tables.

    ``alone`` is True if no other solver has runs on these instances.
    """

    instances: Sequence[Mapping[str, Any]]
    ranking: Sequence[Mapping[str, Any]]
    alone: bool


def standing(info: SolverInfo, results: Path, edition: Edition | None = None) -> Standing:
    """Run a solver on the suite; compare it with what is stored in the folder ``results``, if there is any.

    With an edition, also with its runs, under its time limits.
    """
    problems = [Problem.of(entry, catalog.locate(entry)) for entry in catalog.suite(SUITE) if entry.track == info.track]
    timeouts = timeouts_of(edition)
    given = [replace(problem, timeout_s=timeouts.get(problem.checksum, problem.timeout_s)) for problem in problems]
    with _copy(results, edition) as store:
        carry_out([job_of(info, problem, results) for problem in given], store, choose())
        found = tables(store, {problem.id for problem in problems})
    return standing_in(found, info)


def require_readable(results: Path) -> None:
    """Raise InputError if a folder has a results database that cannot be read."""
    if (results / FILE_NAME).is_file():
        Store.open(results).close()


@contextmanager
def _copy(results: Path, edition: Edition | None) -> Iterator[Store]:
    """Open a temporary copy of a results database, an empty one if there is none, with the runs of an edition."""
    if edition is not None:
        with compared(results, edition, discover()) as (store, _):
            yield store
        return
    with tempfile.TemporaryDirectory(prefix="shardmark-") as folder:
        if (results / FILE_NAME).is_file():
            target = sqlite3.connect(Path(folder) / FILE_NAME)
            with closing(Store.open(results)) as stored, closing(target):
                stored.connection.backup(target)
        with closing(Store.open(folder, create=True)) as store:
            yield store


def job_of(info: SolverInfo, problem: Problem, hidden: Path | None = None) -> Job:
    """Return a run with the limits of a campaign's."""
    return Job(info, problem, 0, Limits(problem.timeout_s or CAMPAIGN_TIMEOUT_S, DEFAULT_MEMORY_MIB), hidden)


def carry_out(jobs: Sequence[Job], store: Store, backend: Backend, parallel: int = 1) -> None:
    """Store the runs that are not stored already, with progress on standard error."""
    todo = missing(jobs, store.finished(), retry=False)
    number = store.add_campaign(utc_now(), sys.argv, host.version(), host.facts(), [job.id for job in jobs])
    executor = LocalExecutor(parallel, 1, backend.supervisor)
    if ended_by := campaign(store, number, todo, executor, Progress(len(jobs), len(jobs) - len(todo))):
        signal.raise_signal(ended_by)


def _number(value: Any) -> Any:
    """Return a cost or bound, stored as decimal text, as a number; other values as they are."""
    return json.loads(value) if isinstance(value, str) and value[:1] in "-0123456789" else value


def standing_in(found: Tables, info: SolverInfo) -> Standing:
    """Return where a solver with runs stands."""
    mine = (pl.col("track") == info.track) & (pl.col("solver") == info.name)
    best = found.instances.select("track", "instance", "best_cost_exact", best_bound_exact="lower_bound_exact")
    runs = found.runs.filter(mine).join(best, on=["track", "instance"], how="left").sort("division", "instance")
    columns = BOUND if info.kind == "bound" else SOLVER
    rows = [
        {"instance": row["instance"]} | {new: _number(row[old]) for old, new in columns.items()}
        for row in runs.iter_rows(named=True)
    ]
    methods, total = (found.bounds, "bound_sum") if info.kind == "bound" else (found.solvers, "score_sum")
    divisions = methods.filter(mine)["division"]
    rivals = methods.filter((pl.col("track") == info.track) & pl.col("division").is_in(divisions.implode()))
    order = pl.col("score_sum").round(9).rank("min", descending=True).over("division").cast(pl.Int64)
    ranking = (
        rivals.select("division", "solver", "instances", solved="covered", score_sum=total)
        .with_columns(rank=order, yours=pl.when(pl.col("solver") == info.name).then(pl.lit("<-")).otherwise(pl.lit("")))
        .sort("division", "rank", maintain_order=True)
        .select("division", "rank", "solver", "score_sum", "solved", "instances", "yours")
    )
    return Standing(rows, ranking.to_dicts(), rivals.height == divisions.len())
