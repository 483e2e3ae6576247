"""`shardmark records` as a user meets it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from referee import answer, refused, shardmark

from shardmark.harness.records.history import FOLDER


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the project's records of two tiny instances, of which only ``chain`` has a certificate."""
    copy = tmp_path / "records"
    for kind in ("solutions", "certificates"):
        shutil.copytree(FOLDER / kind, copy / kind)
    lines = [json.loads(line) for line in (FOLDER / "history.jsonl").read_text().splitlines()]
    kept = [line for line in lines if line["instance"] == "chain"]
    kept += [line for line in lines if line["instance"] == "overflow" and not line.get("certificate")]
    (copy / "history.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in kept))
    return copy


def test_records_are_listed_with_numbers_as_such(folder):
    rows = answer("records", "--suite", "tiny", "--track", "pipeline", "--records", folder)
    assert [row["instance"] for row in rows if row["cost"] is not None] == ["chain", "overflow"]
    assert (rows[0]["status"], rows[0]["cost"], rows[0]["over_published"]) == ("optimal", 11.0, 0.0)
    assert [row["grade"] for row in rows if row["cost"] is not None] == ["checked", "claimed"]
    assert "chain" in shardmark("records", "--instance", "chain", "--records", folder).stdout
    assert "did you mean 'chain'" in refused("records", "--instance", "chan")


def test_verify_says_what_is_wrong(folder):
    assert shardmark("records", "verify", "--records", folder).stdout == "2 verified, 0 not at hand, 0 wrong\n"
    (solution,) = (folder / "solutions").glob("chain-*.json.gz")
    solution.write_bytes(next((folder / "solutions").glob("overflow-*.json.gz")).read_bytes())
    result = shardmark("records", "verify", "--records", folder)
    assert result.returncode == 1
    wrong, counts = result.stdout.splitlines()
    assert "expected sha256" in wrong
    assert counts == "1 verified, 0 not at hand, 1 wrong"
    assert answer("records", "verify", "--records", folder, "--instance", "overflow") == [
        {"instance": "overflow", "result": "verified", "reason": ""}
    ]


def test_grades_of_optimal_records_are_counted_once_their_certificates_were_checked(folder):
    (row,) = answer("records", "grades", "--track", "pipeline", "--records", folder)
    assert (row["track"], row["optimal"], row["checked"]) == ("pipeline", 2, 1)
    assert row["agreed"] + row["claimed"] == 1
    assert row["kib"] > 0
    (certificate,) = (folder / "certificates").glob("chain-*")
    certificate.unlink()
    (row,) = answer("records", "grades", "--track", "pipeline", "--records", folder)
    assert (row["checked"], row["kib"]) == (0, 0)
    assert "expected a file" in shardmark("records", "verify", "--records", folder, "--instance", "chain").stdout


def test_export_to_a_file_and_to_the_output(folder, tmp_path):
    path = tmp_path / "records.solu"
    assert answer("records", "export", "solu", "--records", folder, "--output", path) == {"output": str(path)}
    lines = path.read_text().splitlines()
    assert "=opt= chain 11.0" in lines
    assert "=unkn= diamond" in lines
    assert shardmark("records", "export", "csv", "--instance", "chain", "--records", folder).stdout.count("\n") == 2
    assert "a folder" in refused("records", "export", "json", "--output", tmp_path)
    assert "expected a folder of records" in refused("records", "export", "json", "--records", tmp_path / "nowhere")


def test_update_takes_what_a_run_improved(folder, tmp_path):
    instance = ("--instance", "slicing-trap-8", "--solver", "random-1", "--timeout", "60")
    assert shardmark("run", *instance, "--results", tmp_path / "better", "--quiet").returncode == 0
    (change,) = answer("records", "update", tmp_path / "better", "--records", folder, "--by", "Ada")
    assert (change["instance"], change["kind"], change["taken"]) == ("slicing-trap-8", "cost", True)
    before = (folder / "history.jsonl").read_bytes()
    again = shardmark("records", "update", tmp_path / "better", "--records", folder)
    assert (again.returncode, again.stdout) == (0, "took 0 costs and 0 bounds, refused 0\n")
    assert (folder / "history.jsonl").read_bytes() == before
    assert "results.sqlite" in refused("records", "update", tmp_path / "none", "--records", folder)


def test_withdrawn_bounds_no_longer_count_and_the_list_says_why(folder):
    words = ("--method", "reweighted", "--reason", "A test.", "--by", "Ben", "--records", folder)
    result = shardmark("records", "withdraw", *words)
    assert (result.returncode, result.stdout.splitlines()[-1]) == (0, "withdrew 2 bounds of reweighted")
    listed = shardmark("records", "--instance", "chain", "--records", folder)
    assert " open " in listed.stdout
    assert "2 bounds of reweighted: A test." in listed.stderr
    assert "overflow" in shardmark("records", "--instance", "overflow", "--records", folder).stdout
    refusal = refused("records", "withdraw", *words)
    assert "that still has bounds on the chosen instances: exact; found 'reweighted'" in refusal
    assert "--reason" in refused("records", "withdraw", "--method", "exact", "--records", folder)
    assert "--by: expected a text" in refused("records", "withdraw", *words, "--by", "")
    version = ("--version", "f15e00d13667", "--instance", "overflow", "--json")
    (line,) = answer("records", "withdraw", "--method", "exact", *words[2:], *version)
    assert (line["instance"], line["kind"], line["by"]) == ("overflow", "withdrawn", "Ben")
