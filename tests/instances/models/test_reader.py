"""The format of a model is told by its content, whatever its name."""

from __future__ import annotations

import gzip

import pytest
from onnx import TensorProto, helper

from shardmark.instances.errors import InputError
from shardmark.instances.models.reader import read_model

RELU = helper.make_model(
    helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 4])],
    )
).SerializeToString()
PROGRAM = b"""
module @negate {
  func.func public @main(%arg0: tensor<3x4xf32> loc("params")) -> tensor<3x4xf32> {
    %0 = stablehlo.negate %arg0 : tensor<3x4xf32>
    return %0 : tensor<3x4xf32>
  }
}
"""


@pytest.mark.usefixtures("stablehlo_in_process")
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize(("content", "kind"), [(RELU, "Relu"), (PROGRAM, "negate")])
def test_a_model_is_told_by_its_content(content, kind, pack, tmp_path):
    path = tmp_path / "model"
    path.write_bytes(pack(content))
    model = read_model(path)
    assert [(operator.kind, operator.flops) for operator in model.operators] == [(kind, 12)]


@pytest.mark.parametrize("content", [b"", b"some text\n", b"\x08\x09garbage", bytes(64), bytes(range(256)), b"PK\3\4"])
def test_other_files_are_refused_in_one_sentence(content, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(InputError, match="expected an ONNX model") as caught:
        read_model(path)
    assert "\n" not in str(caught.value)
