"""Shapes, constants and loops of ONNX graphs, and graphs that are none."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from shardmark.cli.values import size
from shardmark.instances.errors import InputError
from shardmark.instances.models.onnx_file import read_onnx

FLOAT = TensorProto.FLOAT


def node(kind, inputs, outputs, **attributes):
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def info(name, *shape):
    return helper.make_tensor_value_info(name, FLOAT, None if shape == (None,) else list(shape))


def constant(name, values, dtype=np.int64):
    return numpy_helper.from_array(np.array(values, dtype=dtype), name)


def weights(name, *shape):
    return numpy_helper.from_array(np.zeros(shape, np.float32), name)


def model_of(nodes, inputs, outputs, stored=(), *, opset=18, functions=()):
    outputs = [info(name, None) for name in outputs.split()]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, list(stored))
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions))


@pytest.fixture
def read(tmp_path):
    """Reads a model; sentences that are told are errors."""

    def read(model, dims=None, tell=pytest.fail):
        path = tmp_path / "model.onnx"
        onnx.save(model, path)
        return read_onnx(path, dims, tell)

    return read


def test_a_constant_may_come_from_a_node_of_which_another_output_is_omitted(read):
    nodes = [
        helper.make_node("TopK", ["numbers", "two"], ["", "places"]),
        node("Gather", "x places", "y"),
    ]
    stored = [constant("numbers", [1, 7, 3, 5]), constant("two", [2])]
    assert shapes(read(model_of(nodes, [info("x", 4, 6)], "y", stored)))["y"] == (2, 6)


@pytest.mark.parametrize(
    ("kind", "inputs", "per_number"),
    [
        *((kind, "x", 1) for kind in ("Exp", "Erf", "Relu")),
        *((kind, "x", 5) for kind in ("Softmax", "LogSoftmax")),
        *((kind, "x factor term", 7) for kind in ("LayerNormalization", "InstanceNormalization")),
        *((kind, "x", 0) for kind in ("Transpose", "Identity")),
    ],
)
def test_arithmetic_per_number_is_that_of_the_documentation(read, kind, inputs, per_number):
    stored = [weights(name, 4) for name in inputs.split()[1:]]
    (operator,) = read(model_of([node(kind, inputs, "y")], [info("x", 2, 4, 4)], "y", stored)).operators
    assert operator.flops == per_number * 2 * 4 * 4


@pytest.mark.parametrize(
    ("kind", "attributes", "multiply_adds"),
    [
        ("MatMul", {}, 6 * 6 * 6),
        ("Gemm", {}, 6 * 6 * 6),
        ("Einsum", {"equation": "ij,kj->ik"}, 6 * 6 * 6),
        ("Einsum", {"equation": "ij,ij->ij"}, 6 * 6),
    ],
)
def test_a_multiply_add_is_two_operations(read, kind, attributes, multiply_adds):
    nodes = [node(kind, "x w", "y", **attributes)]
    (operator,) = read(model_of(nodes, [info("x", 6, 6)], "y", [weights("w", 6, 6)])).operators
    assert (operator.multiply_adds, operator.flops) == (multiply_adds, 2 * multiply_adds)


def shapes(model):
    return {tensor.name: tensor.shape for tensor in model.tensors}


def attention_block(**given):
    """A layer as exporters write it: shapes are computed, sizes have names, one weight is made of constants."""
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "batch", axis=0),
        node("Gather", "shape one", "length", axis=0),
        node("Unsqueeze", "batch axis", "batch1"),
        node("Unsqueeze", "length axis", "length1"),
        node("Concat", "batch1 length1 heads width", "split", axis=0),
        node("Concat", "batch1 length1 minus", "joined", axis=0),
        node("MatMul", "x w", "projected"),
        node("Reshape", "projected split", "apart"),
        node("Transpose", "apart", "q", perm=[0, 2, 1, 3]),
        node("Transpose", "apart", "k", perm=[0, 2, 3, 1]),
        node("MatMul", "q k", "scores"),
        node("Range", "zero length step", "positions"),
        node("Cast", "positions", "bias", to=FLOAT),
        node("Add", "scores bias", "shifted"),
        node("Softmax", "shifted", "weights", axis=-1),
        node("MatMul", "weights q", "mixed"),
        node("Transpose", "mixed", "back", perm=[0, 2, 1, 3]),
        node("Reshape", "back joined", "y"),
    ]
    stored = [
        *(constant(name, value) for name, value in (("zero", 0), ("one", 1), ("step", 1))),
        *(constant(name, [value]) for name, value in (("axis", 0), ("heads", 4), ("width", 8), ("minus", -1))),
        weights("w", 32, 32),
    ]
    return model_of(nodes, [info("x", "batch", "length", 32)], "y", stored, **given)


def test_computed_shapes_of_an_exported_layer_are_worked_out(read):
    model = read(attention_block(), {"batch": 3, "length": 16})
    found = shapes(model)
    assert [found[name] for name in ("apart", "scores", "bias", "y")] == [
        (3, 16, 4, 8),
        (3, 4, 16, 16),
        (16,),
        (3, 16, 32),
    ]
    assert [operator.kind for operator in model.operators] == [
        *("MatMul", "Reshape", "Transpose", "Transpose", "MatMul", "Add", "Softmax", "MatMul", "Transpose", "Reshape")
    ]
    assert {tensor.name for tensor in model.tensors if tensor.parameter} == {"w", "bias"}
    assert sum(o.multiply_adds for o in model.operators) == 3 * 16 * 32 * 32 + 2 * 3 * 4 * 16 * 16 * 8


def test_a_size_without_a_number_is_named_with_its_tensor_and_the_option(read):
    with pytest.raises(InputError) as caught:
        read(attention_block(), {"batch": 3})
    told = "tensor x: expected a number for its size length; pass --dim length=N, or dims={'length': N} in Python"
    assert str(caught.value).endswith(told)
    with pytest.raises(
        InputError, match=r"size lenght: expected the name of a size of the model, or .*, did you mean 'length'"
    ):
        read(attention_block(), {"batch": 3, "lenght": 16})
    with pytest.raises(InputError, match=r"size heads: expected the name of a size of the model"):
        read(attention_block(), {"batch": 3, "length": 2, "heads": 2})


@pytest.mark.parametrize("unnamed", [None, -1, "?"])
def test_sizes_without_a_name_are_listed_by_tensor_and_axis_and_taken(read, unnamed):
    shape = [unnamed, 3, unnamed, "its length"]
    model = model_of([node("Relu", "x:0", "h"), node("Neg", "h", "y")], [info("x:0", *shape)], "y")
    model.graph.output[0].CopyFrom(info("y", *shape))
    model.graph.value_info.append(info("h", *shape))
    with pytest.raises(InputError) as caught:
        read(model)
    told = (
        "tensor x:0: expected a number for its size x:0.0; pass --dim x:0.0=N --dim x:0.2=N --dim 'its length'=N, "
        "or dims={'x:0.0': N, 'x:0.2': N, 'its length': N} in Python"
    )
    assert str(caught.value).endswith(told)
    found = read(model, {"x:0.0": 5, "x:0.2": 7, "its length": 2})
    assert [tensor.shape for tensor in found.tensors] == [(5, 3, 7, 2)] * 3


@pytest.mark.parametrize("name", ["-n", "a=b", "its length"])
def test_the_option_for_a_size_can_be_pasted_whatever_its_name(read, name):
    with pytest.raises(InputError) as caught:
        read(model_of([node("Relu", "x", "y")], [info("x", name)], "y"))
    (option,) = re.findall(r"pass (--dim.*), or dims=", str(caught.value))
    parser = argparse.ArgumentParser()
    parser.add_argument("--dim", type=size)
    assert parser.parse_args(shlex.split(option.replace("=N", "=8"))).dim == (name, 8)


def test_functions_are_inlined(read):
    inner = helper.make_function(
        *("own", "Twice", ["a"], ["c"], [node("Relu", "a", "b"), node("Sigmoid", "b", "c")]),
        opset_imports=[helper.make_opsetid("", 18)],
    )
    call = [helper.make_node("Twice", ["x"], ["y"], domain="own", name="call")]
    model = read(model_of(call, [info("x", 2, 3)], "y", functions=[inner]))
    assert [operator.kind for operator in model.operators] == ["Relu", "Sigmoid"]


def test_other_control_flow_is_refused_by_name(read):
    body = helper.make_graph([node("Identity", "x", "z")], "body", [info("x", 2)], [info("z", 2)])
    model = model_of([node("SequenceMap", "x", "y", name="choice", body=body)], [info("x", 2)], "y")
    with pytest.raises(InputError, match="node choice: expected no other control flow than If, Loop, Scan, found Seq"):
        read(model)


def test_initializers_may_be_inputs_and_unread_outputs_are_no_tensors(read):
    nodes = [node("Mul", "x w", "a"), node("Dropout", "a", "y mask")]
    model = read(model_of(nodes, [info("x", 4, 2), info("w", 2)], "y", [weights("w", 2)], opset=9))
    assert [(tensor.name, tensor.parameter) for tensor in model.tensors] == [
        *(("x", False), ("w", True), ("a", False), ("y", False))
    ]
    assert [operator.view for operator in model.operators] == [False, True]
    assert model.operators[0].reads[1].dims == ("d1",)


@pytest.mark.parametrize(("step", "dims"), [(1, ("d0", "d1")), (-1, (None, None))])
def test_a_slice_that_turns_a_dimension_needs_all_of_it(step, dims, read):
    bounds = ([4], [-9], [1], [-1]) if step < 0 else ([0], [4], [1], [1])
    stored = [constant(name, value) for name, value in zip(("from", "to", "axes", "steps"), bounds, strict=True)]
    model = read(model_of([node("Slice", "x from to axes steps", "y")], [info("x", 2, 4)], "y", stored))
    assert [model.operators[0].reads[0].dims] == [dims]
    assert len(model.operators[0].reads) == 1


def test_dropout_costs_nothing_unless_it_trains(read):
    stored = [constant("rate", 0.5, np.float32), constant("train", True, bool)]
    nodes = [node("Dropout", "x rate", "a"), node("Dropout", "a rate train", "y mask")]
    model = read(model_of(nodes, [info("x", 2, 4)], "y", stored))
    assert [(operator.view, operator.flops > 0) for operator in model.operators] == [(True, False), (False, True)]


def test_external_data_is_not_opened(read, tmp_path):
    tensor = weights("w", 8, 4)
    tensor.ClearField("raw_data")
    onnx.external_data_helper.set_external_data(weights("w", 8, 4), "nowhere.bin")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="nowhere.bin")
    model = read(model_of([node("MatMul", "x w", "y")], [info("x", 2, 8)], "y", [tensor]))
    assert model.parameter_bytes() == 8 * 4 * 4
    assert not (tmp_path / "nowhere.bin").exists()


def test_operators_without_a_rule_move_bytes_and_are_counted(read):
    told = []
    nodes = [helper.make_node("Odd", ["x"], ["y"], domain="own"), helper.make_node("Odd", ["y"], ["z"], domain="own")]
    model = model_of(nodes, [info("x", 2, 8)], "z")
    del model.graph.output[:]
    model.graph.output.append(info("z", 2, 8))
    with pytest.raises(
        InputError, match=r"tensor y: expected a known shape.*; Odd makes it, so state it as value_info"
    ):
        read(model)
    model.graph.value_info.append(info("y", 2, 8))
    found = read(model, tell=told.append)
    assert told == ["arithmetic unknown, only bytes moved are counted: Odd (2); 2 in all"]
    assert [(o.flops, o.known, found.bytes_read(i)) for i, o in enumerate(found.operators)] == [(0, False, 64)] * 2


ARITHMETIC = [
    ("Conv", "x w", {"x": (2, 6, 9, 9), "w": (4, 3, 3, 3)}, {"group": 2}, 2 * 4 * 7 * 7 * 3 * 9),
    ("ConvTranspose", "x w", {"x": (2, 6, 5, 5), "w": (6, 4, 3, 3)}, {}, 2 * 6 * 25 * 4 * 9),
    ("Gemm", "x w", {"x": (3, 5), "w": (7, 3)}, {"transA": 1, "transB": 1}, 3 * 5 * 7),
    ("MatMul", "x w", {"x": (4, 1, 3, 5), "w": (2, 5, 7)}, {}, 4 * 2 * 3 * 5 * 7),
    ("MatMul", "x w", {"x": (5,), "w": (2, 5, 7)}, {}, 2 * 5 * 7),
    ("MatMul", "x w", {"x": (5,), "w": (5,)}, {}, 5),
    ("Einsum", "x w", {"x": (2, 3, 5), "w": (2, 5, 7)}, {"equation": "bij,bjk->bik"}, 2 * 3 * 5 * 7),
    ("Einsum", "x w", {"x": (4, 2, 3, 5), "w": (5, 7)}, {"equation": "...ij,jk"}, 4 * 2 * 3 * 5 * 7),
    ("LSTM", "x w r", {"x": (9, 2, 5), "w": (1, 24, 5), "r": (1, 24, 6)}, {"hidden_size": 6}, 9 * 2 * 24 * 11),
    ("GRU", "x w r", {"x": (9, 2, 5), "w": (1, 18, 5), "r": (1, 18, 6)}, {"hidden_size": 6}, 9 * 2 * 18 * 11),
]


@pytest.mark.parametrize(("kind", "inputs", "sizes", "attributes", "expected"), ARITHMETIC)
def test_multiply_adds_are_those_of_the_formula(kind, inputs, sizes, attributes, expected, read):
    model = read(model_of([node(kind, inputs, "y", **attributes)], [info(x, *s) for x, s in sizes.items()], "y"))
    assert [operator.multiply_adds for operator in model.operators] == [expected]


@given(st.data())
def test_splitting_a_loop_of_a_product_or_a_sum_splits_the_result_as_stated(data):
    """A product of halves along any loop that may be cut, put together or added up, is the product of the whole."""
    kind = data.draw(st.sampled_from(["MatMul", "Gemm", "Einsum", "ReduceSum", "Add", "Transpose", "Gather", "Concat"]))
    batch = data.draw(st.sampled_from([(), (2,), (4, 2)]))
    sizes, attributes = {
        "MatMul": ({"x": (*batch, 4, 6), "w": (6, 2)}, {}),
        "Gemm": ({"x": (6, 4), "w": (6, 2)}, {"transA": 1}),
        "Einsum": ({"x": (2, 4, 6), "w": (2, 6, 8)}, {"equation": "bij,bjk->bik"}),
        "ReduceSum": ({"x": (4, 6)}, {"keepdims": 0}),
        "Add": ({"x": (*batch, 4, 6), "w": (4, 1)}, {}),
        "Transpose": ({"x": (2, 4, 6)}, {"perm": [1, 2, 0]}),
        "Gather": ({"x": (4, 6)}, {"axis": 1}),
        "Concat": ({"x": (4, 6), "w": (4, 2)}, {"axis": 1}),
    }[kind]
    stored = [constant("i", [[1, 3], [5, 0]])] if kind == "Gather" else []
    one = node(kind, " ".join([*sizes, *("i" for _ in stored)]), "y", **attributes)
    values = {x: np.random.default_rng(0).integers(0, 9, s).astype(np.float32) for x, s in sizes.items()}
    values |= {tensor.name: numpy_helper.to_array(tensor) for tensor in stored}
    model = _loops_of(one, sizes, stored)
    operator = model.operators[0]
    free = [loop for loop, trips in operator.loops.items() if loop not in operator.whole and trips % 2 == 0]
    free = [loop for loop in free if any(loop in access.dims for access in operator.reads)]
    if kind == "Gather":  # a split table is looked up with zeros for what other devices hold
        free.remove("v")
    if not free:
        return
    loop = data.draw(st.sampled_from(free))
    names = [model.tensors[access.tensor].name for access in operator.reads]
    halves = []
    for half in range(2):
        parts = {
            name: _half(values[name], access.dims, loop, half, operator.loops)
            for name, access in zip(names, operator.reads, strict=True)
        }
        halves.append(_run(one, parts))
    whole = _run(one, values)
    dims = operator.writes[0].dims
    joined = np.concatenate(halves, axis=dims.index(loop)) if loop in dims else halves[0] + halves[1]
    np.testing.assert_array_equal(joined, whole)


def _loops_of(one, sizes, stored):
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model_of([one], [info(x, *s) for x, s in sizes.items()], "y", stored), path)
        return read_onnx(path)


def _half(value, dims, loop, half, loops):
    for axis, dim in enumerate(dims):
        if dim == loop and value.shape[axis] % loops[loop] == 0:
            value = np.split(value, 2, axis=axis)[half]
    return value


def _run(one, values):
    from onnx.reference import ReferenceEvaluator

    graph = helper.make_graph(
        [one], "g", [helper.make_tensor_value_info(name, FLOAT, None) for name in one.input], [info("y", None)]
    )
    evaluator = ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))
    return evaluator.run(None, {name: values[name] for name in one.input})[0]


@pytest.mark.gate
def test_the_time_to_read_grows_with_the_number_of_nodes(read):
    """A fifth of 100,000 nodes, in a fifth of 20 seconds."""
    nodes, last = [], "x"
    for layer in range(4000):
        nodes += [
            node("MatMul", f"{last} w", f"a{layer}"),
            node("Shape", f"a{layer}", f"s{layer}"),
            node("Reshape", f"a{layer} s{layer}", f"b{layer}"),
            node("Add", f"b{layer} {last}", f"c{layer}"),
            node("Relu", f"c{layer}", f"d{layer}"),
        ]
        last = f"d{layer}"
    model = model_of(nodes, [info("x", "n", 8)], last, [weights("w", 8, 8)])
    start = time.process_time()
    found = read(model, {"n": 4})
    assert len(found.operators) == 16000
    assert time.process_time() - start < 4


@pytest.mark.gate
def test_weights_take_no_memory_beyond_the_file(tmp_path):
    """Peak memory of a process beyond its imports, in sizes of a file of 64 MiB."""
    path = tmp_path / "model.onnx"
    stored = [weights(f"w{i}", 2048, 2048) for i in range(4)]
    nodes = [node("MatMul", f"{f'y{i}' if i else 'x'} w{i}", f"y{i + 1}") for i in range(4)]
    onnx.save(model_of(nodes, [info("x", 4, 2048)], "y4", stored), path)
    program = (
        "import resource, sys, onnx.inliner, onnx.shape_inference\n"
        "from shardmark.instances.models.onnx_file import read_onnx\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
        "before = peak()\nread_onnx(sys.argv[1])\nprint(peak() - before)"
    )
    shown = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    assert int(shown.stdout) < 4 * path.stat().st_size


def broken(change):
    """A small model with a change."""
    nodes = [node("Gemm", "x w b", "a"), node("Relu", "a", "c", name="act"), node("Reshape", "c shape", "y")]
    stored = [weights("w", 8, 4), weights("b", 4), constant("shape", [4, 2])]
    model = model_of(nodes, [info("x", 2, 8)], "y", stored)
    change(model)
    return model.SerializeToString()


def _twice(model):
    model.graph.node[1].output[0] = "a"


def _swap(model):
    first = onnx.NodeProto()
    first.CopyFrom(model.graph.node[0])
    del model.graph.node[0]
    model.graph.node.append(first)


def _cycle(model):
    model.graph.node[0].input[0] = "y"


def _negative(model):
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -3


def _huge(model):
    for dimension in model.graph.input[0].type.tensor_type.shape.dim:
        dimension.dim_value = 1 << 62


def _mismatch(model):
    model.graph.initializer[0].dims[0] = 7


def _initializers(model):
    model.graph.initializer[1].name = "w"


def _constant(model):
    for number, name in enumerate(("w", "w", "b")):
        model.graph.node[0].input[number] = name
    model.graph.node[0].op_type = "Sum"
    model.graph.initializer[2].CopyFrom(constant("shape", [8, 4]))


def _opset(model):
    model.opset_import[0].version = 9999


def _no_opset(model):
    del model.opset_import[:]


def _strings(model):
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING


def _sequence(model):
    model.graph.input[0].type.sequence_type.elem_type.tensor_type.elem_type = FLOAT


def _missing(model):
    del model.graph.initializer[0]


def _no_output(model):
    model.graph.output[0].name = "nothing"


def _reshape(model):
    model.graph.initializer[2].CopyFrom(constant("shape", [5, 2]))


def _no_nodes(model):
    del model.graph.node[:]


BROKEN = {
    _twice: "tensor a: expected one source, found two",
    _swap: "expected tensor a to be an input, a constant or the output of an earlier node",
    _cycle: "expected tensor y to be an input, a constant or the output of an earlier node",
    _negative: "expected sizes >= 0 and at most 2^60 numbers, found [-3, 8]",
    _huge: "expected sizes >= 0 and at most 2^60 numbers",
    _mismatch: "expected",
    _initializers: "tensor w: expected one source, found two",
    _strings: "tensor x: expected a tensor of numbers, found data type string",
    _sequence: "tensor x: expected a tensor, found sequence",
    _missing: "expected tensor w to be an input, a constant or the output of an earlier node",
    _no_output: "expected tensor nothing to be an input, a constant or the output of an earlier node",
    _reshape: "expected",
    _constant: "graph: expected a node whose results follow from an input, not from constants alone",
    _no_nodes: "expected an ONNX model with nodes",
    _opset: "expected at most version",
    _no_opset: "expected",
}


@pytest.mark.parametrize("change", BROKEN, ids=lambda change: change.__name__)
def test_a_broken_model_is_refused_in_one_sentence(change, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(broken(change))
    with pytest.raises(InputError) as caught:
        read_onnx(path)
    assert BROKEN[change] in str(caught.value)
    assert "\n" not in str(caught.value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_files_are_read_or_refused_in_one_sentence(data, tmp_path):
    content = bytearray(attention_block().SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        if data.draw(st.booleans()):
            content[at] = data.draw(st.integers(0, 255))
        else:
            del content[at : at + data.draw(st.integers(1, 40))]
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    assert "\n" not in _said(path)


def _said(path):
    try:
        read_onnx(path, {"batch": 2, "length": 4})
    except InputError as error:
        return str(error)
    return ""
