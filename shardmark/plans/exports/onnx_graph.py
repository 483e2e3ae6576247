"""Reads an ONNX file as the graph that a plan splits: functions inlined, loops unrolled, sizes and shapes fixed."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from shardmark.instances.errors import InputError
from shardmark.instances.files.jsonfile import read_bytes, sha256
from shardmark.instances.models.model import Tensor
from shardmark.instances.models.onnx_file import read_flow
from shardmark.instances.models.onnx_graph.control.flow import Flow
from shardmark.instances.models.onnx_graph.control.nodes import Body, captured, is_control, replaced
from shardmark.instances.models.onnx_graph.functions import inlined
from shardmark.instances.models.onnx_graph.operator_sets import modern
from shardmark.instances.models.onnx_graph.sizes import set_sizes
from shardmark.plans.exports.external_data import external_data, stored_outside

STANDARD = ("", "ai.onnx")  # domains of the operators of ONNX itself


def load(path: str | os.PathLike[str], digest: str | None = None, dims: Mapping[str, int] | None = None) -> Any:
    """The `onnx.ModelProto` of a file, with local functions inlined; external data stay in their files.

    If ``dims`` is given, all symbolic sizes become numbers.

    Its nodes are those that `shardmark.instances.models.onnx_file` reads. Raises InputError if the file cannot be read,
    is not an ONNX model, or does not have the SHA-256 ``digest``, and if functions or operators are refused.
    """
    import onnx
    from google.protobuf.message import DecodeError

    content = read_bytes(path)
    if digest is not None and sha256(content) != digest:
        raise InputError(path, "", f"expected the model of the plan, whose SHA-256 begins with {digest[:12]}")
    try:
        model = onnx.ModelProto.FromString(content)
    except DecodeError:
        raise InputError(path, "", "expected an ONNX model, found bytes that do not decode as one") from None
    if dims is not None:
        set_sizes(model.graph, os.fspath(path), dims)
    return modern(inlined(model, os.fspath(path)), os.fspath(path))


def load_fixed(
    path: str | os.PathLike[str],
    dims: Mapping[str, int],
    digest: str | None = None,
    branches: Mapping[str, str] | None = None,
) -> tuple[Any, dict[str, Tensor]]:
    """The model of a file with numbers for symbolic sizes, and its tensors by name.

    Loops and branches are replaced as the plan does, and nodes that ask for the shape of a tensor become constants.
    Raises InputError as `load` and `read_onnx` do, and for a branch that inputs decide and ``branches`` does not.
    """
    model = load(path, digest, dims)
    found, flow = read_flow(path, dims, branches=branches)
    require_decided(flow, path)
    _replace(model, flow)
    tensors = {tensor.name: tensor for tensor in found.tensors}
    _fix_shapes(model, tensors)
    return model, tensors


def require_decided(flow: Flow, path: str | os.PathLike[str]) -> None:
    """InputError for a branch that depends on inputs and that the user does not name: no stage could follow it."""
    for name in flow.undecided:
        expected = (
            "expected --branch NAME=then or NAME=else to run the model, as its inputs decide which branch is taken"
        )
        raise InputError(path, f"node {name}", expected)


def _replace(model: Any, flow: Flow) -> None:
    """Replace the loops and branches of a model by what was chosen for them."""
    graph = model.graph
    if not any(map(is_control, graph.node)):
        return
    version = next((opset.version for opset in model.opset_import if opset.domain in STANDARD), 1)

    def store(body: Body) -> None:
        graph.initializer.extend(body.stored.values())

    nodes = list(graph.node)
    graph.ClearField("node")
    graph.node.extend(node for node, _ in replaced(nodes, lambda _, name, __: flow.taken.get(name), version, store))
    model.ir_version = max(model.ir_version, 4)  # from which on an initializer need not be an input


def _fix_shapes(model: Any, tensors: Mapping[str, Tensor]) -> None:
    from onnx import helper, numpy_helper

    for node in model.graph.node:
        if node.op_type in ("Shape", "Size") and node.domain in STANDARD and node.input[0] in tensors:
            shape = tensors[node.input[0]].shape
            ends = {attribute.name: attribute.i for attribute in node.attribute}
            value: Any = shape[ends.get("start") : ends.get("end")] if node.op_type == "Shape" else math.prod(shape)
            tensor = numpy_helper.from_array(np.array(value, np.int64))
            node.CopyFrom(helper.make_node("Constant", [], list(node.output), name=node.name, value=tensor))


def header(model: Any) -> Any:
    """A copy of a model without its graph: IR version, operator sets, metadata."""
    copy = type(model)()
    for field, value in model.ListFields():
        if field.name in ("graph", "training_info"):
            continue
        if isinstance(value, str | int):
            setattr(copy, field.name, value)
        else:
            getattr(copy, field.name).extend(value)
    copy.graph.name = model.graph.name
    copy.graph.doc_string = model.graph.doc_string
    copy.graph.metadata_props.extend(model.graph.metadata_props)
    return copy


def value_info(tensor: Tensor) -> Any:
    """The `onnx.ValueInfoProto` of a tensor."""
    from onnx import helper

    dtype = helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype))
    return helper.make_tensor_value_info(tensor.name, dtype, tensor.shape)


def reads(node: Any) -> list[str]:
    """Tensors that a node reads, each once, also those that a loop takes from the graph around it."""
    return list(dict.fromkeys([*filter(None, node.input), *captured(node)]))


def require_exportable(
    path: str | os.PathLike[str],
    export: str = "stages",
    dims: Mapping[str, int] | None = None,
    branches: Mapping[str, str] | None = None,
) -> None:
    """InputError for a model of which no export would be valid: its external data, its versions or its nodes are unfit.

    What only ONNX Runtime refuses is left to it.
    """
    model = load(path)
    node = next(filter(is_control, model.graph.node), None)
    if node is not None and export == "annotated":
        place = f"node {node.name or next(iter(node.output), node.op_type)}"
        expected = f"expected no {node.op_type} to annotate, as it is planned in parts: use --export stages"
        raise InputError(path, place, expected)
    if node is not None:
        require_decided(read_flow(path, dims, branches=branches)[1], path)
    for tensor in stored_outside(model.graph):
        external_data(tensor, Path(path))
    _require_operator_sets(model, path)
    require_valid(model, path)


def _require_operator_sets(model: Any, path: str | os.PathLike[str]) -> None:
    """InputError for a function of operators that are newer than the installed package, which checks no such call."""
    import onnx

    newest = onnx.defs.onnx_opset_version()
    for function in model.functions:
        for opset in function.opset_import:
            if opset.domain in STANDARD and opset.version > newest:
                expected = f"expected operators of at most version {newest}, which the installed package onnx knows"
                raise InputError(path, f"function {function.name}", f"{expected}, found {opset.version}")


def require_valid(model: Any, path: str | os.PathLike[str], place: str = "") -> None:
    """InputError at a place if package onnx finds a model invalid, whose external data it loses here.

    They have been found; the package would look for them from the current folder, and takes no path that is not UTF-8.
    """
    from onnx import checker

    for tensor in list(stored_outside(model.graph)):
        tensor.ClearField("data_location")
        tensor.ClearField("external_data")
        tensor.dims[:] = [0]
    try:
        checker.check_model(model)
    except checker.ValidationError as error:
        why = " ".join(str(error).strip().split("\n")[0].split())
        raise InputError(path, place, f"expected a valid model ({why})") from None
