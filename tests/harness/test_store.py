"""The database keeps exact numbers, whole runs or none, and refuses what is not its own."""

from __future__ import annotations

import dataclasses
import sqlite3

import pytest

from harness.store import FILE_NAME, Bound, Incumbent, Record, Store
from instances import InputError


def a_run(run_id: str = "r1", **changes) -> Record:
    run = Record(
        id=run_id,
        track="intraop",
        instance="i",
        checksum="c",
        solver="s",
        kind="solver",
        solver_hash="h",
        seed=0,
        timeout_s=1.0,
        memory_mib=2.0,
        cores=1,
        started="now",
        stop="exit",
        status="ok",
        reason="",
        cost=10**25 + 1,
        lower_bound=10**25,
        wall_s=0.1,
        cpu_s=0.1,
        peak_mib=10.0,
        solution=[1, 2],
        log="l",
        incumbents=(Incumbent(0.1, False, 5), Incumbent(0.2, True, 10**25 + 1)),
        bounds=(Bound(0.1, 10**25),),
    )
    return dataclasses.replace(run, **changes)


@pytest.fixture
def store(tmp_path):
    store = Store.open(tmp_path, create=True)
    store.add_campaign("now", ["shardmark", "run"], "0", {"cpu": "x"})
    store.add_instance("c", "i", "intraop", {}, {})
    yield store
    store.close()


def test_costs_beyond_64_bits_stay_exact(store):
    store.add_run(1, a_run())
    names, (row,) = store.rows("runs")
    found = dict(zip(names, row, strict=True))
    assert found["cost"] == str(10**25 + 1)
    assert found["lower_bound"] == str(10**25)
    assert store.rows("incumbents")[1][1][4] == str(10**25 + 1)
    assert store.solution("r1") == [1, 2]


def test_a_run_done_again_replaces_the_old_one_whole(store):
    store.add_run(1, a_run())
    store.add_run(1, a_run(status="timeout", incumbents=(), bounds=()))
    assert store.finished() == {"r1": "timeout"}
    assert store.rows("incumbents")[1] == []
    assert store.rows("bounds")[1] == []


def test_a_run_is_stored_whole_or_not_at_all(store):
    twice = (Incumbent(0.1, True, 1), "not an incumbent")
    with pytest.raises(AttributeError):
        store.add_run(1, a_run(incumbents=twice))
    with pytest.raises(sqlite3.IntegrityError):
        store.add_run(1, a_run(checksum="unknown"))
    assert store.finished() == {}


def test_the_database_is_read_again_from_disk(store, tmp_path):
    store.add_run(1, a_run())
    again = Store.open(tmp_path)
    assert again.finished() == {"r1": "ok"}
    assert again.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert again.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    again.close()


def test_no_database_is_a_sentence(tmp_path):
    with pytest.raises(InputError, match=r"expected a results folder with results.sqlite, run `shardmark run` first"):
        Store.open(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("content", [b"no database at all, but long enough to be looked at" * 50, b"SQLite"])
def test_a_file_that_is_no_database_is_a_sentence(tmp_path, content):
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(InputError, match="expected a results database that can be opened"):
        Store.open(tmp_path)


def test_a_newer_schema_is_refused(store, tmp_path):
    store.connection.execute("PRAGMA user_version=99")
    with pytest.raises(InputError, match="expected schema 1, found 99"):
        Store.open(tmp_path)
