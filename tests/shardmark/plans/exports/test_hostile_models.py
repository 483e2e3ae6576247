"""Odd but valid ONNX models: their stages compute what they compute, or one sentence says why not."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnx_models import LIGHT, equal_split, random_inputs, run, run_stages

from shardmark.instances import InputError
from shardmark.instances.models.onnx_file import read_onnx
from shardmark.instances.models.onnx_graph.names import operator_names
from shardmark.plans.exports.stages import export_stages
from shardmark.plans.runs.profile import profile

FLOAT = TensorProto.FLOAT


def save(path: Path, nodes: Sequence[NodeProto], outputs: Sequence[str], **fields: Any) -> onnx.ModelProto:
    """A model that reads x, 4 x 4, and returns tensors of that shape, with a weight w of that shape."""
    weight = numpy_helper.from_array(np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4), "w")
    inputs = [helper.make_tensor_value_info("x", FLOAT, [4, 4])]
    returned = [helper.make_tensor_value_info(name, FLOAT, [4, 4]) for name in outputs]
    graph = helper.make_graph(nodes, "graph", inputs, returned, [weight])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("local", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10, **fields)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return model


def agree(path: Path, split: dict[str, int]) -> dict[str, Any]:
    """Export stages, compare them with the whole model, and return the manifest."""
    folder = path.parent / "stages"
    manifest = export_stages(path, split, folder)
    inputs = random_inputs(onnx.load(path))
    found = run_stages(folder, inputs)
    expected = run(path, inputs)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert np.abs(found[name] - value).max() <= 1e-5 * np.abs(value).max()
    return manifest


def test_several_outputs_of_a_node_cross_to_different_stages(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Split", ["x"], ["a", "b"], axis=0, num_outputs=2, name="split"),
        helper.make_node("Concat", ["b", "b"], ["c"], axis=0, name="twice"),
        helper.make_node("Concat", ["a", "a"], ["d"], axis=0, name="other"),
        helper.make_node("Add", ["c", "d"], ["y"], name="sum"),
    ]
    save(tmp_path / "model.onnx", nodes, ["y"])
    manifest = agree(tmp_path / "model.onnx", {"split": 0, "twice": 1, "other": 2, "sum": 2})
    assert [port["name"] for port in manifest["stages"][0]["outputs"]] == ["a", "b"]
    assert [[port["name"] for port in stage["inputs"]] for stage in manifest["stages"]] == [["x"], ["b"], ["a", "c"]]


def test_optional_inputs_may_be_left_empty(tmp_path: Path) -> None:
    upper = numpy_helper.from_array(np.float32(0.5))
    nodes = [
        helper.make_node("Constant", [], ["most"], value=upper),
        helper.make_node("Clip", ["x", "", "most"], ["a"], name="clip"),
        helper.make_node("Clip", ["a", "", ""], ["y"], name="copy"),
    ]
    save(tmp_path / "model.onnx", nodes, ["y"])
    agree(tmp_path / "model.onnx", {"clip": 0, "copy": 1})


def test_a_constant_is_copied_to_every_stage_that_needs_it(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Neg", ["w"], ["n"], name="negated"),
        helper.make_node("Abs", ["n"], ["m"], name="positive"),
        helper.make_node("Add", ["x", "m"], ["a"], name="first"),
        helper.make_node("Add", ["a", "n"], ["b"], name="second"),
        helper.make_node("Relu", ["b"], ["y"], name="last"),
    ]
    save(tmp_path / "model.onnx", nodes, ["y"])
    agree(tmp_path / "model.onnx", {"first": 0, "second": 1, "last": 2})
    stages = [onnx.load(tmp_path / f"stages/stage-{stage}.onnx").graph for stage in range(3)]
    assert [[node.name for node in graph.node] for graph in stages] == [
        ["negated", "positive", "first"],
        ["negated", "second"],
        ["last"],
    ]
    assert [len(graph.initializer) for graph in stages] == [1, 1, 0]


def test_an_operator_that_a_branch_replaces_is_refused(tmp_path: Path) -> None:
    branch = [helper.make_tensor_value_info("t", FLOAT, [4, 4])]
    graphs = [
        helper.make_graph([helper.make_node(kind, ["x", "w"], ["t"])], kind, [], branch) for kind in ("Add", "Sub")
    ]
    nodes = [
        helper.make_node("Constant", [], ["true"], value=numpy_helper.from_array(np.bool_(True))),
        helper.make_node("If", ["true"], ["y"], name="if", then_branch=graphs[0], else_branch=graphs[1]),
    ]
    save(tmp_path / "model.onnx", nodes, ["y"])
    with pytest.raises(InputError, match="expected the model of the plan, found no operator 'if'"):
        export_stages(tmp_path / "model.onnx", {"if": 0}, tmp_path / "stages")
    assert {path.name for path in tmp_path.iterdir()} == {"model.onnx"}


def test_inputs_and_constants_may_be_returned(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Neg", ["w"], ["n"], name="constant"),
        helper.make_node("Add", ["x", "n"], ["y"], name="sum"),
        helper.make_node("Relu", ["y"], ["z"], name="relu"),
    ]
    save(tmp_path / "model.onnx", nodes, ["x", "w", "n", "y", "z"])
    manifest = agree(tmp_path / "model.onnx", {"sum": 0, "relu": 1})
    assert {port["name"]: port["from"] for port in manifest["outputs"]} == {"x": None, "w": 1, "n": 1, "y": 0, "z": 1}


def test_functions_may_be_cut(tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["a", "a"], ["b"], name="add"), helper.make_node("Relu", ["b"], ["c"])]
    twice = helper.make_function("local", "Twice", ["a"], ["c"], nodes, [helper.make_opsetid("", 21)])
    calls = [
        helper.make_node("Twice", ["x"], ["a"], name="first", domain="local"),
        helper.make_node("Twice", ["a"], ["y"], name="second", domain="local"),
    ]
    save(tmp_path / "model.onnx", calls, ["y"], functions=[twice])
    names = [operator.name for operator in read_onnx(tmp_path / "model.onnx").operators]
    agree(tmp_path / "model.onnx", dict(zip(names, (0, 0, 1, 2), strict=True)))


def test_shapes_that_the_plan_takes_as_constants_do_not_cross(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="relu"),
        helper.make_node("Shape", ["x"], ["shape"], name="shape"),
        helper.make_node("Shape", ["x"], ["last"], start=-1, name="last"),
        helper.make_node("Size", ["x"], ["size"], name="size"),
        helper.make_node("Div", ["shape", "last"], ["ones"], name="ones"),
        helper.make_node("Mul", ["ones", "last"], ["again"], name="again"),
        helper.make_node("Reshape", ["a", "again"], ["b"], name="reshape"),
        helper.make_node("Cast", ["size"], ["number"], to=FLOAT, name="cast"),
        helper.make_node("Div", ["b", "number"], ["y"], name="mean"),
    ]
    save(tmp_path / "model.onnx", nodes, ["y"])
    manifest = agree(tmp_path / "model.onnx", {"relu": 0, "reshape": 1, "mean": 2})
    assert [[port["name"] for port in stage["inputs"]] for stage in manifest["stages"]] == [["x"], ["a"], ["b"]]


def test_operators_that_nobody_needs_may_be_left_out(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["y"], name="relu"),
        helper.make_node("Neg", ["y"], ["unread"], name="neg"),
    ]
    save(tmp_path / "model.onnx", nodes, ["y"])
    agree(tmp_path / "model.onnx", {"relu": 0})


def external(folder: Path) -> Path:
    """A model of two operators whose weights lie in a file of their own."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
        helper.make_node("MatMul", ["a", "w"], ["y"], name="second"),
    ]
    model = save(folder / "model.onnx", nodes, ["y"])
    onnx.save(model, folder / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    return folder / "model.onnx"


def test_external_data_are_carried_over(tmp_path: Path) -> None:
    manifest = agree(external(tmp_path), {"first": 0, "second": 1})
    assert [sorted(stage["sha256"]) for stage in manifest["stages"]] == [
        ["stage-0.data", "stage-0.onnx"],
        ["stage-1.data", "stage-1.onnx"],
    ]
    assert set(profile(tmp_path / "model.onnx")) == {"first", "second"}


OPERATORS = {"Relu": 1, "Neg": 1, "Add": 2, "MatMul": 2, "Sum": 3, "Split": 1}


@given(data=st.data())
def test_random_graphs_with_random_splits(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Every operator reads any earlier tensors; its stage is at least that of each operator that it reads from."""
    path = tmp_path_factory.mktemp("random") / "model.onnx"
    tensors, nodes = ["x", "w"], []
    for index in range(data.draw(st.integers(1, 8), "operators")):
        kind = data.draw(st.sampled_from(sorted(OPERATORS)), "kind")
        choices = tensors if index else ["x"]  # so that at least one operator is no constant
        read = [data.draw(st.sampled_from(choices), "reads") for _ in range(OPERATORS[kind])]
        name = f"node{index}"
        if kind == "Split":
            nodes += [
                helper.make_node("Split", read, [f"a{index}", f"b{index}"], axis=0, num_outputs=2, name=f"{name}s"),
                helper.make_node("Concat", [f"b{index}", f"a{index}"], [f"t{index}"], axis=0, name=name),
            ]
        else:
            nodes.append(helper.make_node(kind, read, [f"t{index}"], name=name))
        tensors.append(f"t{index}")
    returned = data.draw(st.lists(st.sampled_from(tensors), max_size=3, unique=True), "outputs")
    returned += [] if "t0" in returned else ["t0"]
    save(path, nodes, returned)
    stage_of: dict[str, int] = {}
    written: dict[str, int] = {}
    planned = {operator.name for operator in read_onnx(path).operators}
    for node, name in zip(nodes, operator_names(nodes), strict=True):
        if name in planned:
            earliest = max((written.get(tensor, 0) for tensor in node.input), default=0)
            stage_of[name] = data.draw(st.integers(earliest, 3), "stage")
            written |= dict.fromkeys(node.output, stage_of[name])
    agree(path, stage_of)


@pytest.mark.gate(cases=1)
@pytest.mark.parametrize("after", ["1.onnx", "manifest.json"])
def test_a_kill_while_writing_leaves_no_folder(after: str, tmp_path: Path) -> None:
    """The child kills itself while it writes a file."""
    path = LIGHT[5]
    split = equal_split(onnx.load(path), 2)
    program = f"""
import os, pathlib, signal
from shardmark.instances.files import jsonfile
from shardmark.plans.exports import stages

whole = pathlib.Path.write_bytes
def write_bytes(self, content):
    if self.name.endswith({after!r}):
        whole(self, content[:100])
        os.kill(os.getpid(), signal.SIGKILL)
    return whole(self, content)
pathlib.Path.write_bytes = write_bytes
stages.write_json = lambda path, document: path.write_bytes(jsonfile.encode(document))
stages.export_stages({str(path)!r}, {split!r}, "stages")
"""
    child = subprocess.run([sys.executable, "-c", program], cwd=tmp_path)
    assert child.returncode == -signal.SIGKILL
    assert not (tmp_path / "stages").exists()
    assert all(found.name.startswith(".stages.") for found in tmp_path.iterdir())
    export_stages(path, split, tmp_path / "stages")
    assert (tmp_path / "stages/manifest.json").exists()
