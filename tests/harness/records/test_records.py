"""The project's own records verify from their files; the readers refuse what is wrong; exports say the same."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from pathlib import Path

import pytest

from shardmark.harness.records import certificates, export, history
from shardmark.harness.records.best import BestKnown, best_known, chosen
from shardmark.harness.records.history import FOLDER, Improvement, Withdrawal
from shardmark.harness.records.verification import verify_records
from shardmark.harness.results.published import piper_figures
from shardmark.instances import InputError, catalog

LINE = {
    "instance": "diamond",
    "checksum": "a" * 64,
    "kind": "cost",
    "value": "9223372036854775809",
    "solution": "b" * 64,
    "method": "a-method",
    "version": "0123456789ab",
    "seed": 7,
    "timeout_s": 2.0,
    "memory_mib": 1024.0,
    "cores": 1,
    "wall_s": 1.23,
    "machine": "Example 3000, 4 CPUs, 8 GiB",
    "date": "2025-01-02",
    "by": "Ada",
}
BOUND = {**LINE, "kind": "bound", "value": "9223372036854775808", "solution": "", "method": "=a,bound"}
WITHDRAWN = {
    **{key: BOUND[key] for key in ("instance", "value", "method", "version")},
    "kind": "withdrawn",
    "reason": "Its engine proved a false optimum.",
    "date": "2025-03-04",
    "by": "Ben",
}


def written(folder: Path, *lines: object) -> Path:
    """Write the lines of a history, each a text or a value for JSON."""
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    (folder / history.FILE_NAME).write_text("".join(f"{text}\n" for text in texts))
    return folder


def test_all_records_of_instances_at_hand_verify() -> None:
    findings = verify_records(FOLDER, certificates=False)
    assert [finding for finding in findings if finding.result == "wrong"] == []


def test_certificates_of_small_pipelines_are_checked_again() -> None:
    """`shardmark records verify` checks all of them, which takes minutes."""
    findings = verify_records(FOLDER, ids=["chain", "resnet-50", "slicing-trap-8"])
    assert [(finding.result, finding.reason) for finding in findings] == [("verified", "")] * 3


def test_the_folder_has_the_certificates_of_standing_bounds_and_nothing_else() -> None:
    named = {certificates.name_of(line) for record in best_known() for line in record.standing if line.certificate}
    assert {f"certificates/{path.name}" for path in (FOLDER / "certificates").iterdir()} == named
    assert sum(path.stat().st_size for path in (FOLDER / "certificates").iterdir()) < 5 * 2**20


def test_every_embedded_instance_has_a_record() -> None:
    embedded = [record for record in best_known() if record.entry.embedded]
    assert [record.entry.id for record in embedded if record.cost is None or record.bound is None] == []


@pytest.mark.skipif("SHARDMARK_MIRROR" not in os.environ, reason="SHARDMARK_MIRROR names no mirror of public files")
def test_every_public_instance_at_hand_has_a_record() -> None:
    none = {name for name, known in piper_figures()["program"].items() if known["tps"] == "-1"}  # no plan exists
    here = [record for record in best_known() if record.entry.id not in none and catalog.at_hand(record.entry)]
    assert [record.entry.id for record in here if record.cost is None or record.bound is None] == []


def test_ten_instances_of_the_contest_are_proven_optimal_and_no_published_cost_is_lower() -> None:
    records = [record for record in chosen(best_known(), suite="contest") if record.cost]
    assert sum(record.status == "optimal" for record in records) >= 10
    above = {record.entry.id for record in records if record.over_published and record.over_published > 0}
    assert above == set()


def test_the_folder_has_the_solutions_of_the_records_and_nothing_else() -> None:
    named = {record.cost.solution[:12] for record in best_known() if record.cost}
    files = [path.name for path in (FOLDER / "solutions").iterdir()]
    assert {name.removesuffix(".json.gz")[-12:] for name in files} == named
    assert len(files) == sum(record.cost is not None for record in best_known())


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("{", "line 1: expected JSON"),
        ("[]", "line 1: expected an object with"),
        ({**LINE, "cost": 3}, "line 1 key 'cost': expected only the keys"),
        ({key: value for key, value in LINE.items() if key != "by"}, "line 1: expected a key 'by'"),
        ({**LINE, "value": 137}, "line 1 value: expected a number as decimal text"),
        ({**LINE, "value": "1e999"}, "line 1 value: expected a number as decimal text"),
        ({**LINE, "kind": "guess"}, "line 1 kind: expected one of cost, bound, found 'guess'"),
        ({**LINE, "kind": "withdrawn"}, "line 1: expected a key 'reason'"),
        ({**WITHDRAWN, "seed": 7}, "line 1 key 'seed': expected only the keys"),
        ({**WITHDRAWN, "reason": " "}, "line 1 reason: expected a sentence, found ' '"),
        (WITHDRAWN, "line 1: expected an earlier line with the bound 9223372036854775808 of =a,bound, version 0123"),
        ({**LINE, "solution": ""}, "line 1 solution: expected a solution for a cost"),
        ({**BOUND, "solution": "b" * 64}, "line 1 solution: expected a solution for a cost"),
        ({**LINE, "solution": "../../escape"}, "line 1 solution: expected a SHA-256"),
        ({**LINE, "date": "2025-1-2"}, "line 1 date: expected a day as 2025-01-31"),
        ({**LINE, "instance": "diamnd"}, "line 1 instance: expected the id of an instance in the catalog"),
        ({**LINE, "seed": "7"}, "line 1 seed: expected an integer"),
        ({**LINE, "wall_s": 10**400}, "line 1 wall_s: expected a finite number, at least 0, found 1000"),
        ({**LINE, "wall_s": -1.5}, "line 1 wall_s: expected a finite number, at least 0, found -1.5"),
    ],
)
def test_a_line_that_is_not_as_documented_is_refused_in_a_sentence(tmp_path, line, sentence):
    with pytest.raises(InputError) as caught:
        best_known(written(tmp_path, line))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_lines_that_cannot_be_read_are_left_out_on_request(tmp_path):
    told: list[InputError] = []
    records = best_known(written(tmp_path, "{", LINE, {**BOUND, "checksum": "c" * 64}, BOUND), told.append)
    (found,) = [record for record in records if record.history]
    assert [line.kind for line in found.history] == ["cost", "bound"]
    assert [error.place for error in told] == ["line 1", "line 3 checksum"]


def test_a_withdrawn_bound_does_not_count_until_it_is_proven_again(tmp_path):
    lower = {**BOUND, "value": "3", "version": "another"}
    for lines, value in (
        ([LINE, lower, BOUND, WITHDRAWN], "3"),
        ([LINE, BOUND, WITHDRAWN], None),
        ([LINE, BOUND, BOUND, WITHDRAWN], None),
        ([LINE, BOUND, WITHDRAWN, BOUND], BOUND["value"]),
        ([LINE, BOUND, WITHDRAWN, BOUND, WITHDRAWN], None),
    ):
        (found,) = [record for record in best_known(written(tmp_path, *lines)) if record.history]
        assert (found.bound and found.bound.value) == value
        assert found.cost is not None
        assert (found.status, found.gap is None) == ("open", value is None)
        assert next(line.withdrawn for line in found.history if line.withdrawn) == Withdrawal(**WITHDRAWN)
        (document,) = json.loads(export.as_json([found]))
        withdrawn = [line["withdrawn"] for line in document["history"] if line["withdrawn"]]
        assert withdrawn[0] == {"date": "2025-03-04", "reason": WITHDRAWN["reason"], "by": "Ben"}


@pytest.mark.parametrize("key", ["instance", "value", "method", "version"])
def test_a_withdrawal_takes_back_what_it_names_and_no_more(tmp_path, key):
    other = {"instance": "triangle", "value": "9223372036854775808.0", "method": "b", "version": "c"}[key]
    told: list[InputError] = []
    records = best_known(written(tmp_path, {**BOUND, key: other}, WITHDRAWN), told.append)
    (found,) = [record for record in records if record.history]
    assert found.bound is not None
    assert [error.place for error in told] == ["line 2"]


def test_lines_on_one_instance_are_about_one_file(tmp_path):
    with pytest.raises(InputError, match=r"line 2 checksum: expected aaa.* as in an earlier line on diamond"):
        best_known(written(tmp_path, LINE, {**BOUND, "checksum": "c" * 64}))


def test_a_folder_without_a_history_has_no_records_yet(tmp_path):
    assert all(record.status == "unknown" for record in best_known(tmp_path))


@pytest.mark.parametrize(
    ("lines", "solution", "sentence"),
    [
        (
            [{**LINE, "value": "1"}, {**BOUND, "value": "2"}],
            None,
            "its bound 2 of =a,bound is above the verified cost 1",
        ),
        ([{**BOUND, "value": "138"}], None, "its bound 138 of =a,bound is above the published cost 137"),
        ([LINE], None, "expired: it is for the checksum"),
    ],
)
def test_a_wrong_record_is_found(tmp_path, lines, solution, sentence):
    (finding,) = verify_records(written(tmp_path, *lines))
    assert (finding.instance, finding.result) == ("diamond", "wrong")
    assert sentence in finding.reason


@pytest.fixture
def records(tmp_path) -> list[BestKnown]:
    """Records of diamond, proven; of triangle, open; of chain, unknown."""
    triangle = {**LINE, "instance": "triangle"}
    open_bound = {**BOUND, "instance": "triangle", "value": "3"}
    optimal = {**BOUND, "value": LINE["value"]}
    found = best_known(written(tmp_path, LINE, BOUND, optimal, triangle, open_bound))
    return chosen(found, ids=["diamond", "triangle", "chain"])


def test_solu_lines_tell_optimal_from_best_known_and_unknown(records):
    lines = "=unkn= chain\n=opt= diamond 9223372036854775809\n=best= triangle 9223372036854775809\n"
    assert export.as_solu(records) == lines


def test_csv_has_a_row_per_instance_with_floats_and_exact_texts(records):
    rows = {row["instance"]: row for row in csv.DictReader(io.StringIO(export.as_csv(records)))}
    assert list(rows) == ["chain", "diamond", "triangle"]
    assert rows["diamond"]["cost_exact"] == rows["diamond"]["bound_exact"] == "9223372036854775809"
    assert rows["diamond"]["cost"] == rows["diamond"]["bound"] == "9.223372036854776e+18"
    assert (rows["diamond"]["status"], rows["diamond"]["gap"], rows["diamond"]["bound_method"]) == (
        *("optimal", "0.0"),
        "=a,bound",
    )
    assert rows["triangle"]["solution"] == f"solutions/triangle-{'b' * 12}.json.gz"
    published = (rows["chain"]["published_best_cost"], rows["chain"]["published_best_cost_exact"])
    assert (rows["chain"]["status"], rows["chain"]["cost"], published) == ("unknown", "", ("11.0", "11"))


def test_a_bound_above_the_cost_leaves_no_gap(tmp_path):
    lines = LINE, {**BOUND, "value": str(2 * int(LINE["value"]))}
    (found,) = chosen(best_known(written(tmp_path, *lines)), ids=["diamond"])
    assert (found.status, found.gap) == ("open", None)


def test_json_has_no_number_for_a_gap_beyond_float64(tmp_path):
    lines = {**LINE, "value": "1e308"}, {**BOUND, "value": "1e-308"}
    (found,) = chosen(best_known(written(tmp_path, *lines)), ids=["diamond"])
    assert found.gap == math.inf
    (document,) = json.loads(export.as_json([found]), parse_constant=pytest.fail)
    assert (document["gap"], document["cost"]["value_exact"]) == (None, "1e308")


def test_json_has_the_history(records):
    _, diamond, triangle = json.loads(export.as_json(records))
    assert [line["value_exact"] for line in diamond["history"]] == [LINE["value"], BOUND["value"], LINE["value"]]
    assert (triangle["cost"]["value"], triangle["cost"]["value_exact"]) == (float(LINE["value"]), LINE["value"])
    assert triangle["published"]["best_cost"] == float(triangle["published"]["best_cost_exact"])
    assert triangle["bound"]["file"] is None


def test_records_are_chosen_by_track_suite_and_id(records):
    assert [record.entry.id for record in chosen(records, track="pipeline")] == ["chain"]
    assert [record.entry.id for record in chosen(records, "intraop", "tiny", ["triangle"])] == ["triangle"]
    with pytest.raises(InputError, match="did you mean 'diamond'"):
        chosen(records, ids=["diamod"])


@pytest.mark.parametrize(("value", "same"), [("31.687", True), ("31.676", True), ("31.66", False), ("31.7", False)])
def test_a_cost_within_the_rounding_of_a_printed_one_is_the_same(tmp_path, value, same):
    line = {**LINE, "instance": "gnmt-layers-inference-free", "value": value}
    (found,) = chosen(best_known(written(tmp_path, line)), ids=[line["instance"]])
    assert (found.over_published == 0) == same


def test_lines_are_written_as_they_are_read(tmp_path):
    history.append(tmp_path, [Improvement(**LINE), Improvement(**BOUND)])
    assert history.read(tmp_path) == {"diamond": [Improvement(**LINE), Improvement(**BOUND)]}
    withdrawal = Withdrawal(**WITHDRAWN)
    history.append(tmp_path, [withdrawal])
    marked = Improvement(**BOUND, withdrawn=withdrawal)
    assert history.read(tmp_path) == {"diamond": [Improvement(**LINE), marked]}
    history.append(tmp_path, [marked])
    texts = (tmp_path / history.FILE_NAME).read_text().splitlines()
    assert [json.loads(line) for line in texts] == [LINE, BOUND, WITHDRAWN, BOUND]
