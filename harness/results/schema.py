"""The schema of the results database: every table and column."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from shardmark.instances import InputError

VERSION = 3

SCHEMA = """
CREATE TABLE campaigns (          -- one call of `shardmark run`
  id INTEGER PRIMARY KEY,
  started TEXT NOT NULL,          -- UTC, ISO 8601
  ended TEXT,                     -- UTC, ISO 8601; NULL while it is under way, and if it was killed
  command TEXT NOT NULL,          -- JSON list of arguments
  version TEXT NOT NULL,          -- of shardmark
  executor TEXT NOT NULL,         -- executor of its runs: 'local' or 'dask'
  jobs INTEGER                    -- runs at once; NULL: not recorded
);
CREATE TABLE hosts (              -- the machines of a campaign
  campaign INTEGER NOT NULL REFERENCES campaigns(id),
  name TEXT NOT NULL,             -- '' for the referee's own
  facts TEXT NOT NULL,            -- JSON object, see `shardmark.harness.campaign.host.facts`
  disturbances TEXT,              -- JSON list of sentences on throttling, swapping, stolen time and the like, found
                                  --   after the campaign; NULL if not checked
  PRIMARY KEY (campaign, name)
) WITHOUT ROWID;
CREATE TABLE instances (          -- one row per content, so that pages need no instance files
  checksum TEXT PRIMARY KEY,      -- SHA-256 of the decompressed file, its track and its options
  id TEXT NOT NULL,               -- catalog id, or the file's name
  track TEXT NOT NULL,
  summary TEXT NOT NULL,          -- JSON object: facts from Instance.summary()
  published TEXT NOT NULL         -- JSON object: catalog facts (best_cost, lower_bound as decimal text, source, ...)
);
CREATE TABLE solvers (            -- one row per solver version
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
  timeout_s REAL NOT NULL,        -- limit on wall time
  memory_mib REAL NOT NULL,       -- limit on memory, whole process tree
  cores INTEGER NOT NULL,
  started TEXT NOT NULL,          -- UTC, ISO 8601
  stop TEXT NOT NULL,             -- why it ended: exit; timeout, cpu, memory, processes, output (a limit); crash,
                                  --   error, declined, import (the solver); lost, killed (from outside)
  status TEXT NOT NULL,           -- ok, or one of stop except exit, or infeasible, none (no solution or
                                  --   bound), misclaim (a claimed cost below the true one), contradiction (a bound
                                  --   above its own cost)
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
  log TEXT NOT NULL,              -- the last lines that the solver wrote to stderr and stdout
  cpu_limit_s REAL,               -- limit on CPU time, whole process tree; NULL: not recorded
  processes INTEGER,              -- limit on processes alive at once; NULL: not recorded
  output_mib REAL,                -- limit on messages, stdout, stderr and scratch files; NULL: not recorded
  backend TEXT,                   -- backend that enforced the limits: 'posix', 'benchexec', '' if nothing was run,
                                  --   NULL: not recorded
  enforced TEXT,                  -- JSON object with the keys wall, cpu, memory, cores, processes, output, network,
                                  --   files, each 'hard', 'polled' or 'none'; NULL: not recorded
  co_runners INTEGER,             -- most other runs on its machine at the same time; NULL: not recorded
  host TEXT NOT NULL DEFAULT '',  -- name of the machine in hosts
  claimed TEXT,                   -- JSON object, its claims: end ('done', 'error', 'declined', 'nothing'),
                                  --   cost and lower_bound (decimal text or null, the best of each), solutions and
                                  --   bounds (numbers of reports); NULL: not recorded
  verified TEXT                   -- of the best solution: 'feasible', 'infeasible', 'malformed' (none had the track's
                                  --   shape), 'nothing' (no solution)
);
CREATE TABLE matrix (             -- all runs of a campaign, including those that were there already
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
#: Added later: a database of an earlier shardmark gets it when it is next written.
CERTIFICATES = """
CREATE TABLE IF NOT EXISTS certificates (  -- the last certificate of a run that was asked for one, checked
  run TEXT PRIMARY KEY REFERENCES runs(id),
  claimed TEXT NOT NULL,          -- the lower bound that it claims, decimal text
  proven TEXT,                    -- the greatest that it proves, decimal text; NULL if its proof does not hold
  bytes INTEGER NOT NULL,         -- size of its file
  check_s REAL NOT NULL,          -- seconds of the check
  reason TEXT NOT NULL,           -- one sentence if it does not prove its bound, else empty
  content BLOB                    -- its file, gzip of JSON; NULL if larger than 1 MiB
) WITHOUT ROWID;
"""


def require_schema(connection: sqlite3.Connection, path: Path, *, create: bool = False) -> None:
    """Raise InputError for a database of another schema; with ``create`` give an empty one this schema."""
    if create and _version(connection) == 0:
        with connection:
            connection.execute("BEGIN EXCLUSIVE")
            if _version(connection) == 0:  # another process may have created it meanwhile
                for statement in statements(SCHEMA):  # `executescript` would end the transaction
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version={VERSION}")
    found = _version(connection)
    if found == 0:
        raise InputError(path, "", "expected a database with the results of `shardmark run`, found one without any")
    if found != VERSION:
        raise InputError(path, "user_version", f"expected schema {VERSION}, found {found}: use another results folder")
    if create:
        connection.execute(CERTIFICATES)


def statements(script: str) -> Iterator[str]:
    """Split an SQL script; every statement ends with its line, and a comment may hold any character."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _version(connection: sqlite3.Connection) -> int:
    """Return the schema version of a database, 0 for one without a schema."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
