"""Folders that are damaged editions, or made by others: refused in a sentence that names the file and the place."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shardmark.harness.editions import folder as folders
from shardmark.harness.editions.folder import CHECKSUMS, DESCRIPTION, Edition, find, known, read
from shardmark.instances import InputError
from shardmark.instances.files.jsonfile import sha256

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def copy(edition: Edition, tmp_path: Path) -> Path:
    """The folder of a copy that may be damaged."""
    return Path(shutil.copytree(edition.folder, tmp_path / "2026.12"))


def sign(folder: Path) -> None:
    """Write the checksums of all files that are there."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != CHECKSUMS)
    lines = [f"{sha256(path.read_bytes())}  {path.relative_to(folder).as_posix()}\n" for path in paths]
    (folder / CHECKSUMS).write_text("".join(lines))


def refusal(folder: Path) -> str:
    """The sentence in which the edition is refused, less its folder."""
    with pytest.raises(InputError) as error:
        read(folder)
    sentence = str(error.value)
    assert "\n" not in sentence
    return sentence.removeprefix(f"{folder}/")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda it: it.update(name="../2026.12"), "name: expected a name of lower-case letters"),
        (lambda it: it.update(name=None), "name: expected a name of lower-case letters"),
        (lambda it: it.update(parts=5), "parts: expected a list, found 5"),
        (lambda it: it.update(parts=[5]), "parts 0: expected an object with name, runs, suites, accepted"),
        (lambda it: it.update(parts=[{"name": "pipeline"}]), "parts 0: expected a key 'runs'"),
        (lambda it: it["parts"][1].update(name="../pipeline"), "parts 1 name: expected a name of lower-case letters"),
        (lambda it: it["parts"][1].update(name="*"), "parts 1 name: expected a name of lower-case letters"),
        (lambda it: it["parts"][1].update(name="pipeline"), "parts 1 name: expected a name of no other part"),
        (lambda it: it["parts"][0].update(runs=-1), "parts 0 runs: expected a whole number, at least 0, found -1"),
        (lambda it: it["parts"][0].update(runs=True), "parts 0 runs: expected a whole number, at least 0"),
        (lambda it: it["parts"][0].update(suites="tiny"), "parts 0 suites: expected a list of texts, found 'tiny'"),
        (lambda it: it["parts"][0].update(suites=[[]]), "parts 0 suites: expected a list of texts, found [[]]"),
        (lambda it: it["parts"][0].update(accepted=None), "parts 0 accepted: expected a text, found None"),
        (lambda it: it["parts"][0].update(more=1), "parts 0 key 'more': expected only the keys"),
        (lambda it: it.update(left_out={}), "left_out: expected a list, found {}"),
        (lambda it: it.update(left_out=[{}]), "left_out 0: expected a key 'track'"),
        (lambda it: it["left_out"][1].update(suite=5), "left_out 1 suite: expected a text, found 5"),
    ],
)
def test_a_description_of_anything_else_is_refused(change: Change, expected: str, copy: Path) -> None:
    path = copy / DESCRIPTION
    described = json.loads(path.read_text())
    change(described)
    path.write_text(json.dumps(described))
    sign(copy)
    assert refusal(copy).startswith(f"{DESCRIPTION}: {expected}")


def test_files_of_parts_without_a_checksum_are_refused(copy: Path) -> None:
    """They would be read, whatever they say."""
    solution = next((copy / "pipeline/solutions").iterdir())
    shutil.copy(solution, solution.with_name("chain-0123456789ab.json.gz"))
    assert refusal(copy) == "pipeline/solutions/chain-0123456789ab.json.gz: expected only files that SHA256SUMS lists"
    sign(copy)
    sums = copy / CHECKSUMS
    sums.write_text("".join(line for line in sums.read_text().splitlines(True) if "pipeline/runs.parquet" not in line))
    assert refusal(copy) == "pipeline/runs.parquet: expected only files that SHA256SUMS lists"


def test_other_files_in_its_folder_do_no_harm(copy: Path, edition: Edition) -> None:
    (copy / "pipeline/notes.txt").write_text("measured on a quiet night")
    assert read(copy).parts == edition.parts


def test_names_that_are_too_long_are_refused(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (copy / CHECKSUMS).open("a") as sums:
        sums.write(f"{'0' * 64}  {'x' * 300}\n")
    assert refusal(copy).startswith("SHA256SUMS: expected names of readable files, 'xxx")
    monkeypatch.setattr(folders, "FOLDER", copy.parent)
    with pytest.raises(InputError, match=r"edition: 'x+…x+': expected an edition or its folder \(File name too long\)"):
        find("x" * 5000)


def test_the_newest_edition_is_the_one_with_the_greatest_numbers(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "FOLDER", tmp_path)
    for name in ("2027.10", "2027.9"):
        shutil.copytree(copy, tmp_path / name)
    assert known() == ["2026.12", "2027.9", "2027.10"]
