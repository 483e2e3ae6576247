"""The database keeps exact numbers and complete runs, and refuses other files."""

from __future__ import annotations

import dataclasses
import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from shardmark.harness.results.database import FILE_NAME, Store
from shardmark.harness.results.ranking import tables
from shardmark.harness.results.records import Bound, Certificate, Incumbent, Record
from shardmark.harness.results.schema import statements
from shardmark.instances import InputError

MORNING, NOON, EVENING = (f"2025-11-21T{hour}:00:00+00:00" for hour in ("06", "12", "18"))


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
        cpu_limit_s=2.0,
        processes=64,
        output_mib=16.0,
        backend="posix",
        enforced={"wall": "hard", "memory": "polled", "network": "none"},
        co_runners=1,
        host="",
        claimed={"end": "done", "cost": None, "lower_bound": str(10**25), "solutions": 2, "bounds": 1},
        verified="feasible",
        incumbents=(Incumbent(0.1, False, 5), Incumbent(0.2, True, 10**25 + 1)),
        bounds=(Bound(0.1, 10**25),),
    )
    return dataclasses.replace(run, **changes)


@pytest.fixture
def store(tmp_path):
    store = Store.open(tmp_path, create=True)
    store.add_campaign(MORNING, ["shardmark", "run"], "0", {"cpu": "x"})
    store.add_instance("c", "i", "intraop", {}, {})
    yield store
    store.close()


def test_every_field_of_a_record_is_kept_and_costs_beyond_64_bits_stay_exact(store):
    store.add_run(1, a_run())
    assert store.rows("incumbents")[1][1][4] == str(10**25 + 1)
    names, (row,) = store.rows("runs")
    found = dict(zip(names, row, strict=True)) | {"solution": store.solution("r1")}
    for field in dataclasses.fields(Record):
        value = getattr(a_run(), field.name)
        if field.name in ("enforced", "claimed"):
            assert json.loads(found[field.name]) == value
        elif field.name in ("cost", "lower_bound"):
            assert found[field.name] == str(value)
        elif field.name not in ("incumbents", "bounds", "certificate"):
            assert found[field.name] == value


def test_a_repeated_run_replaces_the_old_one_completely(store):
    store.add_run(1, a_run())
    store.add_run(1, a_run(status="timeout", incumbents=(), bounds=()))
    assert store.finished() == {"r1": "timeout"}
    assert store.rows("incumbents")[1] == []
    assert store.rows("bounds")[1] == []


def test_a_run_is_stored_completely_or_not_at_all(store):
    twice = (Incumbent(0.1, True, 1), "not an incumbent")
    with pytest.raises(AttributeError):
        store.add_run(1, a_run(incumbents=twice))
    with pytest.raises(sqlite3.IntegrityError):
        store.add_run(1, a_run(checksum="unknown"))
    assert store.finished() == {}


def test_a_run_is_one_transaction_with_its_instance_and_its_solver(store):
    def keep(run):
        with store.transaction():
            store.add_instance("new", "j", "intraop", {}, {})
            store.add_solver("h", "intraop", "s", "solver", "", "", {})
            store.add_run(1, run)

    with pytest.raises(sqlite3.IntegrityError):
        keep(a_run(checksum="unknown"))
    assert [len(store.rows(table)[1]) for table in ("instances", "solvers", "runs")] == [1, 0, 0]
    keep(a_run(checksum="new"))
    assert [len(store.rows(table)[1]) for table in ("instances", "solvers", "runs")] == [2, 1, 1]


def test_facts_about_an_instance_are_updated(store):
    store.add_run(1, a_run())
    store.add_instance("c", "i", "intraop", {"nodes": 3}, {"best_cost": "5"})
    assert store.rows("instances")[1] == [("c", "i", "intraop", '{"nodes": 3}', '{"best_cost": "5"}')]


def test_a_database_that_another_process_holds_is_waited_for(store, tmp_path, monkeypatch):
    store.connection.execute("PRAGMA busy_timeout = 10")
    messages = []
    with closing(sqlite3.connect(tmp_path / "results.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        store.tell = lambda words: (messages.append(words), other.execute("ROLLBACK"))
        store.add_run(1, a_run())
        assert store.finished() == {"r1": "ok"}
        assert messages == [
            f"{tmp_path}/results.sqlite: waiting for another process that holds it (database is locked)"
        ]
        other.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr("shardmark.harness.results.database.PATIENCE_S", 0.0)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            store.add_run(1, a_run(status="timeout"))
    assert store.finished() == {"r1": "ok"}


def test_a_damaged_solution_is_a_sentence(store):
    store.add_run(1, a_run())
    store.connection.execute("UPDATE runs SET solution = '{broken'")
    with pytest.raises(InputError, match=r"results.sqlite: runs id 'r1' solution: expected zlib of JSON"):
        store.solution("r1")


def test_text_that_utf_8_cannot_hold_is_replaced(store):
    stray, held = "a\udc80", "a?"
    store.add_campaign(stray, [stray], stray, {"cpu": stray})
    store.add_host(2, stray, {}, [stray])
    store.end_campaign(2, "later", {stray: [stray]})
    store.add_instance("d", stray, stray, {"x": stray}, {"source": stray})
    store.add_solver("h", "intraop", stray, "solver", stray, stray, {"p": stray})
    store.add_run(2, a_run(solver=stray, instance=stray, log=stray, reason=stray, host=stray, claimed={"end": stray}))
    assert store.disturbances(2) == [(held, held)]
    for table in ("campaigns", "hosts", "instances", "solvers", "runs"):
        last = repr(store.connection.execute(f"SELECT * FROM {table}").fetchall()[-1])
        assert held in last
        assert "udc80" not in last


def test_nothing_is_searched_row_by_row_to_store_a_run(store):
    statements = []
    store.connection.set_trace_callback(statements.append)
    with store.transaction():
        store.add_instance("c", "i", "intraop", {}, {})
        store.add_solver("h", "intraop", "s", "solver", "", "", {})
        store.add_run(1, a_run())
    store.connection.set_trace_callback(None)
    changes = [statement for statement in statements if statement.split()[0] in ("INSERT", "UPDATE", "DELETE")]
    assert len(changes) == 9  # an instance, a solver, reports and certificate of an earlier run, the run, three reports
    for statement in changes:
        assert "REPLACE" not in statement  # it would search all rows that refer to the replaced one
        plan = store.connection.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
        assert not any("SCAN" in step[-1] for step in plan), statement


def test_machines_and_the_end_of_a_campaign_are_kept(store):
    second = store.add_campaign(NOON, ["shardmark"], "1", {"cpu": "y"}, ["r1"], executor="dask", jobs=3)
    store.add_host(second, "far", {"cpu": "z"})
    store.end_campaign(second, EVENING, {"far": ["It was hot."], "": []})
    store.add_host(second, "odd", {"cpu": "z"}, ["It swapped."])
    assert store.disturbances(second) == [("far", "It was hot."), ("odd", "It swapped.")]
    assert store.disturbances(1) == []
    names, rows = store.rows("campaigns")
    assert [dict(zip(names, row, strict=True)) for row in rows] == [
        {"id": 1, "started": MORNING, "ended": None, "command": '["shardmark", "run"]', "version": "0"}
        | {"executor": "local", "jobs": 1},
        {"id": 2, "started": NOON, "ended": EVENING, "command": '["shardmark"]', "version": "1"}
        | {"executor": "dask", "jobs": 3},
    ]
    assert store.rows("hosts") == (
        ["campaign", "name", "facts", "disturbances"],
        [
            (1, "", '{"cpu": "x"}', None),
            (2, "", '{"cpu": "y"}', "[]"),
            (2, "far", '{"cpu": "z"}', '["It was hot."]'),
            (2, "odd", '{"cpu": "z"}', '["It swapped."]'),
        ],
    )


KILLED = """
import dataclasses, os, signal, sys
from shardmark.harness.results.database import Store
from shardmark.harness.results.records import Record
from tests.harness.results.test_database import a_run
store = Store.open(sys.argv[1], create=True)
store.add_campaign("now", [], "0", {})
store.add_instance("c", "i", "intraop", {}, {})
store.add_run(1, a_run("done"))
with store.transaction():
    store.add_run(1, a_run("under way"))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_stored_run_survives_a_kill_and_one_under_way_leaves_no_trace(tmp_path):
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    assert subprocess.run(command, cwd=root, check=False).returncode == -signal.SIGKILL
    with closing(Store.open(tmp_path)) as store:
        assert store.finished() == {"done": "ok"}
        assert store.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_the_database_is_read_again_from_disk(store, tmp_path):
    store.add_run(1, a_run())
    with closing(Store.open(tmp_path)) as again:
        assert again.finished() == {"r1": "ok"}
        assert again.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert again.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_missing_database_is_a_sentence(tmp_path):
    with pytest.raises(InputError, match=r"expected a results folder with results.sqlite, run `shardmark run` first"):
        Store.open(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("content", [b"no database at all, but long enough to be looked at" * 50, b"SQLite"])
def test_a_file_that_is_no_database_is_a_sentence(tmp_path, content):
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(InputError, match="expected a results database that can be opened"):
        Store.open(tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"CREATE TABLE incumbents", b"CREATE TABLE \xcc\xcc\xccumbents"),  # SQLite quotes it, sqlite3 cannot decode it
        (b"CREATE TABLE incumbents", b"CREATE TXBLE incumbents"),
        (b"stop TEXT NOT NULL", b"stop TEXT NOT\x00NULL"),
    ],
)
def test_a_damaged_schema_is_one_short_sentence(store, tmp_path, old, new):
    store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = (tmp_path / FILE_NAME).read_bytes()
    assert old in content
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / FILE_NAME).write_bytes(content.replace(old, new, 1))
    with pytest.raises(InputError) as caught, closing(Store.open(copy)) as damaged:
        tables(damaged)
    assert caught.value.source == str(copy / FILE_NAME)
    assert caught.value.expected.startswith("expected a ")
    assert len(caught.value.expected) < 400


@pytest.mark.parametrize("found", [1, 99])
@pytest.mark.parametrize("create", [False, True])
def test_another_schema_is_refused(store, tmp_path, found, create):
    store.connection.execute(f"PRAGMA user_version={found}")
    with pytest.raises(InputError, match=f"expected schema 3, found {found}: use another results folder"):
        Store.open(tmp_path, create=create)


@pytest.mark.parametrize("statement", ["CREATE TABLE theirs (x)", ""], ids=["of others", "empty"])
def test_a_database_without_a_schema_is_not_read(tmp_path, statement):
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as other:
        other.execute(statement)
    (tmp_path / FILE_NAME).touch()
    with pytest.raises(InputError, match="found one without any"):
        Store.open(tmp_path)


def test_a_comment_in_the_schema_may_end_in_a_semicolon():
    script = "CREATE TABLE a ( -- one;\n  b TEXT -- ;\n);\nCREATE INDEX i ON a (b);\n"
    assert "".join(statements(script)) == script
    assert len(list(statements(script))) == 2


def test_a_log_that_is_no_text_is_reported(tmp_path: Path) -> None:
    with closing(Store.open(tmp_path, create=True)) as store:
        campaign = store.add_campaign(NOON, ["run"], "0.1.0", {})
        store.add_instance("c", "i", "intraop", {}, {})
        store.add_run(campaign, a_run())
        assert (store.log("r1"), list(store.logs())) == ("l", [("r1", "l")])
        store.connection.execute("UPDATE runs SET log = ?", (b"\xff",))
        for read in (lambda: store.log("r1"), lambda: list(store.logs())):
            with pytest.raises(InputError, match=r"runs .*log: expected a text"):
                read()


DOCUMENT = {
    "format": "shardmark/certificate/1",
    "track": "intraop",
    "instance": "c",
    "bound": 9.5,
    "proof": {"kind": "x"},
}


def test_a_certificate_is_kept_with_what_was_found(store):
    store.add_run(1, a_run(certificate=Certificate(DOCUMENT, 9, 0.25, "claims 9.5, but proves only 9")))
    names, (row,) = store.rows("certificates")
    found = dict(zip(names, row, strict=True))
    assert (found["run"], found["claimed"], found["proven"], found["check_s"]) == ("r1", "9.5", "9", 0.25)
    assert found["reason"] == "claims 9.5, but proves only 9"
    assert store.certificate("r1") == DOCUMENT
    store.add_run(1, a_run())
    assert (store.certificate("r1"), store.rows("certificates")[1]) == (None, [])


def test_of_a_large_certificate_only_the_findings_are_kept(store):
    noise = [str(hash((1, number))) for number in range(200_000)]
    store.add_run(1, a_run(certificate=Certificate({**DOCUMENT, "proof": {"noise": noise}}, None, 0.25, "no proof")))
    names, (row,) = store.rows("certificates")
    found = dict(zip(names, row, strict=True))
    assert (found["proven"], found["bytes"] > 1 << 20, store.certificate("r1")) == (None, True, None)


def test_a_database_of_an_earlier_version_has_no_certificates_until_it_is_written(store, tmp_path):
    store.connection.execute("DROP TABLE certificates")
    with closing(Store.open(tmp_path)) as read:
        assert (read.rows("certificates")[1], read.certificate("r1")) == ([], None)
    with closing(Store.open(tmp_path, create=True)) as written:
        written.add_run(1, a_run(certificate=Certificate(DOCUMENT, 9.5, 0.25, "")))
        assert written.certificate("r1") == DOCUMENT
