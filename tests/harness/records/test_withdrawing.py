"""Withdrawals take back what they name, in one step, and leave the lines as they were."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from shardmark.harness.records import history, updating
from shardmark.harness.records.best import BestKnown, best_known, chosen
from shardmark.harness.records.withdrawing import withdraw
from shardmark.harness.results.database import Store
from shardmark.instances import InputError

REASON = "Its engine proved a false optimum."
PROVEN = {"instance": "diamond", "cost": 137, "lower_bound": 137, "solution": [0, 0, 2, 0], "solver": "liar"}


def update(results: Path, folder: Path) -> list[updating.Change]:
    with closing(Store.open(results)) as store:
        return updating.update(store, folder, "Ada")


def diamond(folder: Path) -> BestKnown:
    (found,) = chosen(best_known(folder), ids=["diamond"])
    return found


def test_what_was_withdrawn_is_open_until_a_later_run_proves_it_again(results, folder):
    update(results(PROVEN), folder)
    before = (folder / history.FILE_NAME).read_bytes()
    (line,) = withdraw(folder, "liar", REASON.replace(" ", "\n "), "Ada")
    assert (line.instance, line.value, line.version, line.reason) == ("diamond", "137", "0123456789ab", REASON)
    assert (folder / history.FILE_NAME).read_bytes().startswith(before)
    found = diamond(folder)
    assert (found.status, found.bound) == ("open", None)
    assert found.cost is not None
    (change,) = update(results(PROVEN), folder)
    assert (change.kind, change.value, change.before, change.reason) == ("bound", "137", None, "")
    assert diamond(folder).status == "optimal"
    (again,) = withdraw(folder, "liar", REASON, "Ada")
    assert again.value == "137"
    assert diamond(folder).status == "open"


def test_a_withdrawn_bound_refutes_no_cost(results, folder):
    update(results({**PROVEN, "cost": 141, "solution": [0, 0, 0, 0], "lower_bound": 135}), folder)
    path = folder / history.FILE_NAME
    path.write_text(path.read_text().replace('"value": "135"', '"value": "140"'))
    assert "refutes the recorded bound 140" in update(results({**PROVEN, "lower_bound": None}), folder)[0].reason
    withdraw(folder, "liar", REASON, "Ada")
    assert [(c.value, c.reason) for c in update(results({**PROVEN, "lower_bound": None}), folder)] == [("137", "")]


def test_versions_and_records_are_chosen(results, folder):
    update(results(PROVEN, {"instance": "triangle", "lower_bound": 1, "solver": "liar"}), folder)
    with pytest.raises(InputError, match="expected a version of liar with bounds, one of 0123456789ab, found abc"):
        withdraw(folder, "liar", REASON, "Ada", ["abc"])
    lines = withdraw(folder, "liar", REASON, "Ada", ["0123456789ab"], lambda records: chosen(records, ids=["triangle"]))
    assert [line.instance for line in lines] == ["triangle"]
    assert diamond(folder).status == "optimal"


@pytest.mark.parametrize(
    ("method", "reason", "sentence"),
    [
        (
            "lair",
            REASON,
            "expected a method that still has bounds on the chosen instances: liar; found 'lair'",
        ),
        ("liar", " ", "--reason: expected a sentence"),
    ],
)
def test_what_cannot_be_withdrawn_changes_nothing(results, folder, method, reason, sentence):
    update(results(PROVEN), folder)
    before = (folder / history.FILE_NAME).read_bytes()
    with pytest.raises(InputError, match=sentence):
        withdraw(folder, method, reason, "Ada")
    assert (folder / history.FILE_NAME).read_bytes() == before
    withdraw(folder, "liar", REASON, "Ada")
    with pytest.raises(InputError, match="chosen instances: none; found 'liar'"):
        withdraw(folder, "liar", REASON, "Ada")


def test_a_folder_without_records_has_nothing_to_withdraw(folder, tmp_path):
    with pytest.raises(InputError, match="chosen instances: none; found 'liar'"):
        withdraw(folder, "liar", REASON, "Ada")
    with pytest.raises(InputError, match="expected a folder of records"):
        withdraw(tmp_path / "nowhere", "liar", REASON, "Ada")
