"""The embedded instances are what their recipes make, and every one is in the catalog."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardmark.instances import catalog
from shardmark.instances.files.jsonfile import encode, read_bytes, write_bytes
from shardmark.instances.generate import embedded
from shardmark.instances.generate.embedded import DATA, PLAIN, RECIPES, main
from shardmark.instances.models.suite import FOLDER as MODELS

PATHS = {
    Path(entry.path).name.split(".")[0]: DATA / entry.path
    for entry in catalog.entries()
    if entry.embedded and not entry.path.startswith(f"{MODELS}/")
}


@pytest.mark.thorough(cases=20)
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.id)
def test_made_again_an_instance_has_the_same_bytes(recipe):
    content = encode(recipe.document())
    assert content == read_bytes(PATHS[recipe.id])
    assert (PATHS[recipe.id].suffix == ".gz") == (len(content) > PLAIN)


def test_recipes_files_and_catalog_agree():
    files = {path for path in DATA.rglob("*") if path.is_file() and path.parent.name != MODELS}
    assert files == set(PATHS.values())
    assert {recipe.id for recipe in RECIPES} == set(PATHS)
    assert len({recipe.id for recipe in RECIPES}) == len(RECIPES)


def test_the_command_writes_what_is_missing_or_wrong_and_nothing_else(tmp_path, capsys, monkeypatch):
    few = {recipe.id: recipe for recipe in RECIPES if recipe.id in ("chain", "diamond", "menus-150")}
    monkeypatch.setattr(embedded, "RECIPES", tuple(few.values()))  # that all make what they should: see above
    main(tmp_path)
    printed = dict(line.split() for line in capsys.readouterr().out.splitlines())
    known = {entry.path: entry.checksum for entry in catalog.entries() if entry.id in few}
    assert printed == known
    assert {path.suffix for path in tmp_path.rglob("*.*")} == {".json", ".gz"}
    kept, wrong = tmp_path / "pipeline/chain.json", tmp_path / "intraop/diamond.json"
    before = kept.stat().st_mtime_ns
    write_bytes(wrong, b"{}")
    main(tmp_path)
    assert kept.stat().st_mtime_ns == before
    assert read_bytes(wrong) == read_bytes(DATA / "intraop/diamond.json")
