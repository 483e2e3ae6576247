"""A later campaign in the made-up database: a newer version of a solver, and a solver that is new."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from shardmark.harness.results.database import Store
from tests.leaderboard.conftest import HOST

NEWER = "ab" * 32  # version of `moves` in the later campaign
#: Copies the runs and the solutions of `moves` under another name or version, with other costs.
_COPY = """
CREATE TEMP TABLE copied AS SELECT * FROM runs WHERE solver = 'moves' AND solver_hash <> '{newer}';
CREATE TEMP TABLE reports AS SELECT * FROM incumbents WHERE run IN (SELECT id FROM copied);
UPDATE copied SET id = id || ' {name}', campaign = {campaign}, solver = '{name}', solver_hash = '{version}',
  started = '2099-11-22T06:00:00.000+00:00',
  cost = round(cost * {times}, 6), cost_float = round(cost_float * {times}, 6);
UPDATE reports SET run = run || ' {name}',
  cost = round(cost * {times}, 6), cost_float = round(cost_float * {times}, 6);
INSERT INTO runs SELECT * FROM copied;
INSERT INTO incumbents SELECT * FROM reports;
INSERT INTO matrix SELECT {campaign}, id FROM copied;
INSERT INTO solvers SELECT '{version}', track, '{name}', kind, source, description, params FROM solvers
  WHERE name = 'moves' AND hash <> '{newer}';
DROP TABLE copied;
DROP TABLE reports;
"""


def add_later(store: Store) -> int:
    """Add the campaign: `moves` with costs a tenth lower, and `newcomer`, which costs a twentieth more than it did."""
    command = ["shardmark", "run", "--solver", "moves"]
    campaign = store.add_campaign("2099-11-22T06:00:00+00:00", command, "0.1.0", HOST)
    with closing(sqlite3.connect(store.path)) as connection:
        for name, version, times in (("newcomer", "cd" * 32, 1.05), ("moves", NEWER, 0.9)):
            words = {"name": name, "version": version, "times": times, "campaign": campaign, "newer": NEWER}
            connection.executescript(_COPY.format(**words))
    return campaign
