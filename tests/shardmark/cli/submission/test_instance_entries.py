"""Instances that a branch proposes: entries of the catalog that hold for their files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from shardmark.cli.submission.changes import CATALOG, INSTANCE, Added, Changes
from shardmark.cli.submission.instance_entries import proposed_instances
from shardmark.instances import catalog

CHAIN = catalog.locate(catalog.find("chain")).read_text().replace('"chain"', '"new"')
ENTRY = f"""
[[instances]]
id = "new"
track = "pipeline"
path = "pipeline/new.json"
checksum = "sha256:{hashlib.sha256(CHAIN.encode()).hexdigest()}"
time_limit_s = 60
suites = ["standard"]
"""


def examine(tmp_path: Path, entry: str, text: str = CHAIN, path: str = "instances/data/pipeline/new.json"):
    """Return the outcome of each check of the proposed instance, and the reason of each file that is left."""
    added = (Added(CATALOG, CATALOG, entry.encode()), Added(path, INSTANCE, text.encode()))
    found, left = proposed_instances(Changes("", "", added, (), ()), tmp_path)
    return [(c["check"], c["passed"]) for p in found for c in p.checks], [x.reason for x in left], found


def test_an_instance_is_read_and_its_runs_are_short(tmp_path: Path):
    checks, left, (proposed,) = examine(tmp_path, ENTRY)
    assert (checks, left) == (
        [("entry is valid", "yes"), ("file can be read", "yes"), ("file is the entry's", "yes")],
        [],
    )
    assert proposed.problem is not None
    assert (proposed.problem.instance.nodes, proposed.problem.timeout_s) == (5, 10.0)


@pytest.mark.parametrize(
    ("entry", "text", "failed"),
    [
        (ENTRY.replace('"new"', '"chain"'), CHAIN, "entry is valid"),
        (ENTRY.replace("pipeline/new.json", "pipeline/other.json"), CHAIN, "entry is valid"),
        (ENTRY.replace("pipeline/new.json", "../../harness/new.json"), CHAIN, "entry is valid"),
        (ENTRY, json.dumps({"format": "shardmark/pipeline/1"}), "file can be read"),
        (ENTRY, "[" * 100_000, "file can be read"),
        (ENTRY, f"{CHAIN} ", "file is the entry's"),
    ],
)
def test_an_entry_that_does_not_hold_fails(tmp_path: Path, entry: str, text: str, failed: str):
    checks, _, found = examine(tmp_path, entry, text)
    assert checks[-1] == (failed, "no")
    assert [proposed.problem for proposed in found] == [None]
    assert found[0].details


def test_two_entries_do_not_have_the_same_id(tmp_path: Path):
    checks, left, found = examine(tmp_path, ENTRY + ENTRY.replace("new.json", "other.json"))
    assert (checks[-1], left, len(found)) == (("entry is valid", "no"), [], 2)
    assert found[1].details == ["new: entry is valid: its id is taken"]


@pytest.mark.parametrize(
    "entry",
    [
        "nonsense",
        "[sources.mine]\n",
        f'{ENTRY}\n[[instances.more]]\nid = "x"\n',
        ENTRY.replace("time_limit_s = 60", "time_limit_s = -1"),
        ENTRY.replace("time_limit_s = 60", "time_limit_s = nan"),
        ENTRY.replace('"pipeline"', '"nowhere"'),
        ENTRY.replace('"new"', '"@maintainer"'),
        ENTRY.replace("suites", "extra"),
        f'{ENTRY}source = "iopddl"\n',
        f'{ENTRY}options = {{ path = "x" }}\n',
        f'{ENTRY}published.best_cost = "cheap"\n',
        f'{ENTRY}published = "cheap"\n',
        f"{ENTRY}published.source = 1979-05-27\n",
        f"{ENTRY}note = {'[' * 20_000}\n",
        f"{ENTRY}note = {'9' * 5_000}\n",
    ],
)
def test_a_malformed_catalog_is_left_with_the_files(tmp_path: Path, entry: str):
    assert examine(tmp_path, entry)[:2] == ([], ["malformed", "malformed"])


def test_a_file_without_an_entry_is_for_a_maintainer(tmp_path: Path):
    assert examine(tmp_path, "\n")[:2] == ([], ["outside"])
