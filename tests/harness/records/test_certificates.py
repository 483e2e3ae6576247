"""Certificates of recorded bounds are checked when they are taken, when they are verified and when they are graded."""

from __future__ import annotations

import gzip
import json
import re
from contextlib import closing
from pathlib import Path

import pytest

from shardmark.harness.records import certificates, files, history, updating
from shardmark.harness.records.best import BestKnown, best_known
from shardmark.harness.records.updating import Change
from shardmark.harness.records.verification import Finding, verify_records
from shardmark.harness.results.database import Store

#: Optimum 1: every stage has a share of the work.
NAME = "slicing-trap-8"
WORK = {"kind": "work"}
OPTIMUM = {"instance": NAME, "cost": 1.0, "lower_bound": 1.0, "solution": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0]}
CHECKED = {**OPTIMUM, "cost": None, "solution": None, "certificate": (WORK, 1)}


@pytest.fixture(autouse=True)
def no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDMARK_CACHE", str(tmp_path / "cache"))


def update(results: Path, folder: Path) -> list[tuple[str, str, str]]:
    with closing(Store.open(results)) as store:
        return [_told(change) for change in updating.update(store, folder, "Ada")]


def _told(change: Change) -> tuple[str, str, str]:
    return change.kind, change.value, change.reason


def record(folder: Path) -> BestKnown:
    (found,) = (record for record in best_known(folder) if record.entry.id == NAME)
    return found


def kept(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "certificates").glob("*"))


def test_a_checked_bound_replaces_a_claim_as_good(results, folder):
    claim = {**CHECKED, "certificate": (WORK, None)}
    assert update(results(claim), folder) == [("bound", "1.0", "")]
    assert (certificates.grade(record(folder)), kept(folder)) == ("claimed", [])
    assert update(results(CHECKED), folder) == [("bound", "1", "")]
    found = record(folder)
    assert found.bound is not None
    assert (found.bound.certificate != "", certificates.grade(found)) == (True, "checked")
    assert [f"certificates/{name}" for name in kept(folder)] == [certificates.name_of(found.bound)]
    assert verify_records(folder) == [Finding(NAME, "verified")]
    before = (folder / history.FILE_NAME).read_bytes()
    assert update(results(CHECKED), folder) == []
    assert (folder / history.FILE_NAME).read_bytes() == before


def test_what_a_certificate_proves_is_found_again_not_believed(results, folder):
    more = {**CHECKED, "lower_bound": 2.0, "certificate": (WORK, 2.0)}
    assert update(results(more), folder) == [("bound", "1", ""), ("bound", "2.0", "it is above the published cost 1")]


def test_a_certificate_that_proves_nothing_now_leaves_a_claim(results, folder):
    wrong = {**CHECKED, "certificate": ({"kind": "hope"}, 1)}
    assert update(results(wrong), folder) == [("bound", "1", "its certificate proves nothing"), ("bound", "1.0", "")]
    assert certificates.grade(record(folder)) == "claimed"


def test_a_certificate_that_was_not_stored_cannot_be_taken(results, folder, monkeypatch):
    monkeypatch.setattr("shardmark.harness.results.database.LARGEST_CERTIFICATE", 10)
    (refused, claimed) = update(results(CHECKED), folder)
    assert "the records keep at most 1048576" in refused[2]
    assert (claimed, kept(folder)) == (("bound", "1.0", ""), [])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({}, "expected sha256"),
        ({"bound": 1.5}, "expected sha256"),
        (None, "expected a file, found nothing of that name"),
    ],
)
def test_a_certificate_that_is_gone_or_changed_is_wrong(results, folder, change, sentence):
    update(results(CHECKED), folder)
    (path,) = (folder / "certificates").iterdir()
    assert certificates.grade(record(folder)) == "checked"
    if change is None:
        path.unlink()
    else:
        document = json.loads(gzip.decompress(path.read_bytes()))
        path.write_bytes(gzip.compress(json.dumps({**document, **change}).encode()))
    (found,) = verify_records(folder)
    assert (found.result, sentence in found.reason) == ("wrong", True)
    assert certificates.grade(record(folder)) == "claimed"


@pytest.mark.parametrize("last", ["bound", "proof"])
def test_a_bound_is_found_before_and_after_the_proof(results, folder, last):
    update(results(CHECKED), folder)
    (path,) = (folder / "certificates").iterdir()
    document = json.loads(gzip.decompress(path.read_bytes()))
    document["proof"]["parts"] = [{"kind": 1, "proof": 2}]
    document[last] = document.pop(last)
    new = files.digest(document)
    lines = (folder / history.FILE_NAME).read_text()
    (old,) = re.findall(r'"certificate": "(\w+)"', lines)
    (folder / history.FILE_NAME).write_text(lines.replace(old, new))
    files.write(path.with_name(path.name.replace(old[:12], new[:12])), document)
    assert certificates.grade(record(folder)) == "checked"


def test_a_certificate_of_less_than_its_line_is_wrong(results, folder):
    update(results(CHECKED), folder)
    path = folder / history.FILE_NAME
    path.write_text(path.read_text().replace('"value": "1"', '"value": "1.0000000001"'))
    (found,) = verify_records(folder)
    assert found.reason == "the certificate of its bound 1.0000000001 of a-method: it proves only 1"
    assert certificates.grade(record(folder)) == "claimed"


def test_findings_are_cached_by_content(results, folder, monkeypatch):
    update(results(CHECKED), folder)
    found = record(folder)
    assert certificates.grade(found, certificates.checked) == "checked"
    monkeypatch.setattr("shardmark.harness.verify.certificates.apart.sys.executable", "/bin/false")
    assert certificates.grade(found, certificates.checked) == "checked"
    monkeypatch.setattr(certificates, "_version", lambda: "another")
    assert certificates.grade(found, certificates.checked) == "claimed"
    assert certificates.grade(found) == "checked"
