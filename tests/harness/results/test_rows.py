"""A damaged or edited results database: every command that reads it ends with an answer or with one sentence.

``SHARDMARK_DAMAGES=2000 pytest tests/harness/results/test_rows.py`` tries more than the ordinary tests do.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from effort import draws
from referee import shardmark

from shardmark.harness.results.rows import COLUMNS

pytestmark = [pytest.mark.usefixtures("posix_for_auto"), pytest.mark.gate(cases=2)]

DAMAGES = int(os.environ.get("SHARDMARK_DAMAGES", str(draws(4, 4, 200))))
#: Values of edited cells: numbers and texts of every kind, in every column.
VALUES = [
    *(None, 0, -1, 2, 2**63 - 1, -(2**63), 0.5, 5e-324, 1e308, -1e308, float("inf"), float("-inf")),
    *("", "0", "-1", "1e999", "-1e999", "1e-999", "5e-324", "1e308", "1/3", "nan", "inf"),
    *("7" * 6001, "0." + "0" * 6000 + "1"),
    *("<x>", "a\u202eb", "\x00", "é" * 5000, "../../x", "intraop", "pipeline", "solver", "bound", "ok", "declined"),
    *(b"\xff\xfe", b"", "[", "[]", "{}", "null", "[1]", "[null]", '{"a": [1]}', '"\\ud800"', '{"\\ud800": "\\udfff"}'),
    *("[" * 100_000, "9" * 5000, "NaN", '{"nodes": NaN, "best_cost": 1e999}', '{"packages": 3}', '{"end": 3}'),
    *("2025-01-01", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2025-01-31T12:00:00+00:00"),
]


def chance_of(database: sqlite3.Connection, chance: random.Random) -> tuple[str, str, int]:
    """A table, a column and a row number of a database."""
    table = chance.choice(sorted(COLUMNS))
    column = chance.choice([found[1] for found in database.execute(f"PRAGMA table_info({table})")])
    (rows,) = database.execute(f"SELECT count(*) FROM {table}").fetchone()
    return table, column, chance.randrange(max(rows, 1))


def edit(path: Path, chance: random.Random) -> str:
    """Put a value into a cell, or into a whole column."""
    with closing(sqlite3.connect(path)) as database, database:
        table, column, row = chance_of(database, chance)
        value = chance.choice(VALUES)
        keys = [found[1] for found in database.execute(f"PRAGMA table_info({table})") if found[5]]
        one = f"({', '.join(keys)}) = (SELECT {', '.join(keys)} FROM {table} LIMIT 1 OFFSET {row})"
        where = "1" if chance.random() < 0.2 else one
        database.execute(f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {where}", (value,))
    return f"{table} {column} {where}: {value!r:.60}"


def forget(path: Path, chance: random.Random) -> str:
    """Drop rows, a column, or a table."""
    with closing(sqlite3.connect(path)) as database, database:
        table, column, _ = chance_of(database, chance)
        deletions = [f"DELETE FROM {table} WHERE random() % 2", f"DELETE FROM {table}", f"DROP TABLE {table}"]
        names = [f"ALTER TABLE {table} RENAME TO other", f"ALTER TABLE {table} RENAME {column} TO other"]
        statement = chance.choice(deletions + names)
        database.execute(statement)
    return statement


def flip(path: Path, chance: random.Random) -> str:
    """Change some bytes of the file, anywhere, or in a row."""
    content = bytearray(path.read_bytes())
    places = [chance.randrange(len(content)) for _ in range(chance.choice([1, 1, 3, 30]))]
    if chance.random() < 0.5:  # most of the file is free space, or a table that nobody reads
        full = [place for place, byte in enumerate(content) if byte]
        places = [chance.choice(full) for _ in places]
    for place in places:
        content[place] = chance.choice([content[place] ^ 1 << chance.randrange(8), chance.randrange(256)])
    path.write_bytes(content)
    return f"bytes {places}"


def cut(path: Path, chance: random.Random) -> str:
    """Truncate the file."""
    size = chance.randrange(path.stat().st_size)
    os.truncate(path, size)
    return f"cut to {size} bytes"


DAMAGE: list[Callable[[Path, random.Random], str]] = [edit, edit, edit, edit, forget, flip, flip, flip, cut]


@pytest.fixture(scope="module")
def whole(tmp_path_factory, chain) -> Path:
    """A results folder of a reproduction and of two other campaigns, with drawings of solutions."""
    folder = tmp_path_factory.mktemp("whole") / "results"
    for command in (reproduced(chain, folder), *resumed(chain, folder)):
        status, _, err = shardmark(*command)
        assert status == 0, err
    with closing(sqlite3.connect(folder / "results.sqlite")) as database:
        database.execute("PRAGMA journal_mode=DELETE")  # one file
    return folder


def reproduced(chain, results: Path) -> list[object]:
    """The command of a reproduction that does one run of each method."""
    methods = ["--bounds", "simple", "--stages", 2, "--timeout", 5, "--bound-timeout", 5, "--quiet"]
    places = ["--results", results, "--output", results.parent / "site"]
    return ["reproduce", "practitioner", "--instance", chain.path, *methods, *places]


def resumed(chain, results: Path) -> list[list[object]]:
    """Commands of campaigns that are done."""
    end = ["--timeout", 5, "--quiet", "--results", results]
    return [
        ["run", "--instance", chain.path, "--solver", "simple", "--solver", "random-1", *end],
        ["run", "--instance", "dataflow-12", "--solver", "hash-fifo", *end],
    ]


def commands(chain, results: Path, chance: random.Random) -> list[object]:
    """One of the commands that read results."""
    table = chance.choice(["runs", "solvers", "incumbents", "bounds", "published", "campaigns", "hosts"])
    told = ["results", "--results", results, "--table", table]
    site = ["leaderboard", "--results", results, "--output", results.parent / "site"]
    return chance.choice(
        [
            [*told, "--csv", results.parent / "table.csv"],
            [*told, "--json", "--parquet", results.parent / "table.parquet"],
            *[site, site],
            *resumed(chain, results)[: chance.random() < 0.5],
            *[reproduced(chain, results)][: chance.random() < 0.5],
        ]
    )


@pytest.mark.parametrize("seed", range(DAMAGES))
def test_a_damaged_database_gets_an_answer_or_one_sentence(seed, whole, chain, tmp_path):
    chance = random.Random(seed)
    results = tmp_path / "results"
    shutil.copytree(whole, results)
    try:
        damage = chance.choice(DAMAGE)(results / "results.sqlite", chance)
    except sqlite3.Error as error:
        damage = f"refused: {error}"
    command = commands(chain, results, chance)
    print(f"{damage}; {' '.join(map(str, command))}")
    status, _, err = shardmark(*command)
    messages = [line for line in err.splitlines() if line.startswith("shardmark: ")]
    if status == 2:
        assert len(messages) == 1
        assert err.endswith(f"{messages[0]}\n")
        assert messages[0].startswith((f"shardmark: {results}", "shardmark: results"))
        assert "expected" in messages[0]
        assert len(messages[0]) < 1000
    else:
        assert status in (0, 1)
        assert messages == []
