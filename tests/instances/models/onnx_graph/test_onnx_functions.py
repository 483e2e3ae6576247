"""Functions of ONNX models are measured before they are inlined."""

from __future__ import annotations

import itertools

import onnx
import pytest
from onnx import TensorProto, helper

from shardmark.instances.errors import InputError
from shardmark.instances.models.onnx_file import read_onnx
from shardmark.plans.exports.onnx_graph import load

OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]


def call(name, read="x", written="y"):
    return helper.make_node(name, [read], [written], domain="own")


def function(name, *nodes):
    return helper.make_function("own", name, ["x"], ["y"], list(nodes), OPSETS)


def model_of(main, functions):
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy")
    graph = helper.make_graph([call(main)], "graph", [x], [y])
    return helper.make_model(graph, opset_imports=OPSETS, functions=functions)


def calling(levels, calls):
    """Each function calls the one before it so many times."""
    values = ["x", *(f"h{number}" for number in range(calls - 1)), "y"]
    functions = [
        function(f"f{level}", *(call(f"f{level - 1}", *pair) for pair in itertools.pairwise(values)))
        for level in range(1, levels)
    ]
    functions.append(function("f0", helper.make_node("Relu", ["x"], ["y"])))
    return model_of(f"f{levels - 1}", functions)


def recursive(names):
    """Functions that call each other in a circle."""
    return model_of(names[0], [function(name, call(names[number - 1])) for number, name in enumerate(names)])


def widening():
    """2^17 operators of 16 KiB each."""
    model = calling(18, 2)
    model.functions[-1].node[0].name = "n" * (16 << 10)
    return model


def referring(default):
    """2,000 operators that each take a MiB from an attribute of the call, or from its default value."""
    constant = helper.make_node("Constant", [], ["c"])
    constant.attribute.add(name="value_floats", ref_attr_name="v", type=onnx.AttributeProto.FLOATS)
    inner = function("f", *[constant] * 2000, helper.make_node("Relu", ["x"], ["y"]))
    model = model_of("f", [inner])
    value = helper.make_attribute("v", [1.0] * (1 << 18))
    (inner.attribute_proto if default else model.graph.node[0].attribute).append(value)
    if default:
        model.functions[0].CopyFrom(inner)
    else:
        model.functions[0].attribute.append("v")
    return model


REFUSED = {
    "doubling": (calling(40, 2), "at most 2,000,000 operators once function calls are inlined, found 549,755,813,888"),
    "long names": (widening(), "at most 1,073,741,824 bytes of operators once"),
    "attributes": (referring(default=False), "at most 1,073,741,824 bytes of operators once"),
    "defaults": (referring(default=True), "at most 1,073,741,824 bytes of operators once"),
    "recursive": (recursive("f"), "no recursion, found f calls f"),
    "mutually recursive": (recursive("fgh"), "no recursion, found . calls . calls . calls ."),
    "deep": (calling(200, 1), r"functions that onnx can inline \(Function call chain depth exceeds limit"),
}


@pytest.mark.parametrize(("model", "expected"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("read", [read_onnx, load], ids=["to plan", "to export"])
def test_functions_are_measured_before_they_are_inlined(read, model, expected, tmp_path):
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(InputError, match=f"functions: expected {expected}"):
        read(tmp_path / "model.onnx")


def test_calls_of_calls_are_inlined(tmp_path):
    onnx.save(calling(11, 2), tmp_path / "model.onnx")
    assert [operator.kind for operator in read_onnx(tmp_path / "model.onnx").operators] == ["Relu"] * 2**10
