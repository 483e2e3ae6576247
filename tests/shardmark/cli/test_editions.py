"""`shardmark edition` as a user meets it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from referee import answer, refused, shardmark

from shardmark.harness.editions import folder as folders
from shardmark.harness.editions.creating import create


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
