"""Profiles give every operator of a model its time on this machine."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models import LIGHT, operators

from shardmark.instances import InputError
from shardmark.plans.runs import profile as module
from shardmark.plans.runs.profile import profile


@pytest.fixture(autouse=True)
def few_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.2)


def test_every_operator_of_a_model_has_a_time_and_no_constant_has() -> None:
    path = next(path for path in LIGHT if "squeezenet" in path.name)
    assert set(profile(path)) == set(operators(onnx.load(path)))


def save(path: Path, nodes: list[onnx.NodeProto], shape: list[str | int], **fields: object) -> Path:
    """A model from x to y, of that shape, with a weight w of 512 x 512."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    weight = numpy_helper.from_array(np.ones((512, 512), np.float32), "w")
    graph = helper.make_graph(nodes, "graph", ports[:1], ports[1:], [weight])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("local", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10, **fields), path)
    return path


def test_a_large_product_takes_nearly_all_the_time(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="1_kernel_time"),
        helper.make_node("MatMul", ["a", "w"], ["b"]),
        helper.make_node("Relu", ["b"], ["y"], name="1_kernel_time"),
    ]
    seconds = profile(save(tmp_path / "model.onnx", nodes, ["rows", 512]), {"rows": 64})
    assert set(seconds) == {"1_kernel_time", "b", "1_kernel_time#2"}
    assert seconds["b"] > 0.8 * sum(seconds.values()) > 0


def test_nodes_of_functions_are_operators_and_nodes_without_a_kernel_count_for_their_operator(tmp_path: Path) -> None:
    twice = helper.make_function(
        "local",
        "Twice",
        ["a"],
        ["c"],
        [helper.make_node("MatMul", ["a", "a"], ["b"], name="product"), helper.make_node("MatMul", ["b", "a"], ["c"])],
        [helper.make_opsetid("", 21)],
    )
    nodes = [
        helper.make_node("Twice", ["x"], ["a"], name="call", domain="local"),
        helper.make_node("Mish", ["a"], ["b"], name="mish"),  # which the runtime has no kernel for
        helper.make_node("Relu", ["b"], ["y"], name="relu"),
    ]
    seconds = profile(save(tmp_path / "model.onnx", nodes, [256, 256], functions=[twice]))
    assert set(seconds) == {"product__1", "a", "mish", "relu"}  # as the functions are inlined
    assert seconds["mish"] > seconds["relu"] > 0


def test_no_file_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    profile(LIGHT[5])
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_model_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_text("no model")
    with pytest.raises(InputError, match=r"model\.onnx: expected an ONNX model"):
        profile(tmp_path / "model.onnx")


def test_a_size_without_a_value_is_one_sentence(tmp_path: Path) -> None:
    path = save(tmp_path / "model.onnx", [helper.make_node("Relu", ["x"], ["y"])], ["rows", 512])
    with pytest.raises(InputError, match="--dim rows=N"):
        profile(path)
