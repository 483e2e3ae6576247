"""`shardmark edition` as a user meets it."""

from __future__ import annotations

import re
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from referee import answer, refused, shardmark

from shardmark.harness.editions import folder as folders
from shardmark.harness.editions.creating import create
from shardmark.harness.results.database import Store
from shardmark.instances import catalog


def test_an_edition_is_created_and_told(small_campaign: dict[str, Path], tmp_path: Path) -> None:
    output = tmp_path / "2026.12"
    told = shardmark("edition", "create", *small_campaign.values(), "--output", output).stdout.splitlines()
    assert told[:2] == ["pipeline: 20 runs of tiny", "scheduling: 20 runs of tiny"]
    assert told[2].startswith("left out of tiny, as they have no run: diamond, ")
    assert told[3].endswith(" MiB with edition.json and SHA256SUMS")
    assert "the edition has a part pipeline" in refused(
        "edition", "create", small_campaign["pipeline"], "--output", output
    )


def test_parts_are_added_one_after_another(small_campaign: dict[str, Path], tmp_path: Path) -> None:
    for number, (name, folder) in enumerate(small_campaign.items(), 1):
        found = answer("edition", "create", folder, "--output", tmp_path / "2026.12")
        assert (found["edition"], len(found["parts"])) == ("2026.12", number)
        assert {"part": name, "runs": 20, "suites": ["tiny"]} in found["parts"]
    assert found["mib"] < 1


def test_results_that_are_none_are_refused(tmp_path: Path) -> None:
    assert "expected a results folder" in refused("edition", "create", tmp_path, "--output", tmp_path / "2026.12")


def test_editions_that_come_with_a_version_are_listed(
    small_campaign: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "FOLDER", tmp_path)
    assert answer("edition") == []
    create([small_campaign["pipeline"]], tmp_path / "2026.12")
    shutil.copytree(tmp_path / "2026.12", tmp_path / "2027.6")
    assert [(row["edition"], row["part"], row["runs"]) for row in answer("edition")] == [
        ("2026.12", "pipeline", 20),
        ("2026.12", "pipeline", 20),
    ]


@pytest.fixture
def edition(small_campaign: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An edition that comes with the version, and the tests' folder for everything else."""
    monkeypatch.setattr(folders, "FOLDER", tmp_path / "editions")
    create(list(small_campaign.values()), tmp_path / "editions" / "2026.12")
    monkeypatch.chdir(tmp_path)
    return "2026.12"


def test_only_the_runs_that_an_edition_does_not_have_are_run(edition: str) -> None:
    """The suite is the edition's, so that it is the default, with its limits."""
    asked = ["run", "--suite", "tiny", "--track", "pipeline", "-s", "mla", "-s", "random-100", "-s", "simple", "-q"]
    (planned,) = answer(*asked, "--dry-run")
    assert (planned["runs"], planned["hours"]) == (4, round(4 * 10 / 3600, 2))
    found = answer(*asked)
    assert (found["against"], found["taken"], found["runs"], found["started"]) == (edition, 8, 4, 4)
    (row,) = found["standing"]
    assert (row["solver"], row["solved"], row["expected"]) == ("random-100", 4, 4)
    assert row["rank"] in ("1 of 3", "2 of 3")
    told = shardmark(*asked)
    assert "8 of 12 runs are those of the edition 2026.12; --against none repeats them here" in told.stderr
    assert "Among the runs of the edition 2026.12:" in told.stdout
    (planned,) = answer(*asked, "--dry-run", "--against", "none", "--results", "others")
    assert planned["runs"] == 12


def test_tables_have_the_runs_of_an_edition(edition: str) -> None:
    answer("run", "--suite", "tiny", "--track", "pipeline", "-s", "random-100", "-q", "--against", edition)
    own = answer("results")
    both = answer("results", "--against", edition)
    assert {row["solver"] for row in own} == {"random-100"}
    assert len(both) == 4 + 40
    ranks = answer("results", "--against", edition, "--table", "solvers", "--track", "pipeline")
    assert {row["solver"] for row in ranks} == {"random-1", "random-100", "mla"}
    assert "expected an edition (2026.12) or its folder" in refused("results", "--against", "2027.12")


def test_results_that_are_not_there_are_not_left_out_in_silence(edition: str) -> None:
    for command in (["results"], ["leaderboard", "--output", "site"]):
        told = refused(*command, "--results", "reults", "--against", edition)
        assert "reults: expected a results folder with results.sqlite" in told


def test_own_runs_are_marked_on_the_pages(edition: str, tmp_path: Path) -> None:
    answer("run", "--suite", "tiny", "--track", "pipeline", "-s", "random-100", "-q", "--against", edition)
    answer("leaderboard", "--against", edition, "--output", "site")
    overview, track, instance = (
        (tmp_path / "site" / page).read_text()
        for page in ("index.html", "tracks/pipeline.html", "instances/pipeline/chain.html")
    )
    assert "4 runs of yours" in overview
    assert "among 40 runs of the edition 2026.12" in overview
    assert "Left out of the edition" in overview
    for page in (track, instance):
        assert re.findall(r'>([\w-]+)</a> ?<span class="yours">', page) == ["random-100"]
    answer("edition", "site", "--output", "alone")
    alone = (tmp_path / "alone" / "index.html").read_text()
    assert "shardmark run --against 2026.12" in alone
    assert "yours" not in (tmp_path / "alone" / "tracks/pipeline.html").read_text()


def test_the_overview_has_tracks_side_by_side(edition: str, tmp_path: Path) -> None:
    """Only a table of rankings that comes last and has no neighbour is broad: other broad ones leave gaps."""
    answer("run", "--suite", "tiny", "--track", "placement", "-s", "greedy", "-q", "--against", edition)
    answer("leaderboard", "--against", edition, "--output", "three")
    answer("leaderboard", "--output", "one")
    for site, expected in (("three", ["panel", "panel", "panel"]), ("one", ["panel broad"])):
        overview = (tmp_path / site / "index.html").read_text()
        assert re.findall(r'<section class="(panel[^"]*)"', overview) == expected


def test_a_site_needs_an_edition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "FOLDER", tmp_path)
    assert "as none is published yet" in refused("edition", "site")


def test_a_solver_is_recommended_with_the_evidence(edition: str) -> None:
    found = answer("recommend", "watts-strogatz-150", "--stages", "4", "--timeout", "9")
    assert found["edition"] == edition
    assert set(found["like"]) == {"chain", "overflow", "slicing-trap-8", "erdos-renyi-60"}
    first = found["solvers"][0]
    assert first["solver"] in ("mla", "random-1")
    assert found["command"] == f"shardmark solve watts-strogatz-150 --stages 4 --solver {first['solver']} --timeout 9"
    told = shardmark("recommend", "watts-strogatz-150").stdout
    assert "evidence  the edition 2026.12 on chain, erdos-renyi-60, overflow, slicing-trap-8, within 20 s" in told
    assert "expected solutions of hybrid, throughput within 20 s, found none" in refused("recommend", "trade")


def test_the_command_that_is_recommended_can_be_pasted(edition: str, tmp_path: Path) -> None:
    shutil.copy(catalog.locate(catalog.find("chain")), tmp_path / "my chain.json")
    command = answer("recommend", "my chain.json", "--timeout", "1")["command"]
    assert command.startswith("shardmark solve 'my chain.json' --solver ")


def test_a_solver_is_not_checked_for_minutes_before_a_wrong_edition_is_named(edition: str) -> None:
    told = refused("submit", "nonesuch.py", "--against", "2027.12")
    assert "expected an edition (2026.12) or its folder" in told


def test_the_overview_says_which_solver_to_use_and_what_is_open(edition: str, tmp_path: Path) -> None:
    answer("edition", "site", "--output", "site")
    overview = (tmp_path / "site" / "index.html").read_text()
    assert "Which solver for my instance" in overview
    assert overview.count("first of 2") == 1  # campaigns of the same machine
    assert re.search(r"shardmark solve erdos-renyi-60 --solver (mla|random-1) --timeout 300", overview)
    answer("run", "--suite", "tiny", "--track", "pipeline", "-s", "random-1", "-q", "--against", "none")
    answer("leaderboard", "--output", "own")
    assert "Which solver for my instance" not in (tmp_path / "own" / "index.html").read_text()


def test_kinds_of_instances_without_a_solution_by_the_shorter_time_say_so(
    small_campaign: dict[str, Path], tmp_path: Path
) -> None:
    results = shutil.copytree(small_campaign["pipeline"], tmp_path / "pipeline")
    runs = "SELECT id FROM runs WHERE instance = 'erdos-renyi-60'"
    with closing(Store.open(results, create=True)) as store, store.transaction() as db:
        db.execute(f"UPDATE incumbents SET time_s = 5 WHERE run IN ({runs})")
    create([results], tmp_path / "2026.12")
    answer("edition", "site", tmp_path / "2026.12", "--output", tmp_path / "site")
    table = (tmp_path / "site" / "index.html").read_text().partition('id="choice"')[2].partition("</table>")[0]
    kinds = {row.partition("<td>")[2].partition("<")[0]: row for row in table.split("<tr>")[2:]}
    late = re.sub(r"<[^>]*>", " ", kinds["51 to 200 nodes"]).split()
    assert (late[-8:-4], late[-3:]) == (["none", "in", "time", "–"], ["1", "/", "1"])
    assert "none in time" not in kinds["up to 50 nodes"]


def test_runs_that_were_asked_for_certificates_stand_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ["run", "--suite", "tiny", "--track", "pipeline", "-s", "simple", "-q"]
    answer(*asked, "--certificates", "--against", "none")
    create([tmp_path / "results"], tmp_path / "2026.12", "tests run beside it")
    found = answer(*asked, "--results", "others", "--against", "2026.12")
    assert (found["taken"], found["started"]) == (4, 0)
