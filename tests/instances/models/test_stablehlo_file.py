"""Training steps that JAX lowers are read with their operators, parameters and passes, from text and from artifacts."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest
from effort import Deferred
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from read_models import read_stablehlo

from shardmark.instances.errors import InputError

jax, jnp, export = Deferred("jax"), Deferred("jax.numpy"), Deferred("jax.export")
training_steps = Deferred("training_steps")
DATA = Path(__file__).parents[2] / "data" / "stablehlo"
FRAGMENTS = [b"", b"?", b"\xff", b'"', b"tensor<", b"99999999999999999999", b"loc(", b"-1", b"}", b"x0x", b"f64", b"%9"]
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
    updates = {model.tensors[a].name: model.tensors[b].name for a, b in model.updates.items()}
    assert updates == {"w": "jit(update)/sub"}


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
        (
            STEP.replace("output = 0", "output = 7"),
            "argument 0: expected tf.aliasing_output to be an index of 1 results",
        ),
        (
            "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }",
            "main: expected an operation whose results follow from an argument, not from constants alone",
        ),
        (DYNAMIC, "argument x: expected static shapes, found tensor<?x4xf32>: export with numbers"),
    ],
)
def test_what_is_no_program_is_refused_in_one_sentence(read, capfd, content, sentence):
    with pytest.raises(InputError) as error:
        read(content)
    assert sentence in str(error.value)
    assert capfd.readouterr() == ("", "")


def uses(model):
    """Everything that plans depend on, by operator."""
    named = [[(model.tensors[a.tensor].name, a.dims, a.numbers) for a in o.reads] for o in model.operators]
    return [
        (o.name, o.kind, reads, dict(o.loops), o.flops, o.backward, o.forward, o.layer, o.role)
        for o, reads in zip(model.operators, named, strict=True)
    ]


@pytest.mark.parametrize(("network", "operators"), [("transformer", 510), ("lstm", 350)])
def test_committed_steps_are_read(network, operators):
    """Numbers of operators within a tenth, so that another rule for constants or views is noticed."""
    (path, *_) = sorted(DATA.glob(f"{network}.*"))
    model = read_stablehlo(path, pytest.fail)
    assert len(model.operators) == pytest.approx(operators, rel=0.1)


@pytest.mark.parametrize("path", sorted(DATA.glob("*.gz")), ids=lambda path: path.name)
def test_every_operator_of_a_committed_step_is_understood(path):
    model = read_stablehlo(path, pytest.fail)
    for operator in model.operators:
        assert operator.known
        assert operator.whole <= operator.loops.keys()
        assert operator.forward is None or not model.operators[operator.forward].backward
        for access in (*operator.reads, *operator.writes):
            shape = model.tensors[access.tensor].shape
            assert len(access.dims) == len(shape)
            assert all(dim is None or dim in operator.loops for dim in access.dims)
    assert all(model.tensors[tensor].producer is not None for tensor in model.outputs)
    parameters = [tensor.name for tensor in model.tensors if tensor.parameter]
    assert parameters
    assert all(name.startswith(("params", "state")) for name in parameters)
    assert {t.name.split("[")[0] for t in model.tensors if t.producer is None} <= {"params", "state", "batch"}
    late = [operator for operator in model.operators if operator.backward]
    assert sum(operator.forward is None for operator in late) < 0.03 * len(late)  # pads of poolings


def test_text_and_artifact_are_the_same_model():
    text, artifact = (read_stablehlo(DATA / f"transformer.{kind}.gz") for kind in ("mlir", "bin"))
    assert uses(text) == uses(artifact)
    assert text.tensors == artifact.tensors


def test_a_truncated_artifact_is_refused(read, capfd):
    content = gzip.decompress((DATA / "transformer.bin.gz").read_bytes())
    for length in range(0, len(content), 1999):
        with pytest.raises(InputError, match="expected"):
            read(content[:length])
    assert capfd.readouterr() == ("", "")


@pytest.mark.gate(cases=1)
@pytest.mark.thorough(cases=2)
@pytest.mark.parametrize("network", ["transformer", "mixture-of-experts", "resnet", "u-net", "lstm"])
def test_arithmetic_is_what_xla_counts(read, network):
    """XLA leaves out what convolutions multiply with padding, which is below a tenth here."""
    step, arguments = training_steps.step_of(network)
    counted = jax.jit(step).lower(*arguments).cost_analysis()["flops"]
    model = read(training_steps.lowered(network))
    total = sum(operator.flops for operator in model.operators)
    assert total == pytest.approx(counted, rel=0.1 if network in ("resnet", "u-net") else 0.01)


@pytest.mark.gate(cases=100)
@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_mutated_text_is_read_or_refused_in_one_sentence(read, capfd, data):
    content = bytearray(STEP.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place : place + data.draw(st.integers(0, 8))] = data.draw(st.sampled_from(FRAGMENTS))
    try:
        model = read(bytes(content), lambda _: None)
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017 (what is read without an error is right, too)
    else:
        assert all(operator.name for operator in model.operators)
    assert capfd.readouterr() == ("", "")


def lowered(function, *arguments) -> str:
    return jax.jit(function).lower(*arguments).as_text(debug_info=True)


def test_an_unrolled_scan_is_read(read):
    unrolled = lowered(lambda x: jax.lax.scan(lambda c, y: (c + y, c), x[0], x, unroll=True), jnp.ones((4, 8)))
    assert len(read(unrolled, lambda _: None).operators) > 4


def test_random_numbers_are_one_operator(read):
    model = read(lowered(lambda key: jax.random.bernoulli(key, 0.1, (4, 8)), jax.random.PRNGKey(0)), lambda _: None)
    assert "threefry2x32" in [operator.kind for operator in model.operators]


def test_custom_calls_move_bytes_and_are_told(read):
    told = []
    model = read(lowered(lambda params: jnp.linalg.cholesky(params), jnp.eye(4)), told.append)
    assert any("arithmetic unknown, only bytes moved are counted: lapack_spotrf_ffi (1)" in line for line in told)
    assert [operator.kind for operator in model.operators if not operator.known] == ["lapack_spotrf_ffi"]


def test_a_step_without_parameters_is_told(read):
    told = []
    read(lowered(lambda x: x + 1, jnp.ones(3)), told.append)
    assert told == [
        "no argument is a parameter, since none is donated and no name begins with param, weight, state, train_state "
        "or the like (names are in text made with debug_info=True)"
    ]


def test_a_serialised_export_is_read(read):
    exported = export.export(jax.jit(lambda params, x: x @ params))(jnp.ones((4, 8)), jnp.ones((2, 4)))
    assert uses(read(bytes(exported.serialize()))) == uses(read(bytes(exported.mlir_module_serialized)))


def test_a_missing_jax_names_the_extra(read, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax.interpreters.mlir", None)
    with pytest.raises(InputError, match="pip install jax"):
        read(STEP)
