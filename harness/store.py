"""The results database: SQLite in WAL mode, one transaction a run; a run done again replaces itself whole."""

from __future__ import annotations

import fcntl
import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from instances import InputError

FILE_NAME = "results.sqlite"
LOCK_NAME = ".lock"
VERSION = 1

SCHEMA = """
CREATE TABLE campaigns (          -- one call of `shardmark run`
  id INTEGER PRIMARY KEY,
  started TEXT NOT NULL,          -- UTC, ISO 8601
  command TEXT NOT NULL,          -- JSON list of arguments
  version TEXT NOT NULL,          -- of shardmark
  host TEXT NOT NULL              -- JSON object: cpu, cores, memory_mib, os, python, packages
);
CREATE TABLE instances (          -- what was solved; a row a content, so that pages need no instance files
  checksum TEXT PRIMARY KEY,      -- SHA-256 of the decompressed file, and its options
  id TEXT NOT NULL,               -- catalog id, or the file's name
  track TEXT NOT NULL,
  summary TEXT NOT NULL,          -- JSON object: facts from Instance.summary()
  published TEXT NOT NULL         -- JSON object: catalog facts (best_cost, lower_bound as decimal text, source, ...)
);
CREATE TABLE solvers (            -- who solved; a row a version of a solver
  hash TEXT NOT NULL,             -- of its source
  track TEXT NOT NULL,
  name TEXT NOT NULL,
  kind TEXT NOT NULL,             -- 'solver' or 'bound'
  source TEXT NOT NULL,           -- citation
  description TEXT NOT NULL,
  params TEXT NOT NULL,           -- JSON object
  PRIMARY KEY (track, name, hash)
);
CREATE TABLE runs (
  id TEXT PRIMARY KEY,            -- SHA-256 of the definition: instance, solver, parameters, seed and limits
  campaign INTEGER NOT NULL REFERENCES campaigns(id),
  track TEXT NOT NULL,
  instance TEXT NOT NULL,         -- catalog id, or the file's name
  checksum TEXT NOT NULL REFERENCES instances(checksum),
  solver TEXT NOT NULL,
  kind TEXT NOT NULL,             -- 'solver' or 'bound'
  solver_hash TEXT NOT NULL,
  seed INTEGER NOT NULL,
  timeout_s REAL NOT NULL,
  memory_mib REAL NOT NULL,
  cores INTEGER NOT NULL,
  started TEXT NOT NULL,          -- UTC, ISO 8601
  stop TEXT NOT NULL,             -- why the process ended: exit, timeout, memory, crash, error, declined, import
  status TEXT NOT NULL,           -- what it is worth: ok, timeout, memory, crash, error, declined, infeasible,
                                  --   none (no solution or bound), contradiction
  reason TEXT NOT NULL,           -- one sentence, empty for ok
  feasible INTEGER NOT NULL,      -- 1 if at least one verified feasible solution
  cost TEXT,                      -- least verified cost, decimal text, exact; NULL if none
  cost_float REAL,
  lower_bound TEXT,               -- greatest bound reported, decimal text; NULL if none
  lower_bound_float REAL,
  wall_s REAL NOT NULL,           -- start of the process to its end, the referee's clock
  cpu_s REAL NOT NULL,            -- user + system, whole process tree
  peak_mib REAL NOT NULL,         -- greatest memory of the whole process tree
  solution BLOB,                  -- zlib of the JSON of the best solution; NULL if none
  log TEXT NOT NULL               -- the last lines that the solver wrote to stderr and stdout
);
CREATE TABLE matrix (             -- which runs a campaign was about, those that were there already among them
  campaign INTEGER NOT NULL REFERENCES campaigns(id),
  run TEXT NOT NULL,
  PRIMARY KEY (campaign, run)
) WITHOUT ROWID;
CREATE INDEX runs_by_instance ON runs (track, instance, solver, seed);
CREATE TABLE incumbents (         -- every solution reported in time
  run TEXT NOT NULL REFERENCES runs(id),
  number INTEGER NOT NULL,        -- 0, 1, ... in the order of arrival
  time_s REAL NOT NULL,           -- arrival at the referee after the start of the process
  feasible INTEGER NOT NULL,
  cost TEXT,                      -- verified, decimal text; NULL if malformed
  cost_float REAL,
  PRIMARY KEY (run, number)
) WITHOUT ROWID;
CREATE TABLE bounds (             -- every lower bound reported in time
  run TEXT NOT NULL REFERENCES runs(id),
  number INTEGER NOT NULL,
  time_s REAL NOT NULL,
  value TEXT NOT NULL,
  value_float REAL NOT NULL,
  PRIMARY KEY (run, number)
) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Incumbent:
    """A reported solution after verification; ``cost`` None if it was malformed."""

    time_s: float
    feasible: bool
    cost: int | float | None


@dataclass(frozen=True)
class Bound:
    """A reported lower bound."""

    time_s: float
    value: int | float


@dataclass(frozen=True)
class Record:
    """One run as it is stored; the fields are documented in `SCHEMA`."""

    id: str
    track: str
    instance: str
    checksum: str
    solver: str
    kind: str
    solver_hash: str
    seed: int
    timeout_s: float
    memory_mib: float
    cores: int
    started: str
    stop: str
    status: str
    reason: str
    cost: int | float | None
    lower_bound: int | float | None
    wall_s: float
    cpu_s: float
    peak_mib: float
    solution: Any = None
    log: str = ""
    incumbents: Sequence[Incumbent] = field(default=())
    bounds: Sequence[Bound] = field(default=())


def decimal(value: int | float | None) -> str | None:
    """Exact decimal text of a cost: all digits of an int, the shortest text that reads back for a float."""
    return None if value is None else repr(value)


def as_float(value: int | float | None) -> float | None:
    """The cost as float64, for arithmetic that need not be exact."""
    return None if value is None else float(value)


def storable(text: str) -> str:
    """The text with what UTF-8 cannot hold replaced: names and messages can carry stray bytes."""
    return text.encode("utf-8", "replace").decode()


def make_folder(folder: Path) -> None:
    """Make a folder unless it is there; InputError if it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(folder, "", f"expected a folder that can be written ({error.strerror})") from None


@contextmanager
def exclusive(folder: str | Path) -> Iterator[None]:
    """Hold a results folder, made if need be, for one campaign; InputError if another one is under way in it."""
    make_folder(Path(folder))
    try:
        lock = (Path(folder) / LOCK_NAME).open("w")
    except OSError as error:
        raise InputError(folder, "", f"expected a folder that can be written ({error.strerror})") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(folder, "", "expected no other `shardmark run` at work in this folder") from None
        yield


class Store:
    """The database of one results folder; open it with ``Store.open``."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    @classmethod
    def open(cls, folder: str | Path, *, create: bool = False) -> Store:
        """Open the database of a folder, to read it, or with ``create`` to write, making it if there is none.

        Raises InputError if there is nothing to read or it is not ours.
        """
        path = Path(folder) / FILE_NAME
        if not create and not path.is_file():
            raise InputError(folder, "", f"expected a results folder with {FILE_NAME}, run `shardmark run` first")
        try:
            connection = cls._connect_to_write(path) if create else cls._connect_to_read(path)
            found = connection.execute("PRAGMA user_version").fetchone()[0]
            if found != VERSION:
                raise InputError(path, "user_version", f"expected schema {VERSION}, found {found}")
        except sqlite3.Error as error:
            raise InputError(path, "", f"expected a results database that can be opened ({error})") from None
        return cls(connection)

    @staticmethod
    def _connect_to_write(path: Path) -> sqlite3.Connection:
        make_folder(path.parent)
        connection = sqlite3.connect(path, timeout=30.0, check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA foreign_keys=ON")
        if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
            connection.executescript(f"BEGIN EXCLUSIVE; {SCHEMA} PRAGMA user_version={VERSION}; COMMIT;")
        return connection

    @staticmethod
    def _connect_to_read(path: Path) -> sqlite3.Connection:
        address = f"file:{quote(str(path.resolve()))}"
        try:
            connection = sqlite3.connect(f"{address}?mode=ro", uri=True, timeout=30.0)
            connection.execute("PRAGMA user_version")
        except sqlite3.OperationalError:  # a folder that cannot be written, not even the log beside the database
            connection = sqlite3.connect(f"{address}?immutable=1", uri=True)
        return connection

    def close(self) -> None:
        """Close the database."""
        self.connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self.connection:
            self.connection.execute("BEGIN IMMEDIATE")
            yield self.connection

    def add_campaign(
        self, started: str, command: Sequence[str], version: str, host: Mapping[str, Any], runs: Sequence[str] = ()
    ) -> int:
        """Record a call of ``shardmark run`` and the ids of all runs it is about; return its number."""
        with self._transaction() as db:
            cursor = db.execute(
                "INSERT INTO campaigns (started, command, version, host) VALUES (?, ?, ?, ?)",
                (started, json.dumps(list(command)), version, json.dumps(dict(host))),
            )
            number = int(cursor.lastrowid or 0)
            db.executemany("INSERT INTO matrix VALUES (?, ?)", [(number, run) for run in runs])
        return number

    def add_instance(
        self, checksum: str, name: str, track: str, summary: Mapping[str, Any], published: Mapping[str, Any]
    ) -> None:
        """Record an instance, or what is known of it by now."""
        row = (checksum, storable(name), track, json.dumps(dict(summary)), json.dumps(dict(published)))
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO instances VALUES (?, ?, ?, ?, ?)", row)

    def add_solver(
        self, solver_hash: str, track: str, name: str, kind: str, source: str, description: str, params: Any
    ) -> None:
        """Record a version of a solver."""
        row = (solver_hash, track, name, kind, source, description, json.dumps(params))
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO solvers VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def add_run(self, campaign: int, r: Record) -> None:
        """Record a run with its incumbents and bounds, whole or not at all; replaces a run of the same id."""
        blob = None if r.solution is None else zlib.compress(json.dumps(r.solution).encode())
        instance, reason, log = map(storable, (r.instance, r.reason, r.log))
        run = (
            *(r.id, campaign, r.track, instance, r.checksum, r.solver, r.kind, r.solver_hash, r.seed),
            *(r.timeout_s, r.memory_mib, r.cores, r.started, r.stop, r.status, reason),
            *(int(r.cost is not None), decimal(r.cost), as_float(r.cost)),
            *(decimal(r.lower_bound), as_float(r.lower_bound), r.wall_s, r.cpu_s, r.peak_mib, blob, log),
        )
        incumbents = [
            (r.id, i, x.time_s, int(x.feasible), decimal(x.cost), as_float(x.cost)) for i, x in enumerate(r.incumbents)
        ]
        bounds = [(r.id, i, x.time_s, decimal(x.value), as_float(x.value)) for i, x in enumerate(r.bounds)]
        with self._transaction() as db:
            for table in ("incumbents", "bounds"):
                db.execute(f"DELETE FROM {table} WHERE run = ?", (r.id,))
            db.execute("DELETE FROM runs WHERE id = ?", (r.id,))
            db.execute(f"INSERT INTO runs VALUES ({', '.join('?' * len(run))})", run)
            db.executemany("INSERT INTO incumbents VALUES (?, ?, ?, ?, ?, ?)", incumbents)
            db.executemany("INSERT INTO bounds VALUES (?, ?, ?, ?, ?)", bounds)

    def finished(self) -> dict[str, str]:
        """Status of every recorded run, by its id."""
        return dict(self.connection.execute("SELECT id, status FROM runs").fetchall())

    def solution(self, run: str) -> Any:
        """The best solution of a run, or None."""
        row = self.connection.execute("SELECT solution FROM runs WHERE id = ?", (run,)).fetchone()
        return None if row is None or row[0] is None else json.loads(zlib.decompress(row[0]))

    def rows(self, table: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Column names and all rows of a table, the solutions left out."""
        columns = [c[1] for c in self.connection.execute(f"PRAGMA table_info({table})") if c[1] != "solution"]
        return columns, self.connection.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()
