"""`plan verify` with every data type at inputs, cuts and outputs, and with random operators."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper
from onnx_models import plan_folder

from shardmark.cli.commands.planning import _random
from shardmark.instances import InputError
from shardmark.instances.models.onnx_file import read_onnx
from shardmark.plans.runs import stage_runs
from shardmark.plans.runs.profile import profile
from shardmark.plans.runs.stage_runs import StageRuns, verify
from shardmark.plans.runs.values import to_array, to_value

FLOAT = TensorProto.FLOAT
#: Types that ONNX Runtime converts on CPUs.
TYPES = [
    *("UINT8", "INT8", "UINT16", "INT16", "UINT32", "INT32", "UINT64", "INT64", "BOOL", "FLOAT16", "DOUBLE"),
    *("BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT8E8M0"),
    *("UINT4", "INT4", "UINT2", "INT2"),
]


@pytest.fixture(autouse=True)
def few_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_runs, "SECONDS", 0.0)


def info(name: str, kind: int = FLOAT) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, [3, 5])


Ends = list[list[ValueInfoProto]]  # inputs and outputs


def save(path: Path, nodes: list[NodeProto], ends: Ends, *weights: TensorProto, opset: int = 25) -> Path:
    graph = helper.make_graph(nodes, "graph", *ends, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), path)
    return path


def test_every_type_may_be_read_cut_and_returned(tmp_path: Path) -> None:
    """Of each type an input becomes floats, which cross to a stage that converts them back."""
    nodes, split = [], {}
    for kind in TYPES:
        number = TensorProto.DataType.Value(kind)
        nodes += [
            helper.make_node("Cast", [f"x {kind}"], [f"float {kind}"], to=FLOAT),
            helper.make_node("Cast", [f"float {kind}"], [f"cut {kind}"], to=number),
            helper.make_node("Cast", [f"cut {kind}"], [f"again {kind}"], to=FLOAT),
            helper.make_node("Cast", [f"again {kind}"], [f"y {kind}"], to=number),
        ]
        split |= {f"float {kind}": 0, f"cut {kind}": 0, f"again {kind}": 1, f"y {kind}": 1}
    ends = [[info(f"{end} {kind}", TensorProto.DataType.Value(kind)) for kind in TYPES] for end in "xy"]
    folder = plan_folder(tmp_path / "plan", save(tmp_path / "model.onnx", nodes, ends), split)
    found = verify(folder)
    assert [run.difference for run in found.stages] == [0, 0]


def test_a_wrong_number_of_a_small_type_is_found(tmp_path: Path) -> None:
    kind = TensorProto.BFLOAT16
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Add", ["a", "one"], ["y"])]
    one = numpy_helper.from_array(np.array(1, ml_dtypes.bfloat16), "one")
    path = save(tmp_path / "model.onnx", nodes, [[info("x", kind)], [info("y", kind)]], one)
    folder = plan_folder(tmp_path / "plan", path, {"a": 0, "y": 1})
    values = {"x": np.zeros((3, 5), ml_dtypes.bfloat16)}
    assert stage_runs._difference(values["x"], values["x"] + ml_dtypes.bfloat16(0.5)) == 1
    with pytest.raises(InputError, match=r"expected a model that ONNX Runtime runs, which version [0-9.]+ does not \("):
        verify(folder)  # it has no such Relu


@pytest.mark.parametrize(
    "kind", ["bfloat16", "float8_e5m2", "int4", "uint2", "float4_e2m1fn", "float16", "int64", "bool"]
)
@pytest.mark.parametrize("shape", [(3, 5), (), (0, 2), (1,)])
def test_arrays_come_back_from_the_runtime(kind: str, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).integers(0, 2, shape).astype(np.dtype(kind))
    found = to_array(to_value(array))
    assert found.dtype == array.dtype
    assert np.array_equal(found, array)


@pytest.mark.parametrize("size", [3, 3000])
def test_constants_of_small_types_are_folded(size: int, tmp_path: Path) -> None:
    """Small ones are written into the model, large ones are given to the session."""
    weight = numpy_helper.from_array(np.arange(size, dtype=np.float32) % 5, "w")
    nodes = [
        helper.make_node("Cast", ["w"], ["narrow"], to=TensorProto.BFLOAT16),
        helper.make_node("Cast", ["narrow"], ["wide"], to=FLOAT),
        helper.make_node("Cast", ["x"], ["a"], to=TensorProto.BFLOAT16),
        helper.make_node("Concat", ["a", "narrow"], ["y"], axis=0),
        helper.make_node("Neg", ["wide"], ["z"]),
    ]
    ends = [
        helper.make_tensor_value_info("x", FLOAT, [1]),
        helper.make_tensor_value_info("y", TensorProto.BFLOAT16, [size + 1]),
    ]
    path = save(tmp_path / "model.onnx", nodes, [ends[:1], ends[1:]], weight)
    assert verify(plan_folder(tmp_path / "plan", path, {"a": 0, "y": 1})).equal
    assert set(profile(path)) == {"a", "y"}


def test_the_type_that_the_runtime_lacks_is_named(tmp_path: Path) -> None:
    kind = TensorProto.COMPLEX64
    copy = helper.make_node("Identity", ["x"], ["y"])
    path = save(tmp_path / "model.onnx", [copy], [[info("x", kind)], [info("y", kind)]])
    folder = plan_folder(tmp_path / "plan", path, {"y": 0})
    with pytest.raises(InputError, match=r"which version .* does not \(.*complex64"):
        verify(folder)


RANDOM = {
    "RandomNormal": ([], {"shape": [3, 5]}),
    "RandomUniform": ([], {"shape": [3, 5]}),
    "RandomNormalLike": (["a"], {}),
    "RandomUniformLike": (["a"], {}),
    "Bernoulli": (["a"], {}),
    "Dropout": (["a", "ratio", "training"], {}),
    "Multinomial": (["a"], {"sample_size": 5}),
}


def random_model(folder: Path, kind: str, training: bool = True) -> Path:
    """A random operator in the second of three stages."""
    inputs, attributes = RANDOM[kind]
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["a"]),
        helper.make_node(kind, inputs, ["r"], **attributes),  # type: ignore[arg-type]
        helper.make_node("Cast", ["r"], ["b"], to=FLOAT),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    stored = {"ratio": np.float32(0.5), "training": np.bool_(training)}
    weights = [numpy_helper.from_array(value, name) for name, value in stored.items()]
    return save(folder / "model.onnx", nodes, [[info("x")], [info("y")]], *weights, opset=21)


@pytest.mark.parametrize("kind", RANDOM)
def test_random_operators_are_compared_with_the_same_seed(kind: str, tmp_path: Path) -> None:
    folder = plan_folder(tmp_path / "plan", random_model(tmp_path, kind), {"a": 0, "r": 1, "b": 1, "y": 2})
    found = verify(folder)
    assert found.equal
    assert [list(run.random) for run in found.stages] == [[], ["r"], []]
    assert [row["random"] for row in found.rows()] == [[], ["r"], []]
    assert _random(found)["random"].startswith("'r'; the model gives no seeds")


def test_random_functions_of_another_operator_set_are_compared_too(tmp_path: Path) -> None:
    """The inliner leaves them as they are."""
    model = onnx.load(random_model(tmp_path, "Bernoulli"))
    opsets = [helper.make_opsetid("", 17)]
    model.functions.add().CopyFrom(helper.make_function("local", "F", ["a"], ["r"], [model.graph.node[1]], opsets))
    model.graph.node[1].CopyFrom(helper.make_node("F", ["a"], ["r"], domain="local"))
    model.graph.value_info.append(info("r"))
    model.opset_import.append(helper.make_opsetid("local", 1))
    onnx.save(model, tmp_path / "model.onnx")
    found = verify(plan_folder(tmp_path / "plan", tmp_path / "model.onnx", {"a": 0, "r": 1, "b": 1, "y": 2}))
    assert (found.equal, [list(run.random) for run in found.stages]) == (True, [[], ["r"], []])


def test_a_dropout_that_is_not_in_training_is_not_random(tmp_path: Path) -> None:
    folder = plan_folder(
        tmp_path / "plan", random_model(tmp_path, "Dropout", training=False), {"a": 0, "r": 0, "b": 0, "y": 1}
    )
    found = verify(folder)
    assert (found.equal, _random(found)) == (True, {})


def test_a_seed_of_the_model_stays(tmp_path: Path) -> None:
    path = random_model(tmp_path, "RandomNormal")
    model = onnx.load(path)
    model.graph.node[1].attribute.append(helper.make_attribute("seed", 7.0))
    onnx.save(model, path)
    found = verify(plan_folder(tmp_path / "plan", path, {"a": 0, "r": 1, "b": 1, "y": 2}))
    assert (found.equal, _random(found)) == (True, {})


def test_a_random_weight_is_no_constant(tmp_path: Path) -> None:
    """Each stage would draw its own."""
    model = onnx.load(random_model(tmp_path, "Dropout"))
    model.graph.node[1].input[0] = "w"
    model.graph.initializer.append(numpy_helper.from_array(np.ones((3, 5), np.float32), "w"))
    onnx.save(model, tmp_path / "model.onnx")
    assert [operator.name for operator in read_onnx(tmp_path / "model.onnx").operators] == ["a", "r", "b", "y"]
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.bool_(False), "training"))
    onnx.save(model, tmp_path / "model.onnx")
    assert [operator.name for operator in read_onnx(tmp_path / "model.onnx").operators] == ["a", "y"]


def test_many_random_operators_are_counted() -> None:
    names = [f"n{index}" for index in range(7)]
    found = StageRuns([stage_runs.StageRun(0, 1.0, 1.0, 0.0, names)])
    assert "'n4' and 2 more; the model gives no seeds" in _random(found)["random"]
