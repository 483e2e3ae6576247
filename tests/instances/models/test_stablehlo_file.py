"""Training steps that JAX lowers are read with their operators, parameters and passes, from text and from artifacts."""

from __future__ import annotations

import pytest

from instances.errors import InputError
from instances.models.stablehlo_file import read_stablehlo

STEP = """
module @jit_step {
  func.func public @main(
      %arg0: tensor<32x64xf32> {tf.aliasing_output = 0 : i32} loc("w"), %arg1: tensor<8x32xf32> loc("x"))
      -> tensor<32x64xf32> {
    %cst = stablehlo.constant dense<1.0> : tensor<f32>
    %0 = stablehlo.dot_general %arg1, %arg0, contracting_dims = [1] x [0]
      : (tensor<8x32xf32>, tensor<32x64xf32>) -> tensor<8x64xf32>
      loc("jit(step)/jvp(layer3)/dot_general"("s.py":1:1))
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x64xf32>
    %2 = stablehlo.add %0, %1 : tensor<8x64xf32> loc("jit(step)/jvp(layer3)/add")
    %3 = stablehlo.dot_general %arg1, %2, contracting_dims = [0] x [0]
      : (tensor<8x32xf32>, tensor<8x64xf32>) -> tensor<32x64xf32>
      loc("jit(step)/transpose(jvp(layer3))/dot_general"("s.py":1:1))
    %4 = call @update(%arg0, %3)
      : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xf32> loc("jit(step)/jit(update)")
    return %4 : tensor<32x64xf32>
  }
  func.func private @update(%arg0: tensor<32x64xf32>, %arg1: tensor<32x64xf32>) -> tensor<32x64xf32> {
    %0 = stablehlo.subtract %arg0, %arg1 : tensor<32x64xf32> loc("sub")
    return %0 : tensor<32x64xf32>
  }
}
"""
DYNAMIC = """
func.func public @main(%arg0: tensor<?x4xf32> loc("x")) -> tensor<?x4xf32> {
  %0 = stablehlo.add %arg0, %arg0 : tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}
"""


@pytest.fixture
def read(tmp_path):
    """Reads content as a file; sentences that are told are errors."""

    def read(content, tell=pytest.fail):
        path = tmp_path / "step.mlir"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_stablehlo(path, tell)

    return read


def test_a_small_step_has_its_operators(read):
    model = read(STEP)
    assert [operator.name for operator in model.operators] == [
        "jvp(layer3)/dot_general",
        "jvp(layer3)/add",
        "transpose(jvp(layer3))/dot_general",
        "jit(update)/sub",
    ]
    product, add, gradient, update = model.operators
    assert product.multiply_adds == gradient.multiply_adds == 8 * 32 * 64
    assert [model.tensors[access.tensor].name for access in product.reads] == ["x", "w"]
    assert [access.dims for access in product.reads] == [("m0", "k0"), ("k0", "n1")]
    assert len(add.reads) == 1  # the constant costs nothing
    assert [operator.backward for operator in model.operators] == [False, False, True, True]
    assert [operator.forward for operator in model.operators] == [None, None, 0, 0]
    assert [operator.layer for operator in model.operators] == [3, 3, 3, -1]
    assert update.flops == 32 * 64
    assert [tensor.name for tensor in model.tensors if tensor.parameter] == ["w"]
    assert [model.tensors[tensor].name for tensor in model.outputs] == ["jit(update)/sub"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("hello", "expected StableHLO, as text with a module or as a portable artifact"),
        (b"\xff\xfe\x00", "expected StableHLO, as text or as a portable artifact"),
        (b"ML\xefR", "expected a complete portable artifact"),
        ("module {", "line 1, column 7: expected StableHLO, but MLIR says"),
        ("module { func.func @f() { tf.Add } }", "Dialect `tf' not found"),
        ("module { func.func private @main() }", "main: expected a function with a body"),
        ("module {}", "expected a function main, found 0 public functions"),
        (DYNAMIC, "argument x: expected static shapes, found tensor<?x4xf32>: export with numbers"),
    ],
)
def test_what_is_no_program_is_refused_in_one_sentence(read, capfd, content, sentence):
    with pytest.raises(InputError) as error:
        read(content)
    assert sentence in str(error.value)
    assert capfd.readouterr() == ("", "")
