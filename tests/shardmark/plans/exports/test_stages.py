"""Stages of ONNX models: valid, together equal to the whole model, and complete or not there."""

from __future__ import annotations

import hashlib
import json
from itertools import cycle
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models import LIGHT, equal_split, random_inputs, random_weights, run, run_stages

from shardmark.instances import InputError
from shardmark.plans.exports.stages import export_stages


@pytest.mark.gate(cases=2)
@pytest.mark.thorough(cases=2)
@pytest.mark.parametrize(
    ("path", "stages"),
    list(zip(LIGHT[:-3], cycle((2, 4, 8)), strict=False)),  # the others are chains with hundreds of megabytes
    ids=lambda value: value.stem.removeprefix("light_") if isinstance(value, Path) else str(value),
)
def test_stages_of_light_models_compute_what_the_whole_model_computes(path: Path, stages: int, tmp_path: Path) -> None:
    model = random_weights(onnx.load(path))
    path = tmp_path / path.name
    onnx.save(model, path)
    manifest = export_stages(path, equal_split(model, stages), tmp_path / "stages")
    assert len(manifest["stages"]) == stages
    inputs = random_inputs(model)
    found = run_stages(tmp_path / "stages", inputs)
    for name, value in run(path, inputs).items():
        assert np.abs(found[name] - value).max() <= 1e-5 * np.abs(value).max()


def chain(path: Path) -> Path:
    """Three operators in a row, the last of which adds the first's output: a tensor that skips a stage."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="product"),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("Add", ["b", "a"], ["y"], name="sum"),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in "xy"]
    weights = numpy_helper.from_array(np.arange(-8, 8, dtype=np.float32).reshape(4, 4), "w")
    graph = helper.make_graph(nodes, "chain", ports[:1], ports[1:], [weights], doc_string="three operators")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10, producer_name="tests")
    model.metadata_props.add(key="author", value="someone")
    onnx.save(model, path)
    return path


SPLIT = {"product": 0, "relu": 1, "sum": 2}


def test_manifest_says_what_crosses_and_the_files_digests(tmp_path: Path) -> None:
    path = chain(tmp_path / "chain.onnx")
    manifest = export_stages(path, SPLIT, tmp_path / "stages", dims={"batch": 3})
    x, a, b, y = ({"name": name, "dtype": "float32", "shape": [3, 4], "bytes": 48} for name in "xaby")
    assert json.loads((tmp_path / "stages/manifest.json").read_text()) == manifest
    assert manifest["model"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert manifest["inputs"] == [x]
    assert manifest["outputs"] == [y | {"from": 2}]
    assert [stage["inputs"] for stage in manifest["stages"]] == [
        [x | {"from": None}],
        [a | {"from": 0}],
        [b | {"from": 1}, a | {"from": 0}],
    ]
    assert [stage["outputs"] for stage in manifest["stages"]] == [[a], [b], [y]]
    assert [stage["operators"] for stage in manifest["stages"]] == [["product"], ["relu"], ["sum"]]
    for stage in manifest["stages"]:
        (name,) = stage["sha256"]
        assert name == stage["file"]
        assert stage["sha256"][name] == hashlib.sha256((tmp_path / "stages" / name).read_bytes()).hexdigest()


def test_stages_keep_the_header_of_the_model(tmp_path: Path) -> None:
    export_stages(chain(tmp_path / "chain.onnx"), SPLIT, tmp_path / "stages", dims={"batch": 3})
    stage = onnx.load(tmp_path / "stages/stage-1.onnx")
    assert (stage.ir_version, stage.producer_name, stage.graph.doc_string) == (10, "tests", "three operators")
    assert [(entry.domain, entry.version) for entry in stage.opset_import] == [("", 21)]
    assert [(entry.key, entry.value) for entry in stage.metadata_props] == [("author", "someone")]
    assert not stage.graph.initializer


@pytest.mark.parametrize(
    ("split", "sentence"),
    [
        ({"product": 0, "relu": 1, "sum": 0}, "operator 'sum' of stage 0: .* found 'relu' of stage 1"),
        ({"product": 0, "relu": 1}, "operator 'sum': expected a stage for this operator"),
        ({**SPLIT, "other": 1}, "found no operator 'other'"),
        ({}, "expected a plan with at least one operator"),
    ],
)
def test_splits_that_do_not_fit_are_refused_and_leave_nothing(
    split: dict[str, int], sentence: str, tmp_path: Path
) -> None:
    path = chain(tmp_path / "chain.onnx")
    with pytest.raises(InputError, match=sentence):
        export_stages(path, split, tmp_path / "stages", dims={"batch": 3})
    assert list(tmp_path.iterdir()) == [path]


def test_a_symbolic_size_without_a_value_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--dim batch=N"):
        export_stages(chain(tmp_path / "chain.onnx"), SPLIT, tmp_path / "stages")


def test_another_model_than_the_plans_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected the model of the plan"):
        export_stages(chain(tmp_path / "chain.onnx"), SPLIT, tmp_path / "stages", digest="0" * 64)


def test_earlier_stages_are_replaced_and_other_folders_kept(tmp_path: Path) -> None:
    path = chain(tmp_path / "chain.onnx")
    export_stages(path, SPLIT, tmp_path / "stages", dims={"batch": 3})
    export_stages(path, dict.fromkeys(SPLIT, 0), tmp_path / "stages", dims={"batch": 3})
    assert {file.name for file in (tmp_path / "stages").iterdir()} == {"manifest.json", "stage-0.onnx"}
    (tmp_path / "stages/manifest.json").unlink()
    with pytest.raises(InputError, match="expected a new folder"):
        export_stages(path, SPLIT, tmp_path / "stages", dims={"batch": 3})
    assert {file.name for file in (tmp_path / "stages").iterdir()} == {"stage-0.onnx"}
    assert {file.name for file in tmp_path.iterdir()} == {"chain.onnx", "stages"}
