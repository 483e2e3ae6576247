"""Loads a file's bytes as a graph with inferred shapes and without the elements of weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardmark.instances.errors import InputError
from shardmark.instances.models.onnx_graph.constants import SMALL
from shardmark.instances.models.onnx_graph.control.nodes import KINDS, graphs, is_control
from shardmark.instances.models.onnx_graph.functions import inlined, sentence
from shardmark.instances.models.onnx_graph.modules import keep_only_modules
from shardmark.instances.models.onnx_graph.operator_sets import modern
from shardmark.instances.models.onnx_graph.sizes import set_sizes

_DATA = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")


def load(content: bytes, source: str, dims: Mapping[str, int]) -> Any:
    """The `onnx.ModelProto` of a file's content: functions inlined, symbolic sizes replaced, old operators converted.

    Shapes are inferred.

    Raises InputError if the content is not a model, has other control flow than If, Loop and Scan, recursion or a size
    without a value, or if ``dims`` has an unknown name.
    """
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.ModelProto.FromString(content)
    except DecodeError:
        raise InputError(source, "", "expected an ONNX model, found bytes that do not decode as one") from None
    del content
    if not model.graph.node:
        raise InputError(source, "graph", "expected an ONNX model with nodes")
    _drop_weights(model)
    _require_one_source(model.graph, source)
    _require_known_control_flow(model, source)
    set_sizes(model.graph, source, dims)
    model = modern(inlined(model, source), source)
    try:  # without propagation of data, which makes as many numbers as a Range or a Tile says
        content = model.SerializeToString()
        del model  # as inference makes copies
        return onnx.shape_inference.infer_shapes(content)
    except Exception as error:  # of onnx's own kinds, which have no common base
        raise InputError(source, "graph", f"expected shapes that can be inferred ({sentence(error)})") from None


def _drop_weights(model: Any) -> None:
    """Drop the numbers of large tensors, and texts for people other than names of modules."""
    waiting = [model.graph, *model.functions]
    while waiting:
        part = waiting.pop()
        for tensor in getattr(part, "initializer", ()):
            _drop_numbers(tensor)
        for node in part.node:
            node.ClearField("doc_string")
            keep_only_modules(node)
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    _drop_numbers(attribute.t)
            waiting += graphs(node)


def _drop_numbers(tensor: Any) -> None:
    if len(tensor.raw_data) > 16 * SMALL or any(len(getattr(tensor, field)) > 2 * SMALL for field in _DATA[1:]):
        for field in _DATA:
            tensor.ClearField(field)


def _require_one_source(graph: Any, source: str) -> None:
    """Raise InputError if two stored tensors or two nodes make the same value."""
    found = set[str]()
    stored = (tensor.name for tensor in graph.initializer)
    for name in (*stored, *(name for node in graph.node for name in node.output if name)):
        if name in found:
            raise InputError(source, f"tensor {name}", "expected one source, found two")
        found.add(name)


def _require_known_control_flow(model: Any, source: str) -> None:
    """Raise InputError if a node, also of a function, runs a graph of its own and is no If, Loop or Scan."""
    waiting = [model.graph.node, *(function.node for function in model.functions)]
    while waiting:
        for node in waiting.pop():
            inner = graphs(node)
            if inner and not is_control(node):
                place = f"node {node.name or next(iter(node.output), node.op_type)}"
                expected = f"expected no other control flow than {', '.join(KINDS)}, found {node.op_type}"
                raise InputError(source, place, expected)
            waiting += [graph.node for graph in inner]
