"""If, Loop and Scan: what is planned has the costs of a model without them, and computes the same."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser
from read_models import flops, kinds, seconds

from shardmark.instances.errors import InputError
from shardmark.instances.models import devices
from shardmark.instances.models.control.choices import LARGEST_LOOP
from shardmark.instances.models.onnx_file import read_onnx
from shardmark.instances.models.roofline import roofline
from shardmark.plans.exports.annotated import export_annotated
from shardmark.plans.exports.onnx_graph import load_fixed, require_exportable
from shardmark.plans.exports.stages import export_stages

PRODUCT = 2 * 8 * 16 * 16  # operations
IF = """g (float[8,16] x, bool p, float[16,16] w) => (float[8,16] y) {
  h = Relu(x)
  [pick] y = If (p) <
    then_branch = t () => (float[8,16] a) { b = MatMul(h, w) a = MatMul(b, w) },
    else_branch = e () => (float[8,16] c) { c = Neg(h) }>
}"""
CONSTANT = """g (float[8,16] x, float[16,16] w) => (float[8,16] y) {
  shape = Shape(x)
  axis = Constant<value_int = 0>()
  rows = Gather(shape, axis)
  eight = Constant<value_int = 8>()
  p = Equal(rows, eight)
  [pick] y = If (p) <then_branch = t () => (float[8,16] a) { a = MatMul(x, w) },
    else_branch = e () => (float[8,16] c) { c = Neg(x) }>
}"""
LOOP = """g (float[8,16] x, float[16,16] w, float[12,16] bias) => (float[8,16] y, float[R,8,16] all) {
  n = Constant<value_int = R>()
  t = Constant<value = bool {1}>()
  [loop] y, all = Loop (n, t, x) <body = b (int64 i, bool go, float[8,16] s)
    => (bool still, float[8,16] s2, float[8,16] o) <float one = {0.5}> {
      still = Identity(go) r = MatMul(s, w) row = Gather(bias, i) q = Add(r, row) s2 = Mul(q, one) o = Tanh(s2) }>
}"""
SCAN = """g (float[8,16] x, float[16,16] w, float[8,12,16] xs)
    => (float[8,16] y, float[8,16,12] all, float[12,8,16] rev) {
  [scan] y, all, rev = Scan (x, xs) <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [2, 0],
    scan_input_directions = [1], scan_output_directions = [0, 1], body = b (float[8,16] s, float[8,16] e)
    => (float[8,16] s2, float[8,16] o, float[8,16] o2) { r = MatMul(s, w) s2 = Add(r, e) o = Tanh(s2) o2 = Neg(o) }>
}"""
EARLY = """g (float[8,16] x) => (float[8,16] y) {
  t = Constant<value = bool {1}>()
  n = Constant<value_int = 12>()
  z = Constant<value_float = 0.5>()
  a = Abs(x)
  [loop] b = Loop (n, t, a) <body = b (int64 i, bool go, float[8,16] s) => (bool still, float[8,16] s2) {
    m = ReduceMax<keepdims = 0>(s) still = Greater(m, z) s2 = Tanh(s) }>
  y = Neg(b)
}"""
NESTED = """g (float[8,16] x) => (float[8,16] y) {
  t = Constant<value = bool {1}>()
  n = Constant<value_int = 1000>()
  [loop] y = Loop (n, t, x) <body = b (int64 i, bool go, float[8,16] s) => (bool g1, float[8,16] s2) { g1 = Identity(go)
    s2 = Loop (n, t, s) <body = c (int64 j, bool go2, float[8,16] u) => (bool g2, float[8,16] u2) { g2 = Identity(go2)
      u2 = Loop (n, t, u) <body = d (int64 k, bool go3, float[8,16] v) => (bool g3, float[8,16] v2) {
        g3 = Identity(go3) v2 = Tanh(v) }> }> }>
}"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.onnx"


def written(path, text):
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]>\n{text}')
    onnx.save(model, path)
    return model


def loop(rounds):
    return LOOP.replace("float[R", f"float[{rounds}").replace("value_int = R", f"value_int = {rounds}")


def outputs(model, given):
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, given)


def run(model, seed=0):
    random = np.random.default_rng(seed)
    stored = {tensor.name for tensor in model.graph.initializer}
    given = {}
    for value in model.graph.input:
        if value.name not in stored:
            shape = [dimension.dim_value for dimension in value.type.tensor_type.shape.dim]
            given[value.name] = random.random(shape, np.float32)
    return outputs(model, given)


@pytest.mark.parametrize(("value", "rounds"), [("value_int = 1", 3), ("value_ints = [0]", 0), ("value_float = 0.0", 0)])
def test_a_loop_goes_on_by_a_constant_of_any_kind(path, value, rounds):
    """PyTorch's older exporter casts a number to the condition."""
    goes_on = f"one_more = Constant<{value}>() still = Cast<to = 9>(one_more)"
    written(path, loop(3).replace("still = Identity(go)", goes_on))
    assert kinds(read_onnx(path)).count("MatMul") == rounds  # a loop that may end earlier stays one operator


def test_branches_with_one_condition_are_taken_together(path):
    swapped = """y = If (p) <then_branch = t2 () => (float[8,16] d) { d = Neg(z) },
      else_branch = e2 () => (float[8,16] f) { f = MatMul(z, w) }>
    }"""
    text = IF.replace("[pick] y", "[pick] z").removesuffix("}") + f"[again] {swapped}"
    written(path, text)
    told = []
    assert kinds(read_onnx(path, tell=told.append)).count("MatMul") == 2
    assert any("planned (pick=then);" in sentence for sentence in told)
    assert kinds(read_onnx(path, branches={"pick": "else"})).count("MatMul") == 1
    assert kinds(read_onnx(path, branches={"again": "else"})).count("MatMul") == 3


def test_a_loop_is_its_rounds(path):
    model = written(path, loop(12))
    read = read_onnx(path)
    assert kinds(read).count("MatMul") == 12
    assert flops(read) == 12 * (PRODUCT + 3 * 8 * 16)
    assert {"loop/0/r", "loop/11/o"} <= {operator.name for operator in read.operators}
    rows = [index for index, kind in enumerate(kinds(read)) if kind == "Gather"]
    assert {read.bytes_read(index) for index in rows} == {4 * 16 + 8}  # a row and its index, not the table
    exported, _ = load_fixed(path, {})
    assert not {"Loop", "If", "Scan"} & {node.op_type for node in exported.graph.node}
    for found, expected in zip(run(exported), run(model), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_scan_is_its_rounds_in_any_direction(path):
    model = written(path, SCAN)
    assert flops(read_onnx(path)) == 12 * (PRODUCT + 3 * 8 * 16)
    exported, _ = load_fixed(path, {})
    for found, expected in zip(run(exported), run(model), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_large_loop_stays_one_operator_of_the_same_cost(path):
    written(path, loop(1))
    one, told = read_onnx(path), []
    written(path, loop(LARGEST_LOOP))
    many = read_onnx(path, tell=told.append)
    assert kinds(many) == ["Loop"]
    joins = sum(
        seconds
        for seconds, kind in zip(roofline(one, devices.device("h100")).seconds, kinds(one), strict=True)
        if kind in ("Concat", "Unsqueeze")
    )
    assert seconds(many) == pytest.approx(LARGEST_LOOP * (seconds(one) - joins), rel=1e-6)
    assert any(
        "stay one operator of rounds x body" in sentence and "loop (20,000 rounds)" in sentence for sentence in told
    )
    assert many.tensors[many.outputs[1]].shape == (LARGEST_LOOP, 8, 16)


def test_nested_loops_do_not_grow_beyond_the_limit(path):
    written(path, NESTED)
    read = read_onnx(path)
    assert len(read.operators) <= LARGEST_LOOP
    assert flops(read) == 1000**3 * 8 * 16


def test_a_loop_that_may_end_earlier_stays_one_operator(path):
    written(path, EARLY)
    told = []
    read = read_onnx(path, tell=told.append)
    assert kinds(read) == ["Abs", "Loop", "Neg"]
    assert flops(read) == 12 * (2 * 8 * 16 + 1) + 2 * 8 * 16
    assert "loops that may end earlier count with all their rounds: loop (12 rounds)" in told


def test_a_loop_of_unknown_length_is_refused(path):
    written(path, loop(12).replace("(float[8,16] x,", "(int64 m, float[8,16] x,").replace("Loop (n,", "Loop (m,"))
    with pytest.raises(InputError, match="node loop: expected a number of rounds that is known without inputs"):
        read_onnx(path)


@pytest.mark.parametrize(
    ("text", "damage"),
    [
        (IF, lambda node: node.attribute.pop()),
        (IF, lambda node: node.output.append("more")),
        (loop(12), lambda node: node.ClearField("attribute")),
        (loop(12), lambda node: node.input.pop()),
        (loop(12), lambda node: node.output.pop()),
        (SCAN, lambda node: node.output.pop()),
        (SCAN, lambda node: node.attribute.pop(0)),
    ],
)
def test_a_node_without_its_graphs_or_values_is_refused(path, text, damage):
    model = written(path, text)
    damage(next(node for node in model.graph.node if node.op_type in ("If", "Loop", "Scan")))
    onnx.save(model, path)
    with pytest.raises(InputError, match=r"expected graphs, inputs and outputs|expected shapes that can be inferred"):
        read_onnx(path)


def test_a_constant_condition_takes_its_branch(path):
    model = written(path, CONSTANT)
    read = read_onnx(path)
    assert kinds(read) == ["MatMul", "Identity"]
    exported, _ = load_fixed(path, {})
    np.testing.assert_array_equal(run(exported)[0], run(model)[0])


def test_the_dearer_branch_is_planned_unless_another_is_named(path):
    written(path, IF)
    told = []
    assert kinds(read_onnx(path, tell=told.append)) == ["Relu", "MatMul", "MatMul", "Identity"]
    assert any("the dearer branch is planned (pick=then); --branch names another" in sentence for sentence in told)
    assert kinds(read_onnx(path, branches={"p*": "else"})) == ["Relu", "Neg", "Identity"]
    with pytest.raises(InputError, match="branch pick: expected then or else, found '1'"):
        read_onnx(path, branches={"pick": "1"})
    with pytest.raises(InputError, match=r"branch pic: expected the name of a branch.*'pick'"):
        read_onnx(path, branches={"pic": "then"})


def test_branches_within_branches_are_measured_once_each(path):
    """If each level measured the levels below anew, 2^15 branches would be read."""
    inner = "z = Relu(x)"
    for _ in range(15):
        inner = (
            f"z = If (p) <then_branch = t () => (float[8,16] z) {{ {inner} }}, "
            "else_branch = e () => (float[8,16] n) { n = Neg(x) }>"
        )
    written(path, f"g (float[8,16] x, bool p) => (float[8,16] z) {{ {inner} }}")
    assert len(read_onnx(path).operators) < 40


@pytest.mark.parametrize("text", [loop(12), SCAN, CONSTANT, EARLY], ids=["loop", "scan", "if", "early"])
def test_stages_compute_what_the_model_does(path, text):
    model = written(path, text)
    names = [operator.name for operator in read_onnx(path).operators]
    stage_of = {name: int(2 * index >= len(names)) for index, name in enumerate(names)}
    folder = path.parent / "stages"
    manifest = export_stages(path, stage_of, folder)
    random = np.random.default_rng(0)
    inputs = [value.name for value in model.graph.input]
    shapes = {port["name"]: port["shape"] for port in manifest["inputs"]}
    tensors = {name: random.random(shapes[name], np.float32) for name in inputs}
    for stage in manifest["stages"]:
        part = onnx.load(folder / stage["file"])
        given = {port["name"]: tensors[port["name"]] for port in stage["inputs"]}
        found = outputs(part, given)
        tensors |= zip((port["name"] for port in stage["outputs"]), found, strict=True)
    assert len(manifest["stages"]) == 2
    for port, expected in zip(manifest["outputs"], run(model), strict=True):
        np.testing.assert_allclose(tensors[port["name"]], expected, rtol=1e-6)


def test_stages_of_an_undecided_branch_are_refused_beforehand(path):
    written(path, IF)
    with pytest.raises(InputError, match="node pick: expected --branch NAME=then or NAME=else to run the model"):
        require_exportable(path)
    require_exportable(path, branches={"pick": "else"})
    names = [operator.name for operator in read_onnx(path, branches={"pick": "else"}).operators]
    manifest = export_stages(path, dict.fromkeys(names, 0), path.parent / "stages", branches={"pick": "else"})
    assert manifest["stages"][0]["operators"] == names


def test_a_model_with_loops_is_not_annotated(path):
    written(path, loop(12))
    with pytest.raises(InputError, match=r"node loop: expected no Loop to annotate.*use --export stages"):
        require_exportable(path, "annotated")
    with pytest.raises(InputError, match="expected the model of the plan"):
        export_annotated(path, {"loop/0/r": 0}, path.parent / "annotated.onnx")
