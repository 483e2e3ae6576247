"""The results database: SQLite in WAL mode, one transaction per run; a repeated run replaces the old one whole.

Every commit is on the disk before it returns: a run that was reported as done survives a kill and a power cut.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import textwrap
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from shardmark.harness.results.records import LARGEST_CERTIFICATE, Certificate, Record, as_float, decimal
from shardmark.harness.results.rows import COLUMNS, Row, checked
from shardmark.harness.results.schema import require_schema
from shardmark.harness.verify import certificates
from shardmark.instances import InputError

FILE_NAME = "results.sqlite"
LOCK_NAME = ".lock"
LOCK_S = 1.0  # seconds to wait for the lock of a results folder
BATCH = 20_000  # rows that are read at once
MOST_SHOWN = 200  # characters of SQLite's messages that are passed on
BUSY_S = 30.0  # seconds that a statement waits for another process that holds the database, before the user is told
PATIENCE_S = 3600.0  # seconds of all attempts together
UNREADABLE = (sqlite3.Error, UnicodeDecodeError)  # the latter if a message of SQLite's quotes a damaged byte
BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_PROTOCOL)


def storable(text: str) -> str:
    """Return a text whose characters that UTF-8 cannot hold are replaced, as stray bytes in names and messages give."""
    return text.encode("utf-8", "replace").decode()


def make_folder(folder: Path) -> None:
    """Make a folder unless it is there; InputError if it cannot be made."""
    with _written(folder):
        folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def _written(folder: str | Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(folder, "", f"expected a folder that can be written ({error.strerror})") from None


@contextmanager
def exclusive(folder: str | Path) -> Iterator[None]:
    """Lock a results folder, made if need be, for one campaign; InputError if another one is under way in it."""
    make_folder(Path(folder))
    with _written(folder):
        lock = (Path(folder) / LOCK_NAME).open("w")
    with lock:
        end = time.monotonic() + LOCK_S  # a process that a killed campaign was starting may still hold its files
        while not _locked(lock.fileno()):
            if time.monotonic() > end:
                raise InputError(folder, "", "expected no other `shardmark run` at work in this folder")
            time.sleep(LOCK_S / 50)
        yield


def _locked(lock: int) -> bool:
    """Take a lock unless another process has it; return True if it was taken."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Ending(NamedTuple):
    """The end of a run; ``answered`` is True if it has a feasible solution or a bound."""

    answered: bool
    track: str
    instance: str
    solver: str
    seed: int
    status: str
    reason: str
    wall_s: float
    timeout_s: float


class Store:
    """The database of one results folder; open it with ``Store.open``."""

    def __init__(self, connection: sqlite3.Connection, path: Path, tell: Callable[[str], None]) -> None:
        self.connection, self.path, self.tell = connection, path, tell

    @classmethod
    def open(cls, folder: str | Path, *, create: bool = False, tell: Callable[[str], None] = lambda _: None) -> Store:
        """Open the database of a folder, to read it, or with ``create`` to write, making it if there is none.

        ``tell`` is called with a sentence while another process keeps it from being written. InputError if there is
        nothing to read or it is not ours.
        """
        path = Path(folder) / FILE_NAME
        if not create and not path.is_file():
            raise InputError(folder, "", f"expected a results folder with {FILE_NAME}, run `shardmark run` first")
        try:
            return cls(_open_to_write(path) if create else _open_to_read(path), path, tell)
        except UNREADABLE as error:
            raise InputError(path, "", f"expected a results database that can be opened ({_why(error)})") from None

    def close(self) -> None:
        self.connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Store everything written inside, or nothing; a nested transaction is part of the outer one."""
        if self.connection.in_transaction:
            yield self.connection
            return
        self._execute("BEGIN IMMEDIATE")
        try:
            yield self.connection
            self._execute("COMMIT")
        except BaseException:
            self.connection.rollback()
            raise

    def _execute(self, statement: str) -> None:
        """Begin or end a transaction; retry while another process holds the database, so that no run is lost."""
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.connection.execute(statement)
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in BUSY or time.monotonic() > end:
                    raise
                self.tell(f"{self.path}: waiting for another process that holds it ({error})")

    def add_campaign(
        self,
        started: str,
        command: Sequence[str],
        version: str,
        host: Mapping[str, Any],
        runs: Sequence[str] = (),
        *,
        executor: str = "local",
        jobs: int = 1,
    ) -> int:
        """Record a call of ``shardmark run``, the referee's machine and the ids of all its runs; return its number."""
        row = {"started": started, "command": _json(list(command)), "version": version, "executor": executor}
        with self.transaction() as db:
            number = int(_insert(db, "campaigns", row | {"jobs": jobs}).lastrowid or 0)
            db.executemany("INSERT INTO matrix VALUES (?, ?)", [(number, run) for run in runs])
            self.add_host(number, "", host)
        return number

    def add_host(
        self, campaign: int, name: str, facts: Mapping[str, Any], disturbances: Sequence[str] | None = None
    ) -> None:
        """Record or update a machine of a campaign; ``disturbances`` is None if nobody checked for any."""
        found = None if disturbances is None else _json(list(disturbances))
        row = {"campaign": campaign, "name": name, "facts": _json(dict(facts)), "disturbances": found}
        with self.transaction() as db:
            _insert(db, "hosts", row, key=("campaign", "name"))

    def end_campaign(self, campaign: int, ended: str, disturbances: Mapping[str, Sequence[str]]) -> None:
        """Record when a campaign ended, and the disturbances of each machine that was checked, by name."""
        found = [(_json(list(words)), campaign, storable(name)) for name, words in disturbances.items()]
        with self.transaction() as db:
            db.execute("UPDATE campaigns SET ended = ? WHERE id = ?", (ended, campaign))
            db.executemany("UPDATE hosts SET disturbances = ? WHERE campaign = ? AND name = ?", found)

    def add_instance(
        self, checksum: str, name: str, track: str, summary: Mapping[str, Any], published: Mapping[str, Any]
    ) -> None:
        """Record or update an instance."""
        facts = {"summary": _json(dict(summary)), "published": _json(dict(published))}
        with self.transaction() as db:
            _insert(db, "instances", {"checksum": checksum, "id": name, "track": track, **facts}, key=("checksum",))

    def add_solver(
        self, solver_hash: str, track: str, name: str, kind: str, source: str, description: str, params: Any
    ) -> None:
        row = {"hash": solver_hash, "track": track, "name": name, "kind": kind, "source": source}
        with self.transaction() as db:
            facts = {"description": description, "params": _json(params)}
            _insert(db, "solvers", row | facts, key=("track", "name", "hash"))

    def add_run(self, campaign: int, run: Record) -> None:
        """Record a run with its incumbents and bounds, whole or not at all; replaces a run of the same id."""
        row = {"campaign": campaign, **_columns(run)}
        found = enumerate(run.incumbents)
        incumbents = [(run.id, i, x.time_s, int(x.feasible), decimal(x.cost), as_float(x.cost)) for i, x in found]
        bounds = [(run.id, i, x.time_s, decimal(x.value), as_float(x.value)) for i, x in enumerate(run.bounds)]
        with self.transaction() as db:
            for table in ("incumbents", "bounds", "certificates"):
                db.execute(f"DELETE FROM {table} WHERE run = ?", (run.id,))
            _insert(db, "runs", row, key=("id",))
            db.executemany("INSERT INTO incumbents VALUES (?, ?, ?, ?, ?, ?)", incumbents)
            db.executemany("INSERT INTO bounds VALUES (?, ?, ?, ?, ?)", bounds)
            if run.certificate is not None:
                _insert(db, "certificates", _certificate(run.id, run.certificate))

    def finished(self) -> dict[str, str]:
        """Return the status of every recorded run by its id."""
        return dict(self._read("runs", ("id", "status")))

    def endings(self) -> dict[str, Ending]:
        """Return the end of every recorded run, by its id."""
        rows = self._read("runs", ("id", "cost", "lower_bound", *Ending._fields[1:]))
        return {name: Ending(cost is not None or bound is not None, *row) for name, cost, bound, *row in rows}

    def disturbances(self, campaign: int) -> list[tuple[str, str]]:
        """Return the disturbances of a campaign as (name of the machine, sentence)."""
        where = "WHERE campaign = ? AND disturbances IS NOT NULL ORDER BY name"
        rows = self._read("hosts", ("name", "disturbances"), where, campaign)
        return [(name, sentence) for name, found in rows for sentence in json.loads(found)]

    def solution(self, run: str) -> Any:
        """Return the best solution of a run, or None."""
        row = self.connection.execute("SELECT solution FROM runs WHERE id = ?", (run,)).fetchone()
        try:
            return None if row is None or row[0] is None else json.loads(zlib.decompress(row[0]))
        except (zlib.error, ValueError, TypeError, RecursionError):
            raise InputError(self.path, f"runs id {run!r} solution", "expected zlib of JSON") from None

    def add_solution(self, run: str, solution: Any) -> None:
        """Store the solution of a run."""
        with self.transaction() as db:
            db.execute("UPDATE runs SET solution = ? WHERE id = ?", (_packed(solution), run))

    def certificate(self, run: str) -> dict[str, Any] | None:
        """Return the certificate of a run; None if it sent none or one that is too large to be stored."""
        query = "SELECT content FROM certificates WHERE run = ?"
        row = self.connection.execute(query, (run,)).fetchone() if self._has("certificates") else None
        place = f"certificates run {run!r} content"
        try:
            document = None if row is None or row[0] is None else json.loads(zlib.decompress(row[0], wbits=31))
        except (zlib.error, ValueError, TypeError, RecursionError):
            raise InputError(self.path, place, "expected gzip of JSON") from None
        return None if document is None else certificates.require(document, f"{self.path}, {place}")

    def _has(self, table: str) -> bool:
        """Return False for the table of certificates if the database is of a version that had none."""
        query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        return self.connection.execute(query, (table,)).fetchone() is not None

    def has_solution(self, run: str) -> bool:
        """Return True if the best solution of a run is stored."""
        stored = "SELECT 1 FROM runs WHERE id = ? AND solution IS NOT NULL"
        return self.connection.execute(stored, (run,)).fetchone() is not None

    def log(self, run: str) -> str:
        """Return the log of a run."""
        [(log,)] = self._read("runs", ("log",), "WHERE id = ?", run)
        return str(log)

    def logs(self) -> Iterator[Row]:
        """Yield the id and the log of every run that has a log."""
        for batch in self._batches("runs", ("id", "log"), "WHERE log != ''"):
            yield from batch

    def rows(self, table: str) -> tuple[list[str], Sequence[Row]]:
        """Return the columns of a table without solutions, and all rows; InputError for an invalid value."""
        names = list(COLUMNS[table])
        return names, self._read(table, names)

    def select(self, table: str, names: Sequence[str]) -> Sequence[Row]:
        """Return some columns of all rows of a table; InputError for an invalid value."""
        return self._read(table, names)

    def batches(self, table: str, without: Collection[str] = ()) -> tuple[list[str], Iterator[Sequence[Row]]]:
        """Return the columns of a table, less some, and its rows in batches; InputError for an invalid value."""
        names = [name for name in COLUMNS[table] if name not in without]
        return names, self._batches(table, names)

    def _read(self, table: str, names: Sequence[str], where: str = "", *values: Any) -> Sequence[Row]:
        """Return some columns of the rows of a table, checked."""
        return list(chain.from_iterable(self._batches(table, names, where, *values)))

    def _batches(self, table: str, names: Sequence[str], where: str = "", *values: Any) -> Iterator[Sequence[Row]]:
        """Yield some columns of the rows of a table, checked, in batches."""
        try:
            if table == "certificates" and not self._has(table):
                return
            cursor = self.connection.execute(f"SELECT {', '.join(names)} FROM {table} {where}", values)
            while rows := cursor.fetchmany(BATCH):
                yield checked(self.path, table, names, rows)
        except UNREADABLE as error:
            columns = f"expected a table with the columns {', '.join(names)} that can be read ({_why(error)})"
            raise InputError(self.path, table, columns) from None


def _why(message: object) -> str:
    """Shorten a message of SQLite's, which can quote a whole schema, to one line."""
    return textwrap.shorten(str(message), MOST_SHOWN, placeholder=" …")


def _open_to_write(path: Path) -> sqlite3.Connection:
    make_folder(path.parent)
    connection = sqlite3.connect(path, timeout=BUSY_S, check_same_thread=False)
    with _closed_on_error(connection):
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        _require_whole(connection, path, create=True)
        connection.execute("PRAGMA foreign_keys=ON")
    return connection


def _open_to_read(path: Path) -> sqlite3.Connection:
    """Open a database without writing to its folder."""
    address = f"file:{quote(os.fsencode(path.resolve()))}"
    connection = sqlite3.connect(f"{address}?mode=ro", uri=True, timeout=BUSY_S)
    try:
        connection.execute("PRAGMA user_version")
    except sqlite3.OperationalError:  # a folder that cannot be written, where not even the database's log can be opened
        connection.close()
        connection = sqlite3.connect(f"{address}?immutable=1", uri=True)
    except sqlite3.DatabaseError:  # no database
        connection.close()
        raise
    with _closed_on_error(connection):
        _require_whole(connection, path)
    return connection


def _require_whole(connection: sqlite3.Connection, path: Path, *, create: bool = False) -> None:
    """Raise InputError for a database that has another schema or is damaged, as rows may be missing."""
    require_schema(connection, path, create=create)
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise InputError(path, "", f"expected an intact database, found damage ({_why(found)})")


@contextmanager
def _closed_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _columns(run: Record) -> dict[str, Any]:
    return {name: value for name, value in vars(run).items() if name not in ("incumbents", "bounds", "certificate")} | {
        "enforced": None if run.enforced is None else _json(dict(run.enforced)),
        "claimed": None if run.claimed is None else _json(dict(run.claimed)),
        "feasible": int(run.cost is not None),
        "cost": decimal(run.cost),
        "cost_float": as_float(run.cost),
        "lower_bound": decimal(run.lower_bound),
        "lower_bound_float": as_float(run.lower_bound),
        "solution": None if run.solution is None else _packed(run.solution),
    }


def _packed(solution: Any) -> bytes:
    return zlib.compress(json.dumps(solution).encode())


def _certificate(run: str, found: Certificate) -> dict[str, Any]:
    return {
        "run": run,
        "claimed": decimal(found.document["bound"]),
        "proven": decimal(found.proven),
        "bytes": len(found.content),
        "check_s": found.check_s,
        "reason": found.reason,
        "content": found.content if len(found.content) <= LARGEST_CERTIFICATE else None,
    }


def _json(value: Any) -> str:
    """Return a value as JSON; stray surrogates, which an escape would hide, are replaced."""
    return storable(json.dumps(value, ensure_ascii=False))


def _insert(db: sqlite3.Connection, table: str, row: Mapping[str, Any], key: Sequence[str] = ()) -> sqlite3.Cursor:
    """Insert a row or update the one with its key; replacing that would search every row that may refer to it."""
    update = ", ".join(f"{name} = excluded.{name}" for name in row if name not in key)
    otherwise = f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET {update}" if key else ""
    values = ", ".join(f":{name}" for name in row)
    stored = {name: storable(value) if isinstance(value, str) else value for name, value in row.items()}
    return db.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({values}){otherwise}", stored)
