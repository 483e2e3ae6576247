"""Models with a plan as ONNX's multi-device metadata: valid, read back by onnx_ir, and otherwise the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx_models import LIGHT, equal_split

from shardmark.instances import InputError
from shardmark.instances.models.onnx_graph.names import operator_names
from shardmark.plans.exports.annotated import export_annotated, shards


def without_metadata(model: onnx.ModelProto) -> onnx.ModelProto:
    found = onnx.ModelProto()
    found.CopyFrom(model)
    found.ClearField("configuration")
    found.ClearField("ir_version")
    for node in found.graph.node:
        node.ClearField("device_configurations")
    return found


@pytest.mark.gate(cases=2)
@pytest.mark.thorough(cases=2)
@pytest.mark.parametrize("path", LIGHT, ids=lambda path: path.stem.removeprefix("light_"))
def test_stages_of_light_models_are_read_back_by_onnx_ir(path: Path, tmp_path: Path) -> None:
    model = onnx.load(path)
    split = equal_split(model, 4)
    export_annotated(path, split, tmp_path / "annotated.onnx")
    annotated = onnx.load(tmp_path / "annotated.onnx")
    onnx.checker.check_model(annotated)
    assert without_metadata(annotated) == without_metadata(model)
    import onnx_ir  # takes a third of a second, in each process that collects tests

    read = onnx_ir.load(tmp_path / "annotated.onnx")
    assert [(entry.name, entry.num_devices) for entry in read.device_configurations] == [("shardmark", 4)]
    for name, node in zip(operator_names(model.graph.node), read.graph, strict=True):
        (entry,) = node.device_configurations
        assert entry.pipeline_stage == split.get(name, entry.pipeline_stage)
        for value in node.outputs:
            assert all(entry.pipeline_stage <= user.device_configurations[0].pipeline_stage for user, _ in value.uses())
    onnx_ir.save(read, tmp_path / "again.onnx")
    again = onnx.load(tmp_path / "again.onnx")
    assert [node.device_configurations for node in again.graph.node] == [
        node.device_configurations for node in annotated.graph.node
    ]


@given(st.data())
def test_shards_are_held_by_the_devices_that_their_axes_say(data: st.DataObject) -> None:
    """Every device slices the tensor by its own coordinates; ONNX counts slices row by row."""
    sizes = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    mesh = dict(zip("xyz", sizes, strict=False))
    spec: list[list[str]] = [[], []]
    for axis in data.draw(st.permutations(list(mesh))):
        place = data.draw(st.sampled_from([None, 0, 1]))
        if place is not None:
            spec[place].append(axis)
    counts = [int(np.prod([mesh[axis] for axis in axes])) for axes in spec]
    held: dict[int, list[int]] = {number: [] for number in range(counts[0] * counts[1])}
    for device, coordinates in enumerate(np.ndindex(*sizes)):
        at = dict(zip(mesh, coordinates, strict=True))
        rows, columns = (np.arange(count) for count in counts)
        for axis in spec[0]:
            rows = np.split(rows, mesh[axis])[at[axis]]
        for axis in spec[1]:
            columns = np.split(columns, mesh[axis])[at[axis]]
        held[int(rows[0]) * counts[1] + int(columns[0])].append(device)
    assert list(shards([axes or None for axes in spec], mesh)) == list(held.values())


def product(path: Path) -> Path:
    """Two operators that share a weight, the second of which has an output that nobody reads."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="product"),
        helper.make_node("MaxPool", ["a"], ["y", "unread"], name="pool", kernel_shape=[1]),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4, 8]) for name in "xy"]
    weight = numpy_helper.from_array(np.ones((8, 8), np.float32), "w")
    graph = helper.make_graph(nodes, "graph", ports[:1], ports[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


SPECS: dict[str, Any] = {
    "mesh": {"axes": ["x", "y"], "sizes": [2, 2]},
    "inputs": {"x": [["x"], None, None], "w": [None, ["y"]]},
    "operators": {
        "product": {"results": [[["x"], None, ["y"]]]},
        "pool": {"results": [[None, ["x", "y"], None]]},
    },
}


def test_mesh_plans_become_sharding_specs(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    target = tmp_path / "out/annotated.onnx"
    export_annotated(product(tmp_path / "model.onnx"), {}, target, specs=SPECS)
    assert {file.name for file in target.parent.iterdir()} == {"annotated.onnx", "annotated.data"}
    onnx.checker.check_model(target)
    import onnx_ir

    read = onnx_ir.load(target)
    assert read.device_configurations[0].num_devices == 4
    found = {}
    for node in read.graph:
        for spec in node.device_configurations[0].sharding_specs:
            groups = {entry.key: list(entry.value) for entry in spec.index_to_device_group_map}
            cuts = [(cut.axis, cut.simple_shardings[0].num_shards) for cut in spec.sharded_dims]
            assert spec.value is not None
            found[node.name, spec.value.name] = [groups.get(device, device) for device in spec.device], cuts
    assert found == {
        ("product", "x"): ([[0, 1], [2, 3]], [(0, 2)]),
        ("product", "w"): ([[0, 2], [1, 3]], [(1, 2)]),
        ("product", "a"): ([0, 1, 2, 3], [(0, 2), (2, 2)]),
        ("pool", "y"): ([0, 1, 2, 3], [(1, 4)]),
    }
    assert np.array_equal(read.graph.initializers["w"].const_value.numpy(), np.ones((8, 8)))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"stage_of": {"other": 0}}, "found no operator 'other'"),
        ({"stage_of": {}, "digest": "0" * 64}, "expected the model of the plan"),
        ({"stage_of": {}, "path": "missing/annotated.onnx"}, "expected a path that can be written"),
    ],
)
def test_what_cannot_be_annotated_leaves_nothing(arguments: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    path = product(tmp_path / "model.onnx")
    target = tmp_path / arguments.pop("path", "annotated.onnx")
    with pytest.raises(InputError, match=sentence):
        export_annotated(path, path=target, **arguments)
    assert {file.name for file in tmp_path.iterdir()} == {"model.onnx", "weights.bin"}
