"""Editions: written whole or not at all, the same bytes every time, and nothing that cannot be published."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from shardmark.harness.campaign.host import CHECKOUT
from shardmark.harness.campaign.problems import Problem
from shardmark.harness.editions import creating
from shardmark.harness.editions import folder as folders
from shardmark.harness.editions.columns import COLUMNS, TABLES
from shardmark.harness.editions.creating import best_runs, create
from shardmark.harness.editions.folder import CHECKSUMS, DESCRIPTION, Edition, find, read
from shardmark.harness.results.database import Store
from shardmark.harness.results.ranking import tables
from shardmark.harness.verify import verify
from shardmark.instances import InputError, catalog

KILL = "UPDATE runs SET status = 'killed', stop = 'killed' WHERE solver = 'mla' AND instance = 'chain' AND seed = 0"
#: A run of another campaign with a bound above every cost.
REFUTED = "UPDATE runs SET lower_bound = '1e9', lower_bound_float = 1e9 WHERE solver = 'simple' AND instance = 'chain'"


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_it_is_byte_identical_in_one_go_or_part_by_part(
    edition: Edition, small_campaign: dict[str, Path], tmp_path: Path
) -> None:
    first, second = small_campaign.values()
    output = tmp_path / "2026.12"
    create([second], output)
    assert [part.name for part in read(output).parts] == ["scheduling"]
    create([first], output)
    assert files(output) == files(edition.folder)


def test_it_lists_parts_and_what_is_left_out(edition: Edition) -> None:
    assert read(edition.folder) == edition
    assert [(part.name, list(part.suites), part.accepted) for part in edition.parts] == [
        ("pipeline", ["tiny"], ""),
        ("scheduling", ["tiny"], ""),
    ]
    left = {(entry.track, entry.id) for entry in catalog.suite("tiny") if entry.track not in ("pipeline", "scheduling")}
    assert {(row["track"], row["instance"]) for row in edition.left_out} == left


@pytest.mark.parametrize(
    ("command", "suites"),
    [
        (["run"], ["quick"]),
        (["--json", "run", "--suite=tiny"], ["tiny"]),
        (["run", "-i", "chain"], []),
        (["reproduce", "pipeline-bounds"], []),
    ],
)
def test_a_part_has_the_suites_of_its_commands(
    command: list[str], suites: list[str], changed: Callable[..., Path], tmp_path: Path
) -> None:
    words = json.dumps(["shardmark", *command])
    results = changed(f"UPDATE campaigns SET command = '{words}'")
    assert create([results], tmp_path / "2026.12").suites == suites


def test_all_rows_that_current_runs_refer_to_are_kept(edition: Edition, small_campaign: dict[str, Path]) -> None:
    for part in edition.parts:
        with closing(Store.open(small_campaign[part.name])) as store:
            for table in set(TABLES) - {"campaigns", "runs"}:
                assert sorted(edition.rows(part, table)) == sorted(store.select(table, list(COLUMNS[table]))), table
            for table, changes in (("campaigns", "command"), ("runs", "log")):
                place = list(COLUMNS[table]).index(changes)
                stored = [(*row[:place], *row[place + 1 :]) for row in store.select(table, list(COLUMNS[table]))]
                assert sorted((*row[:place], *row[place + 1 :]) for row in edition.rows(part, table)) == sorted(stored)


def test_no_file_names_a_place_of_the_machine(edition: Edition) -> None:
    places = {str(CHECKOUT), str(Path.home())} - {"/"}
    commands = [json.loads(row[3]) for part in edition.parts for row in edition.rows(part, "campaigns")]
    assert {command[0] for command in commands} == {"shardmark"}
    logs = [row[list(COLUMNS["runs"]).index("log")] for part in edition.parts for row in edition.rows(part, "runs")]
    assert not [log for log in logs for place in places if place in log]


def test_the_best_solution_of_each_instance_is_kept_and_passes_verification(
    edition: Edition, small_campaign: dict[str, Path]
) -> None:
    for part in edition.parts:
        solutions = edition.solutions(part)
        with closing(Store.open(small_campaign[part.name])) as store:
            scored = tables(store)
            best = dict(best_runs(scored))
            assert {run[:12] for run in best} == set(solutions)
            for run, name in best.items():
                entry = next(entry for entry in catalog.entries() if (entry.track, entry.id) == (part.name, name))
                verdict = verify(Problem.of(entry, catalog.locate(entry)).instance, solutions[run[:12]])
                (cost,) = scored.instances.filter(instance=name)["best_cost"]
                assert verdict.feasible
                assert verdict.cost >= cost
                assert verdict.cost == scored.runs.filter(id=run)["cost"].item()


def test_its_checksums_are_those_that_sha256sum_checks(edition: Edition) -> None:
    subprocess.run(["sha256sum", "--check", "--quiet", CHECKSUMS], cwd=edition.folder, check=True)


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        (["DELETE FROM runs"], "expected runs, found none"),
        ([KILL], "found 1 missing: mla on chain, seed 0; the same command runs them"),
        ([KILL.replace("'chain'", "'overflow' OR solver = 'mla'")], "missing"),
        ([REFUTED], "chain: expected no lower bound above a cost, found 1e9 of simple above the cost"),
        (
            ["""UPDATE hosts SET disturbances = '["The system swapped."]'"""],
            "campaign 1: expected an undisturbed machine, found: The system swapped; --accept-disturbance REASON",
        ),
        (["UPDATE hosts SET disturbances = NULL"], "campaign 1: expected a campaign that ended by itself"),
    ],
)
def test_what_cannot_be_published_is_refused_in_a_sentence(
    statements: list[str], expected: str, changed: Callable[..., Path], tmp_path: Path
) -> None:
    deleted = (
        [f"DELETE FROM {name}" for name in ("incumbents", "bounds", "certificates")]
        if "DELETE" in statements[0]
        else []
    )
    results = changed(*deleted, *statements)
    with pytest.raises(InputError) as error:
        create([results], tmp_path / "2026.12")
    assert expected in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "2026.12").exists()


def test_a_disturbed_machine_is_accepted_with_a_reason_that_is_kept(
    changed: Callable[..., Path], tmp_path: Path
) -> None:
    results = changed("""UPDATE hosts SET disturbances = '["The system swapped."]'""")
    edition = create([results], tmp_path / "2026.12", "Only the referee swapped.")
    assert edition.parts[0].accepted == "Only the referee swapped."
    assert read(edition.folder) == edition


def test_a_run_that_a_repeated_command_made_is_no_hole(changed: Callable[..., Path], tmp_path: Path) -> None:
    """As after a change of a solver: the first campaign asked for runs that nobody needs any more."""
    older = (
        "INSERT INTO campaigns SELECT 0, started, ended, command, version, executor, jobs FROM campaigns WHERE id = 1"
    )
    results = changed(older, "INSERT INTO matrix VALUES (0, 'gone')")
    assert len(create([results], tmp_path / "2026.12").parts) == 1


def test_methods_have_one_version_in_all_parts(
    edition: Edition, changed: Callable[..., Path], tmp_path: Path, small_campaign: dict[str, Path]
) -> None:
    results = changed(
        "UPDATE runs SET solver_hash = 'other' WHERE solver = 'mla'",
        "UPDATE solvers SET hash = 'other' WHERE name = 'mla'",
    ).rename(tmp_path / "more")
    output = tmp_path / "2026.12"
    with pytest.raises(
        InputError, match="in the version that the part pipeline has, found another version of mla of p"
    ):
        create([small_campaign["pipeline"], results], output)
    create([small_campaign["pipeline"]], output)
    with pytest.raises(InputError, match="found another version of mla of pipeline"):
        create([results], output)
    with pytest.raises(InputError, match="expected a folder of another name, as the edition has a part pipeline"):
        create([small_campaign["pipeline"]], output)


def test_a_folder_of_anything_else_is_refused(small_campaign: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("years of work")
    with pytest.raises(InputError, match="expected an edition, an empty folder, or none"):
        create([small_campaign["pipeline"]], tmp_path)


@pytest.mark.parametrize("name", ["My edition", "2026_12", ".hidden"])
def test_an_edition_has_a_name_that_every_shell_and_file_system_takes(
    name: str, small_campaign: dict[str, Path], tmp_path: Path
) -> None:
    with pytest.raises(
        InputError, match="expected a folder with a name of lower-case letters, digits, dots and dashes"
    ):
        create([small_campaign["pipeline"]], tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_part_replaces_nothing_that_is_in_the_folder(small_campaign: dict[str, Path], tmp_path: Path) -> None:
    """Such as the results that it is made from, or the description."""
    output = tmp_path / "2026.12"
    create([small_campaign["scheduling"]], output)
    inside = Path(shutil.copytree(small_campaign["pipeline"], output / "pipeline"))
    before = files(output)
    with pytest.raises(InputError, match=r"as the part would replace .*/2026.12/pipeline"):
        create([inside], output)
    assert files(output) == before
    called = Path(shutil.copytree(small_campaign["pipeline"], tmp_path / DESCRIPTION))
    with pytest.raises(InputError, match=r"as the part would replace .*/2027.6/edition.json"):
        create([called], tmp_path / "2027.6")
    assert not (tmp_path / "2027.6").exists()


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_what_stops_it_half_way_leaves_what_was_there(
    fault: BaseException, small_campaign: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = small_campaign.values()
    old, new = tmp_path / "2026.12", tmp_path / "2027.6"
    create([first], old)
    before = files(tmp_path)

    def stop(*_: object) -> None:
        raise fault

    monkeypatch.setattr("shardmark.harness.editions.creating.sha256", stop)
    for output in (old, new):
        expected = KeyboardInterrupt if isinstance(fault, KeyboardInterrupt) else InputError
        with pytest.raises(expected):
            create([second], output)
        assert files(tmp_path) == before
        assert [path.name for path in tmp_path.iterdir()] == ["2026.12"]
    monkeypatch.undo()
    assert [part.name for part in create([second], old).parts] == [first.name, second.name]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("there", [True, False])
def test_a_part_that_is_added_meanwhile_is_not_lost(
    there: bool, small_campaign: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "2026.12"
    first, second = small_campaign.values()
    if there:
        create([Path(shutil.copytree(first, tmp_path / "older"))], output)
    described = creating._described

    def described_late(edition: Edition) -> Edition:
        monkeypatch.undo()
        create([first], output)
        return described(edition)

    monkeypatch.setattr(creating, "_described", described_late)
    with pytest.raises(InputError, match="expected no other command to change it meanwhile"):
        create([second], output)
    assert first.name in {part.name for part in read(output).parts}
    assert {first.name, second.name} <= {part.name for part in create([second], output).parts}


def test_a_kill_leaves_the_old_edition_and_the_next_attempt_succeeds(
    small_campaign: dict[str, Path], tmp_path: Path
) -> None:
    first, second = small_campaign.values()
    for output in (tmp_path / "2026.12", tmp_path / "2027.6"):
        if output.name == "2026.12":
            create([first], output)
        before = files(output)
        killed = """
import os, signal, sys
from pathlib import Path
from shardmark.harness.editions import creating
creating.sha256 = lambda content: os.kill(os.getpid(), signal.SIGKILL)
creating.create([Path(sys.argv[1])], Path(sys.argv[2]))
"""
        found = subprocess.run([sys.executable, "-c", killed, second, output], check=False)
        assert found.returncode == -signal.SIGKILL
        assert files(output) == before
        assert create([second], output) == read(output)


@pytest.mark.parametrize("damage", ["change", "remove", "unlisted"])
def test_a_damaged_edition_is_not_read(
    damage: str, small_campaign: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edition = create([small_campaign["pipeline"]], tmp_path / "2026.12")
    monkeypatch.setattr(folders, "FOLDER", tmp_path)
    assert find("2026.12") == find(str(edition.folder)) == edition
    with pytest.raises(InputError, match=r"expected an edition \(2026.12\) or its folder, did you mean '2026.12'"):
        find("2026.11")
    file = edition.folder / (DESCRIPTION if damage == "unlisted" else "pipeline/runs.parquet")
    if damage == "remove":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes().replace(b"pipeline", b"pipelime"))
        file.write_bytes(file.read_bytes() + b" ")
    with pytest.raises(InputError, match=f"expected the file that {CHECKSUMS} lists, found"):
        find("2026.12")
