"""Old operator sets are converted or named as the reason."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper

from shardmark.instances.errors import InputError
from shardmark.instances.models.onnx_file import read_onnx
from shardmark.plans.exports.onnx_graph import load_fixed


def old(path, opset, nodes, inputs, shape):
    """A file of one of the operator sets 1 to 6."""
    values = [helper.make_tensor_value_info(name, kind, given) for name, (kind, given) in inputs.items()]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    graph = helper.make_graph([*nodes, helper.make_node("Relu", ["h"], ["y"])], "graph", values, [result])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3), path)
    return path


def test_a_shape_that_was_an_attribute_is_read_and_exported(tmp_path):
    reshape = helper.make_node("Reshape", ["x"], ["h"], shape=[-1, 4])
    path = old(tmp_path / "old.onnx", 4, [reshape], {"x": (TensorProto.FLOAT, ["batch", 3, 4])}, [None, 4])
    model = read_onnx(path, {"batch": 2})
    assert {tensor.name: tensor.shape for tensor in model.tensors} == {"x": (2, 3, 4), "h": (6, 4), "y": (6, 4)}
    exported, tensors = load_fixed(path, {"batch": 2})
    assert [node.op_type for node in exported.graph.node] == ["Constant", "Reshape", "Relu"]
    assert tensors["h"].shape == (6, 4)


@pytest.mark.parametrize(
    ("nodes", "inputs"),
    [
        (
            [helper.make_node("Add", ["x", "b"], ["h"], axis=1, broadcast=1)],
            {"x": (TensorProto.FLOAT, [2, 3, 4]), "b": (TensorProto.FLOAT, [3])},
        ),
        ([helper.make_node("Cast", ["x"], ["h"], to="FLOAT")], {"x": (TensorProto.INT32, [2, 3, 4])}),
    ],
    ids=["broadcast", "cast"],
)
@pytest.mark.parametrize("read", [read_onnx, load_fixed], ids=["to plan", "to export"])
def test_what_onnx_cannot_convert_is_refused_for_its_operator_set(read, nodes, inputs, tmp_path):
    path = old(tmp_path / "old.onnx", 5, nodes, inputs, [2, 3, 4])
    expected = r"opset_import: expected operator set 7 or newer, found 5, which onnx cannot convert \(.+\): export the"
    with pytest.raises(InputError, match=expected):
        read(path, {})
