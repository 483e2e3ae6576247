"""Loads a file's bytes as a graph with inferred shapes and without the elements of weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from instances.catalog import near_miss
from instances.errors import InputError
from instances.models.onnx_graph.constants import SMALL
from instances.models.onnx_graph.functions import inlined, sentence

_DATA = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")


def load(content: bytes, source: str, dims: Mapping[str, int]) -> Any:
    """The `onnx.ModelProto` of a file's content: functions inlined, named sizes replaced, shapes inferred.

    Raises InputError if the content is not a model, has control flow or a size without a value, or if ``dims`` has an
    unknown name.
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
    _require_operator_set(model, source)
    _require_one_source(model.graph, source)
    _require_no_control_flow(model, source)
    _set_sizes(model.graph, source, dims)
    model = inlined(model, source)
    try:
        content = model.SerializeToString()
        del model  # as inference makes copies
        return onnx.shape_inference.infer_shapes(content, data_prop=True)
    except Exception as error:  # of onnx's own kinds, which have no common base
        raise InputError(source, "graph", f"expected shapes that can be inferred ({sentence(error)})") from None


def _drop_weights(model: Any) -> None:
    """Drop the numbers of large tensors, and texts for people."""
    for tensor in model.graph.initializer:
        _drop_numbers(tensor)
    for node in (node for part in (model.graph, *model.functions) for node in part.node):
        for field in ("doc_string", "metadata_props"):
            node.ClearField(field)
        for attribute in node.attribute:
            if attribute.HasField("t"):
                _drop_numbers(attribute.t)


def _drop_numbers(tensor: Any) -> None:
    if len(tensor.raw_data) > 16 * SMALL or any(len(getattr(tensor, field)) > 2 * SMALL for field in _DATA[1:]):
        for field in _DATA:
            tensor.ClearField(field)


def _require_operator_set(model: Any, source: str) -> None:
    """Raise InputError for operators newer than the installed package knows."""
    import onnx

    newest = onnx.defs.onnx_opset_version()
    for opset in model.opset_import:
        if opset.domain in ("", "ai.onnx") and not 1 <= opset.version <= newest:
            expected = f"expected at most version {newest}, which the installed package onnx knows"
            raise InputError(source, "opset_import", f"{expected}, found {opset.version}")


def _require_one_source(graph: Any, source: str) -> None:
    """Raise InputError if two stored tensors or two nodes make the same value."""
    found = set[str]()
    stored = (tensor.name for tensor in graph.initializer)
    for name in (*stored, *(name for node in graph.node for name in node.output if name)):
        if name in found:
            raise InputError(source, f"tensor {name}", "expected one source, found two")
        found.add(name)


def _require_no_control_flow(model: Any, source: str) -> None:
    """Raise InputError if a node, also of a function, runs a graph of its own."""
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        for node in nodes:
            if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
                place = f"node {node.name or next(iter(node.output), node.op_type)}"
                raise InputError(source, place, f"expected no control flow, found {node.op_type}")


def _set_sizes(graph: Any, source: str, dims: Mapping[str, int]) -> None:
    """Replace named sizes of the graph by numbers."""
    names = set[str]()
    for value in (*graph.input, *graph.output, *graph.value_info):
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param:
                names.add(dimension.dim_param)
            if dimension.dim_param in dims:
                dimension.dim_value = dims[dimension.dim_param]
    for name in dims:
        if not names:
            raise InputError(source, f"size {name}", "expected no such size, as the model's sizes have no names")
        if name not in names:
            expected = f"expected the name of a size of the model{near_miss(name, names)}"
            raise InputError(source, f"size {name}", expected)
    _require_sizes(graph, source)


def _require_sizes(graph: Any, source: str) -> None:
    """Raise InputError if a size of an input has no number."""
    stored = {tensor.name for tensor in graph.initializer}
    missing: dict[str, str] = {}  # name of a size to the first input that has it
    for value in (value for value in graph.input if value.name not in stored):
        for position, dimension in enumerate(value.type.tensor_type.shape.dim):
            if dimension.dim_param:
                missing.setdefault(dimension.dim_param, value.name)
            elif not dimension.HasField("dim_value"):
                expected = f"expected a number for its dimension {position}, which has no name either"
                raise InputError(source, f"tensor {value.name}", expected)
    for name, tensor in missing.items():
        options, values = " ".join(f"--dim {x}=N" for x in missing), ", ".join(f"{x!r}: N" for x in missing)
        advice = f"pass {options}, or dims={{{values}}} in Python"
        raise InputError(source, f"tensor {tensor}", f"expected a number for its size {name}; {advice}")
