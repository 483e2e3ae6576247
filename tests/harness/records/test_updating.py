"""Updates take what is better, never what is worse or does not verify, in one step and one after another."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from shardmark.harness.records import history, solutions, updating
from shardmark.harness.records.best import BestKnown, best_known
from shardmark.harness.records.updating import Change
from shardmark.harness.records.verification import Finding, verify_records
from shardmark.harness.results.database import Store
from shardmark.instances import InputError

#: Runs on an instance with the optimum 137: the cost of solution and bound are true.
OPTIMUM = {"instance": "diamond", "cost": 137, "lower_bound": 137, "solution": [0, 0, 2, 0]}
WORSE = {"instance": "diamond", "cost": 141, "lower_bound": 120, "solution": [0, 0, 0, 0]}


def update(results: Path, folder: Path) -> list[Change]:
    with closing(Store.open(results)) as store:
        return updating.update(store, folder, "Ada")


def record(folder: Path, name: str = "diamond") -> BestKnown:
    (found,) = (record for record in best_known(folder) if record.entry.id == name)
    return found


def test_improvements_are_appended_and_the_best_is_kept(results, folder):
    first = update(results(WORSE), folder)
    assert [(c.kind, c.value, c.before, c.reason) for c in first] == [
        ("cost", "141", None, ""),
        ("bound", "120", None, ""),
    ]
    before = (folder / history.FILE_NAME).read_bytes()
    second = update(results(OPTIMUM, {**WORSE, "id": "another"}), folder)
    assert [(c.kind, c.value, c.before) for c in second] == [("cost", "137", "141"), ("bound", "137", "120")]
    assert (folder / history.FILE_NAME).read_bytes().startswith(before)
    found = record(folder)
    assert (found.status, found.gap, len(found.history)) == ("optimal", 0.0, 4)
    line = found.cost
    assert line is not None
    assert (line.method, line.version, line.seed, line.timeout_s) == ("a-method", "0123456789ab", 7, 2.0)
    assert (line.machine, line.date, line.by) == ("Example 3000, 4 CPUs, 8 GiB", "2025-01-02", "Ada")
    assert [path.name for path in (folder / "solutions").iterdir()] == [Path(solutions.name_of(line)).name]
    assert verify_records(folder) == [Finding("diamond", "verified")]


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        ({**WORSE}, None),
        ({**OPTIMUM}, None),
        ({"instance": "diamond", "cost": 100, "solution": [0, 0, 1, 0]}, "not feasible"),
        ({"instance": "diamond", "cost": 100, "solution": [0, 0, 0, 0]}, "costs 141"),
        ({"instance": "diamond", "cost": 100, "solution": None}, "not feasible"),
        ({"instance": "diamond", "cost": 100, "solution": [0], "checksum": "b" * 64}, "different file"),
    ],
)
def test_nothing_worse_and_nothing_unverified_is_taken(results, folder, run, sentence):
    update(results(OPTIMUM), folder)
    before = (folder / history.FILE_NAME).read_bytes()
    changes = update(results(run), folder)
    assert [sentence is not None and sentence in change.reason for change in changes] == [True] * bool(sentence)
    assert (folder / history.FILE_NAME).read_bytes() == before


def test_nothing_is_taken_but_what_runs_found_and_proved(results, folder):
    place = results(WORSE)
    with closing(Store.open(place, create=True)) as store:
        ((checksum,),) = store.connection.execute("SELECT checksum FROM instances").fetchall()
        store.add_instance(checksum, "diamond", "intraop", {}, {"best_cost": "137", "lower_bound": "137"})
    assert [(change.kind, change.value) for change in update(place, folder)] == [("cost", "141"), ("bound", "120")]


def test_a_bound_above_the_best_cost_and_one_of_a_refuted_run_are_refused(results, folder):
    changes = update(
        results(WORSE, {"instance": "diamond", "lower_bound": 142, "solver": "liar"}, {**WORSE, "id": "x"}), folder
    )
    assert [(change.kind, change.value, bool(change.reason)) for change in changes] == [
        ("cost", "141", False),
        ("bound", "142", True),
        ("bound", "120", False),
    ]
    refuted = {"instance": "diamond", "lower_bound": 130, "status": "contradiction"}
    (change,) = update(results(refuted), folder)
    assert "contradicts itself" in change.reason


def test_a_cost_below_the_recorded_bound_is_left_to_a_human(results, folder):
    update(results(WORSE), folder)
    path = folder / history.FILE_NAME
    path.write_text(path.read_text().replace('"value": "120"', '"value": "140"'))
    (change,) = update(results(OPTIMUM), folder)
    assert "refutes the recorded bound 140 of a-method" in change.reason
    assert record(folder).cost is not None
    assert record(folder).status == "open"
    _, change = update(results(OPTIMUM, {"id": "x", "instance": "diamond", "lower_bound": 141}), folder)
    assert change.reason == "it is above the verified cost 137"


def test_a_bound_above_the_best_published_cost_is_refused(results, folder):
    (change,) = update(results({"instance": "diamond", "lower_bound": 138}), folder)
    assert change.reason == "it is above the published cost 137"


def test_a_published_cost_that_was_rounded_up_refutes_a_bound_above_it(folder):
    found = record(folder, "gnmt-layers-inference-free")
    assert found.entry.published["best_cost"] == "31.69"
    assert found.refuted(31.69, None) == ""
    assert found.refuted(31.7, None) == "the published cost 31.69"


def test_an_author_with_any_characters_and_a_last_line_without_an_end_lose_no_line(results, folder):
    with closing(Store.open(results(WORSE))) as store:
        updating.update(store, folder, "Ada\u2028\x85\udcff")
    path = folder / history.FILE_NAME
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    update(results(OPTIMUM), folder)
    assert [line.by for line in record(folder).history] == ["Ada\u2028\x85?"] * 2 + ["Ada"] * 2


def test_nothing_is_appended_that_could_not_be_read(results, folder):
    with pytest.raises(InputError, match="new line on diamond date: expected a day"):
        update(results({**WORSE, "started": "yesterday"}), folder)
    assert history.read(folder) == {}


def test_a_record_of_another_file_has_expired(results, folder):
    update(results(WORSE), folder)
    path = folder / history.FILE_NAME
    path.write_text(path.read_text().replace(record(folder).checksum, "c" * 64))
    (change, *_) = update(results(OPTIMUM), folder)
    assert "expired" in change.reason
    (finding,) = verify_records(folder)
    assert finding.result == "wrong"
    assert "expired" in finding.reason


def test_a_better_float_is_better_beyond_the_tolerance(results, folder):
    chain = {"instance": "chain", "solution": [0, 0, 0, 1, 1]}
    cost = 11.0
    update(results({**chain, "cost": cost, "lower_bound": 10.0}), folder)
    assert record(folder, "chain").cost is not None
    assert update(results({"instance": "chain", "lower_bound": 10.0 * (1 + 1e-12)}), folder) == []
    (change,) = update(results({"instance": "chain", "lower_bound": 10.5}), folder)
    assert change == Change("chain", "bound", "10.5", "10.0", "a-method")


def test_a_failed_update_leaves_the_records_as_they_were(results, folder, monkeypatch):
    update(results(WORSE), folder)
    before = (folder / history.FILE_NAME).read_bytes()

    def fail(*_: Any) -> None:
        raise InputError("disk", "", "expected space")

    better = results(OPTIMUM)
    with monkeypatch.context() as context:
        context.setattr(history, "write_bytes", fail)
        with pytest.raises(InputError):
            update(better, folder)
    assert (folder / history.FILE_NAME).read_bytes() == before
    assert verify_records(folder) == [Finding("diamond", "verified")]
    (folder / "solutions" / ".diamond-0123456789ab.json.gz.x1y2").write_bytes(b"of a killed update")
    update(better, folder)
    assert len(list((folder / "solutions").iterdir())) == 1


def test_updates_at_the_same_time_lose_nothing(results, folder):
    names = ("diamond", "triangle", "chain", "overflow")
    folders = [results({"instance": name, "lower_bound": 1}) for name in names]
    with ThreadPoolExecutor(len(folders)) as pool:
        list(pool.map(lambda found: update(found, folder), folders))
    assert sorted(history.read(folder)) == sorted(names)


def test_a_folder_that_does_not_exist_is_refused_in_a_sentence(results, tmp_path):
    with pytest.raises(InputError, match="expected a folder of records"):
        update(results(WORSE), tmp_path / "nowhere")
