"""The instances of the suite `models` are what their recipes make, and every one is in the catalog."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest

from shardmark.instances import catalog, load
from shardmark.instances.files.jsonfile import encode, read_bytes
from shardmark.instances.generate.embedded import DATA, PLAIN
from shardmark.instances.models import suite
from shardmark.instances.models.model import Model
from shardmark.instances.models.onnx_file import read_onnx
from shardmark.instances.models.suite import BATCH, FOLDER, NETWORKS, RECIPES, STEPS, batched, main, network

ENTRIES = catalog.suite("models")
PATHS = {Path(entry.path).name.split(".")[0]: DATA / entry.path for entry in ENTRIES}
QUICK = ("onnx-alexnet-pipeline", "onnx-inception-2-scheduling", "jax-u-net-placement", "jax-u-net-intraop")


@pytest.mark.gate
@pytest.mark.thorough(cases=6)
@pytest.mark.usefixtures("stablehlo_in_process")
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.id)
def test_made_again_an_instance_has_the_same_bytes(recipe):
    content = encode(recipe.document())
    assert content == read_bytes(PATHS[recipe.id])
    assert (PATHS[recipe.id].suffix == ".gz") == (len(content) > PLAIN)


@pytest.mark.usefixtures("stablehlo_in_process")
def test_the_command_writes_the_files_of_the_catalog(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(suite, "RECIPES", tuple(recipe for recipe in RECIPES if recipe.id in QUICK))
    main(tmp_path)
    printed = dict(line.split() for line in capsys.readouterr().out.splitlines())
    assert printed == {entry.path: entry.checksum for entry in ENTRIES if entry.id in QUICK}
    written = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*.*")}
    assert written == {Path(entry.path): (DATA / entry.path).read_bytes() for entry in ENTRIES if entry.id in QUICK}


def test_recipes_files_and_catalog_agree():
    assert {path for path in (DATA / FOLDER).rglob("*") if path.is_file()} == set(PATHS.values())
    assert sorted(recipe.id for recipe in RECIPES) == sorted(PATHS)
    assert {path.name.split(".")[0] for path in STEPS.glob("*.mlir.gz")} == {
        recipe.network.removeprefix("jax-") for recipe in RECIPES if recipe.network not in NETWORKS
    }


def test_the_suite_is_no_part_of_another():
    assert all(entry.suites == ("models",) for entry in ENTRIES)


def test_the_catalog_tells_versions_batches_and_devices():
    for entry in ENTRIES:
        source, devices = entry.note.split("; ")
        assert f"onnx {onnx.__version__}, batch of {BATCH}" in source or "JAX 0.10.2" in source
        assert "h100" in devices
        if entry.track == "pipeline":
            assert f"{load(catalog.locate(entry), **entry.options).stages} stages" in devices


@pytest.mark.parametrize("recipe", [recipe for recipe in RECIPES if recipe.memory], ids=lambda recipe: recipe.id)
def test_a_smaller_memory_is_in_the_note_and_in_the_instance(recipe):
    ((number, unit),) = re.findall(r"h100 with ([\d.]+) ([MG])B", catalog.find(recipe.id).note)
    assert float(number) * {"M": 1e6, "G": 1e9}[unit] == recipe.memory
    instance = load(PATHS[recipe.id])
    assert (instance.usage_limit if recipe.track == "intraop" else instance.memory) == recipe.memory


@pytest.mark.parametrize("name", ["onnx-alexnet", "onnx-shufflenet"])
def test_a_batch_multiplies_what_is_not_parameters(name, tmp_path):
    (tmp_path / "one.onnx").write_bytes(batched(NETWORKS[name], 1))
    one, many = read_onnx(tmp_path / "one.onnx"), network(name)
    assert work(many) == BATCH * work(one)
    assert many.parameter_bytes() == one.parameter_bytes()
    outputs = [[m.tensors[tensor].shape for tensor in m.outputs] for m in (one, many)]
    assert outputs == [[(1, 1000)], [(BATCH, 1000)]]


def work(model: Model) -> int:
    return sum(operator.multiply_adds for operator in model.operators)
