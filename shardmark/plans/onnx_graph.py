"""An ONNX file as a graph to cut: sizes fixed, types inferred, and the tensors that each node reads."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from instances.errors import InputError
from instances.files.jsonfile import read_bytes, sha256
from instances.models.model import BITS

ALIGNMENT = 4096  # bytes; external data begin at a page, as ONNX advises, so that they can be mapped into memory
STANDARD = ("", "ai.onnx")  # domains of the operators of ONNX itself
LARGE = 1024  # bytes of a tensor; shape inference needs the values of smaller ones only


def load(path: str | os.PathLike[str], dims: Mapping[str, int], digest: str | None = None) -> Any:
    """The `onnx.ModelProto` of a file, with symbolic sizes replaced; external data stay in their files.

    Raises InputError if the file cannot be read, is not an ONNX model, or does not have the SHA-256 ``digest``.
    """
    import onnx
    from google.protobuf.message import DecodeError

    content = read_bytes(path)
    if digest is not None and sha256(content) != digest:
        raise InputError(path, "", f"expected the model of the plan, whose SHA-256 begins with {digest[:12]}")
    try:
        model = onnx.ModelProto.FromString(content)
    except DecodeError:
        model = None
    if model is None or not model.graph.node:
        raise InputError(path, "", "expected an ONNX model")
    for info in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_param in dims:
                dim.dim_value = dims[dim.dim_param]
    return model


def infer_types(model: Any, path: str | os.PathLike[str]) -> dict[str, Any]:
    """The `onnx.TypeProto` of every tensor of the graph whose type can be inferred, by name."""
    import onnx

    try:
        graph = onnx.shape_inference.infer_shapes(_without_weights(model), data_prop=True).graph
    except onnx.shape_inference.InferenceError as error:
        why = str(error).strip().split("\n")[0]
        raise InputError(path, "", f"expected a model whose types can be inferred ({why})") from None
    types = {info.name: info.type for info in (*graph.input, *graph.value_info, *graph.output)}
    for tensor in graph.initializer:
        types[tensor.name] = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
    return types


def is_large(tensor: Any) -> bool:
    """True for an `onnx.TensorProto` whose values are large or outside the file."""
    return bool(tensor.ByteSize() > LARGE or tensor.data_location == tensor.EXTERNAL)


def _without_weights(model: Any) -> Any:
    """A copy of a model in which large initializers have a type and a shape, but no values."""
    import onnx

    light = header(model)
    for field in ("node", "input", "output", "value_info"):
        getattr(light.graph, field).extend(getattr(model.graph, field))
    for tensor in model.graph.initializer:
        if is_large(tensor):
            tensor = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        light.graph.initializer.append(tensor)
    return light


def header(model: Any) -> Any:
    """A copy of a model without its graph: IR version, operator sets, functions, metadata."""
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


def fix_shapes(model: Any, types: Mapping[str, Any]) -> None:
    """Replace, in a model, the nodes that ask for the shape or the size of a tensor by its known value."""
    from onnx import helper, numpy_helper

    for node in model.graph.node:
        if node.op_type in ("Shape", "Size") and node.domain in STANDARD and _static(types.get(node.input[0])):
            shape = [dim.dim_value for dim in types[node.input[0]].tensor_type.shape.dim]
            ends = {attribute.name: attribute.i for attribute in node.attribute}
            value: Any = shape[ends.get("start") : ends.get("end")] if node.op_type == "Shape" else math.prod(shape)
            tensor = numpy_helper.from_array(np.array(value, np.int64))
            node.CopyFrom(helper.make_node("Constant", [], list(node.output), name=node.name, value=tensor))


def _static(kind: Any) -> bool:
    """True if the sizes of all dimensions of a type are known."""
    shape = kind.tensor_type.shape if kind is not None and kind.tensor_type.HasField("shape") else None
    return shape is not None and all(dim.HasField("dim_value") for dim in shape.dim)


def described(name: str, types: Mapping[str, Any], path: str | os.PathLike[str]) -> dict[str, Any]:
    """Name, data type, shape and bytes of a tensor; InputError unless all are known."""
    from onnx import helper

    place = f"tensor {name!r}"
    kind = types[name].tensor_type if name in types else None
    if kind is None or not kind.elem_type:
        raise InputError(path, place, "expected a tensor whose type can be inferred")
    if not _static(types[name]):
        unknown = next((dim.dim_param for dim in kind.shape.dim if dim.dim_param), "")
        remedy = f"; give one with --dim {unknown}=8" if unknown else ""
        raise InputError(path, place, f"expected a size for each of its dimensions{remedy}")
    dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
    shape = [dim.dim_value for dim in kind.shape.dim]
    return {"name": name, "dtype": dtype.name, "shape": shape, "bytes": _bytes(dtype.name, shape)}


def _bytes(dtype: str, shape: list[int]) -> int:
    """Bytes of a tensor, rounded up; 0 for one of strings, whose bytes are not known."""
    return -(-math.prod(shape) * BITS.get(dtype, 0) // 8)


def reads(node: Any) -> list[str]:
    """Tensors that a node reads, each once: its inputs, and those that its subgraphs take from outside."""
    captured = (name for graph in subgraphs(node) for name in _free_names(graph))
    return list(dict.fromkeys(name for name in (*node.input, *captured) if name))


def subgraphs(node: Any) -> Iterator[Any]:
    """The graphs among the attributes of a node, such as the branches of ``If``."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _free_names(graph: Any) -> Iterator[str]:
    """Names that a graph uses and does not define."""
    bound = {item.name for item in (*graph.input, *graph.initializer)}
    bound |= {tensor.values.name for tensor in graph.sparse_initializer}
    for node in graph.node:
        yield from (name for name in reads(node) if name not in bound)
        bound.update(node.output)
    yield from (item.name for item in graph.output if item.name not in bound)


def carry_weights(model: Any, source: Path, target: Path) -> None:
    """Copy the external data of a model from the folder ``source`` into one file, which is not made if there are none.

    One tensor at a time is in memory. Raises InputError if data are missing, cut short or outside the folder.
    """
    from onnx.checker import ValidationError
    from onnx.external_data_helper import load_external_data_for_tensor, set_external_data

    outside = [tensor for tensor in _tensors(model.graph) if tensor.data_location == tensor.EXTERNAL]
    if not outside:
        return
    with open(target, "wb") as stream:
        for tensor in outside:
            try:
                load_external_data_for_tensor(tensor, str(source))
            except (OSError, ValueError, ValidationError) as error:
                why = str(error).split("\n")[0]
                raise InputError(source, f"tensor {tensor.name!r}", f"expected its external data ({why})") from None
            stream.write(bytes(-stream.tell() % ALIGNMENT))
            set_external_data(tensor, target.name, stream.tell(), len(tensor.raw_data))
            stream.write(tensor.raw_data)
            tensor.ClearField("raw_data")


def _tensors(graph: Any) -> Iterator[Any]:
    """Every `onnx.TensorProto` of a graph: initializers and attributes, subgraphs included."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
        for inner in subgraphs(node):
            yield from _tensors(inner)
