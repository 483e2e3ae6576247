"""Small files of large constants are read at once."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from shardmark.instances.errors import InputError
from shardmark.instances.models.onnx_file import read_onnx


def node(kind, inputs, outputs, **attributes):
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


@pytest.fixture
def read(tmp_path):
    """Reads a graph of x, float32 of shape (4,), and y."""

    def read(nodes, **stored):
        x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4] if name == "x" else None) for name in "xy")
        constants = [numpy_helper.from_array(np.array(value), name) for name, value in stored.items()]
        model = helper.make_model(helper.make_graph(nodes, "graph", [x], [y], constants))
        model.opset_import[0].version = 18
        onnx.save(model, tmp_path / "model.onnx")
        return read_onnx(tmp_path / "model.onnx")

    return read


DOUBLINGS = [node("Concat", f"s{level} s{level}", f"s{level + 1}", axis=0) for level in range(40)]
LARGE = {
    "concat": ([node("Shape", "x", "s0"), *DOUBLINGS, node("Identity", "s40", "c")], {}),
    "range": ([node("Range", "start limit step", "c")], {"start": 0, "limit": 2**40, "step": 1}),
    "tile": ([node("Tile", "one many", "c")], {"one": [1], "many": [2**40]}),
    "splat": ([node("ConstantOfShape", "many", "c", value=numpy_helper.from_array(np.array([1])))], {"many": [2**40]}),
}


@pytest.mark.parametrize(("nodes", "stored"), LARGE.values(), ids=LARGE)
def test_numbers_of_large_constants_are_not_made(read, nodes, stored):
    """Shape inference of onnx made them all."""
    widened = [node("Cast", "c", "f", to=TensorProto.FLOAT), node("ReduceSum", "f", "r"), node("Add", "x r", "y")]
    model = read([*nodes, *widened], **stored)
    assert [tensor.shape for tensor in model.tensors] == [(4,), (1,), (4,)]


WINDOW = {"kernel_shape": [10**9], "pads": [10**9 - 1, 10**9 - 1], "strides": [10**9]}


def test_a_small_constant_of_a_large_window_is_no_shape(read):
    """The reference of onnx took for ever."""
    sizes = [node("MaxPool", "a", "c", **WINDOW), node("Cast", "c", "i", to=TensorProto.INT64)]
    sizes.append(node("Reshape", "i one", "sizes"))
    with pytest.raises(InputError, match="tensor y: expected a known"):
        read([*sizes, node("Expand", "x sizes", "y")], one=[-1], a=np.ones((1, 1, 4), np.float32))
