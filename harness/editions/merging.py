"""A results database of one's own runs and those of an edition: what pages, tables and rankings read.

The campaigns of an edition have numbers up to 0, in the order in which they began; one's own have those from 1 on.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any

from shardmark.harness.campaign.yardstick import speed
from shardmark.harness.editions.columns import COLUMNS, TABLES
from shardmark.harness.editions.folder import Edition, Part
from shardmark.harness.records.files import DIGITS
from shardmark.harness.results.database import FILE_NAME, Store
from shardmark.harness.results.records import as_float, number
from shardmark.harness.results.rows import named, shown
from shardmark.instances import InputError

Values = dict[str, Any]  # a row, by column
Take = Callable[[Values], bool]
Yardstick = Mapping[str, float]
#: Columns of exact decimal text beside which the database keeps a float.
_EXACT = {"runs": ("cost", "lower_bound"), "incumbents": ("cost",), "bounds": ("value",)}
_TIMES = ("time_s", "wall_s", "cpu_s")
#: Columns whose values are in another table: table, column, other table and its column.
_REFERENCES = (
    ("hosts", "campaign", "campaigns", "id"),
    ("runs", "campaign", "campaigns", "id"),
    ("runs", "checksum", "instances", "checksum"),
    ("matrix", "campaign", "campaigns", "id"),
    ("incumbents", "run", "runs", "id"),
    ("bounds", "run", "runs", "id"),
    ("certificates", "run", "runs", "id"),
)


@contextmanager
def merged(results: Path | None, edition: Edition, take: Take = lambda run: True) -> Iterator[Store]:
    """Open a temporary database with the runs of a results folder, if there is one, and of an edition.

    Of the edition's runs, those are taken that ``take`` accepts, given a row of the table of runs by column, and that
    the folder does not have: no run of that method on that content with that seed. If both machines were measured, the
    times of the edition's runs are those that this machine would take.
    """
    with tempfile.TemporaryDirectory(prefix="shardmark-") as folder:
        own: set[tuple[Any, ...]] = set()
        if results is not None and (results / FILE_NAME).is_file():
            own = _copied(results, Path(folder))
        with closing(Store.open(folder, create=True)) as store:
            add(store, edition, lambda run: _cell(run) not in own and take(run), yardstick_here(store))
            yield store


def add(store: Store, edition: Edition, take: Take, here: Yardstick | None) -> None:
    """Add those runs of an edition to a database that ``take`` accepts; ``here`` is the yardstick of this machine.

    InputError for a row that refers to another one that is missing.
    """
    parts = {part.name: {table: _by_column(edition, part, table) for table in TABLES} for part in edition.parts}
    for name, tables in parts.items():
        _require_references(edition.folder / name, tables)
    numbers = _numbers({name: tables["campaigns"] for name, tables in parts.items()})
    with store.transaction() as db:
        for part in edition.parts:
            tables = parts[part.name]
            _scale(tables, {} if here is None else _factors(tables["hosts"], here))
            taken = _add(db, tables, numbers[part.name], take)
            for run, solution in edition.solutions(part).items():
                if run in taken:
                    store.add_solution(taken[run], solution)


def yardstick_here(store: Store) -> Yardstick | None:
    """Return the yardstick of the newest campaign of one's own that has one."""
    facts = store.select("hosts", ("campaign", "facts"))
    found = [(campaign, yardstick) for campaign, text in facts if campaign > 0 and (yardstick := _yardstick(text))]
    return max(found, key=itemgetter(0), default=(0, None))[1]


def speeds(store: Store) -> list[float]:
    """Return how many times as fast this machine is as those of an edition's campaigns, in increasing order."""
    here = yardstick_here(store)
    facts = store.select("hosts", ("campaign", "facts"))
    edition = (_yardstick(text) for campaign, text in facts if campaign <= 0)
    return sorted(speed(here, there) for there in edition if here and there and _are_comparable(here, there))


def _yardstick(facts: str) -> Yardstick | None:
    found: Yardstick | None = json.loads(facts).get("yardstick")
    return found or None


def _factors(hosts: Sequence[Values], here: Yardstick) -> dict[tuple[int, str], float]:
    """Return how many times as long this machine takes as each machine of a part that was measured."""
    measured = ((row["campaign"], row["name"], _yardstick(row["facts"])) for row in hosts)
    return {
        (campaign, name): 1 / speed(here, there)
        for campaign, name, there in measured
        if there and _are_comparable(here, there)
    }


def _are_comparable(here: Yardstick, there: Yardstick) -> bool:
    """Return False for yardsticks of other versions, which measure other kinds of work."""
    return here.keys() == there.keys()


def _scale(tables: Mapping[str, Sequence[Values]], factors: Mapping[tuple[int, str], float]) -> None:
    """Multiply the times of runs, incumbents and bounds by the factor of their machine."""
    of_run = {run["id"]: factors.get((run["campaign"], run["host"]), 1.0) for run in tables["runs"]}
    for table, key in (("runs", "id"), ("incumbents", "run"), ("bounds", "run")):
        for row in tables[table]:
            row.update({name: row[name] * of_run[row[key]] for name in _TIMES if name in row})


def _copied(results: Path, folder: Path) -> set[tuple[Any, ...]]:
    """Copy the database of a results folder; return the cells of its runs."""
    with closing(Store.open(results)) as stored, closing(sqlite3.connect(folder / FILE_NAME)) as target:
        stored.connection.backup(target)
        names, rows = stored.rows("runs")
    return {_cell(dict(zip(names, row, strict=True))) for row in rows}


def _cell(run: Values) -> tuple[Any, ...]:
    return run["track"], run["solver"], run["checksum"], run["seed"]


def _by_column(edition: Edition, part: Part, table: str) -> list[Values]:
    return [dict(zip(COLUMNS[table], row, strict=True)) for row in edition.rows(part, table)]


def _require_references(folder: Path, tables: Mapping[str, Sequence[Values]]) -> None:
    for table, column, other, key in _REFERENCES:
        there = {row[key] for row in tables[other]}
        for row in tables[table]:
            if row[column] not in there:
                expected = f"expected the {key} of a row of {other}.parquet, found {shown(row[column])}"
                raise InputError(folder / f"{table}.parquet", f"{named(table, row)} {column}", expected)


def _numbers(campaigns: Mapping[str, Sequence[Values]]) -> dict[str, dict[int, int]]:
    """Return new numbers of the campaigns of each part, by their old ones."""
    began = sorted((row["started"], part, row["id"]) for part, rows in campaigns.items() for row in rows)
    places = {(part, old): place + 1 - len(began) for place, (_, part, old) in enumerate(began)}
    return {part: {row["id"]: places[part, row["id"]] for row in rows} for part, rows in campaigns.items()}


def _add(
    db: sqlite3.Connection, tables: Mapping[str, Sequence[Values]], numbers: Mapping[int, int], take: Take
) -> dict[str, str]:
    """Add the runs of a part that are taken, and what they refer to; return their ids by their first `DIGITS`."""
    runs = [run for run in tables["runs"] if take(run)]
    taken = {run["id"] for run in runs}
    _insert(db, "campaigns", [{**row, "id": numbers[row["id"]]} for row in tables["campaigns"]])
    _insert(db, "hosts", [{**row, "campaign": numbers[row["campaign"]]} for row in tables["hosts"]])
    _insert(db, "instances", tables["instances"])
    _insert(db, "solvers", tables["solvers"])
    _insert(db, "runs", [{**run, "campaign": numbers[run["campaign"]]} for run in runs])
    asked = [row for row in tables["matrix"] if row["run"] in taken]
    _insert(db, "matrix", [{**row, "campaign": numbers[row["campaign"]]} for row in asked])
    for table in ("incumbents", "bounds", "certificates"):
        _insert(db, table, [row for row in tables[table] if row["run"] in taken])
    return {run[:DIGITS]: run for run in taken}


def _insert(db: sqlite3.Connection, table: str, rows: Collection[Values]) -> None:
    """Insert rows, with the floats beside exact texts; instances and solvers that are there stay as they are."""
    exact = _EXACT.get(table, ())
    names = [*COLUMNS[table], *(f"{name}_float" for name in exact)]
    marks = ", ".join("?" * len(names))
    values = ([*row.values(), *(_float(row[name]) for name in exact)] for row in rows)
    db.executemany(f"INSERT OR IGNORE INTO {table} ({', '.join(names)}) VALUES ({marks})", values)


def _float(text: str | None) -> float | None:
    return None if text is None else as_float(number(text))
