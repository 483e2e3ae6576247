"""ONNX models, as models.

What becomes of the parts of a graph:

initializers      parameters, also those that the graph lists among its inputs; external data is never opened
constants         whatever follows from constants alone is folded: it is a parameter if an operator reads it
values as shapes  an input of which only the value counts, such as the new shape of a Reshape, is not read if constant
outputs           those that nobody reads, such as the mask of a Dropout, are no tensors
views             Reshape, Flatten, Squeeze, Unsqueeze, Identity and Dropout move no byte
operators         named as `instances.models.onnx_names` does; those without a rule move bytes and are told of
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from instances.errors import InputError
from instances.files.jsonfile import collector_paused, read_bytes
from instances.models.model import BITS, Access, Model
from instances.models.onnx_graph.call import Call, Dims, Shape, Unfit
from instances.models.onnx_graph.loops import nest_of
from instances.models.onnx_names import operator_names

LARGEST = 2 << 30  # bytes of a file, the most that protobuf reads
_SMALL = 1024  # numbers of a constant whose value is kept
_RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
#: Operators that are not folded, though all they read is constant.
_UNFOLDED = _RANDOM | {"DequantizeLinear", "DynamicQuantizeLinear"}


def read_onnx(
    path: str | os.PathLike[str], dims: Mapping[str, int] | None = None, tell: Callable[[str], None] = lambda _: None
) -> Model:
    """The model of an ONNX file, plain or gzip.

    ``dims`` gives sizes for dimensions that have a name instead. ``tell`` is called with a sentence on operators of
    unknown arithmetic. Raises InputError for anything that is not an ONNX model with known shapes.
    """
    source = os.fspath(path)
    with collector_paused():
        reader = _Reader(_inferred(read_bytes(path, LARGEST), source, dims or {}), source)
        reader.read()
        for sentence in reader.doubts():
            tell(sentence)
        return reader.model


def _inferred(content: bytes, source: str, dims: Mapping[str, int]) -> Any:
    """The parsed file, without the numbers of its large tensors, with all shapes that can be inferred."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        model = onnx.ModelProto.FromString(content)
    except DecodeError:
        raise InputError(source, "", "expected an ONNX model, found bytes that do not decode") from None
    if not model.graph.node and not model.graph.output:
        raise InputError(source, "graph", "expected an ONNX model with nodes")
    for tensor in model.graph.initializer:
        _drop_numbers(tensor)
    for value in model.graph.input:
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param in dims:
                dimension.dim_value = dims[dimension.dim_param]
    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception as error:
        raise InputError(source, "graph", f"expected shapes that can be inferred ({_one_line(error)})") from None


def _drop_numbers(tensor: Any) -> None:
    if len(tensor.raw_data) > 8 * _SMALL or len(tensor.float_data) > _SMALL or len(tensor.int64_data) > _SMALL:
        for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
            tensor.ClearField(field)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


class _Reader:
    """Walks a graph, and builds its model."""

    def __init__(self, proto: Any, source: str) -> None:
        self._source, self._graph = source, proto.graph
        self.model = Model(os.path.basename(source).split(".")[0] or "model")
        self._version = next((x.version for x in proto.opset_import if x.domain in ("", "ai.onnx")), 1)
        self._types: dict[str, tuple[Shape | str, str]] = {}  # of every value; instead of a shape, why it is unknown
        self._constants: dict[str, list[Any] | None] = {}  # numbers of small ones
        self._tensors: dict[str, int] = {}  # of the model
        self._unknown: Counter[str] = Counter()

    def read(self) -> None:
        """Build the model."""
        graph = self._graph
        for value in (*graph.value_info, *graph.output, *graph.input):
            self._declare(value)
        for tensor in graph.initializer:
            self._types[tensor.name] = tuple(tensor.dims), self._dtype(tensor.data_type, tensor.name)
            self._constants[tensor.name] = self._numbers(tensor)
        for value in graph.input:
            if value.name not in self._constants:
                self._append_tensor(value.name)
        used = {name for node in graph.node for name in node.input} | {value.name for value in graph.output}
        for node, name in zip(graph.node, operator_names(graph.node), strict=True):
            self._node(node, name, used)
        self.model.outputs += [self._read(value.name, "graph") for value in graph.output]

    def doubts(self) -> Iterable[str]:
        """A sentence on operators of unknown arithmetic."""
        if self._unknown:
            number = sum(self._unknown.values())
            listed = ", ".join(f"{kind} ({count})" for kind, count in self._unknown.most_common(8))
            yield f"{number} operators of unknown arithmetic are taken to move bytes only: {listed}"

    def _error(self, place: str, expected: str) -> InputError:
        return InputError(self._source, place, expected)

    def _dtype(self, number: int, name: str) -> str:
        import onnx

        try:
            dtype = onnx.TensorProto.DataType.Name(number).lower()
        except ValueError:
            dtype = "undefined"
        dtype = {"float": "float32", "double": "float64"}.get(dtype, dtype).replace("float8e", "float8_e")
        dtype = dtype.replace("float4e2m1", "float4_e2m1fn")
        if dtype not in BITS:
            raise self._error(f"tensor {name}", f"expected numbers, found data type {dtype}")
        return dtype

    def _declare(self, value: Any) -> None:
        if not value.type.HasField("tensor_type"):
            return
        kind = value.type.tensor_type
        self._types[value.name] = self._shape(kind), self._dtype(kind.elem_type, value.name)

    def _shape(self, kind: Any) -> Shape | str:
        if not kind.HasField("shape"):
            return "the number of its dimensions is unknown"
        sizes = list[int]()
        for position, dimension in enumerate(kind.shape.dim):
            if not dimension.HasField("dim_value") or dimension.dim_value < 0:
                name = dimension.dim_param
                return f"the size {name}, pass --dim {name}=N" if name else f"the size of its dimension {position}"
            sizes.append(dimension.dim_value)
        return tuple(sizes)

    def _numbers(self, tensor: Any) -> list[Any] | None:
        """Numbers of a small constant."""
        from onnx import numpy_helper

        if math.prod(tensor.dims) > _SMALL or tensor.data_location:
            return None
        numbers: list[Any] = numpy_helper.to_array(tensor).ravel().tolist()
        return numbers

    def _type(self, name: str, place: str) -> tuple[Shape, str]:
        """Shape and data type of a value."""
        if name not in self._types:
            raise self._error(place, f"expected the shape of tensor {name}, which cannot be inferred")
        shape, dtype = self._types[name]
        if isinstance(shape, str):
            raise self._error(f"tensor {name}", f"expected a known shape, missing is {shape}")
        return shape, dtype

    def _append_tensor(self, name: str) -> int:
        shape, dtype = self._type(name, "graph")
        self._tensors[name] = self.model.tensor(name, shape, dtype, parameter=name in self._constants)
        return self._tensors[name]

    def _read(self, name: str, place: str) -> int:
        """The tensor of a value that is there."""
        if name in self._tensors:
            return self._tensors[name]
        if name not in self._constants:
            raise self._error(
                place, f"expected tensor {name} to be an input, a constant or the output of a node before"
            )
        return self._append_tensor(name)

    def _node(self, node: Any, name: str, used: set[str]) -> None:
        inputs = [value for value in node.input if value]
        if all(value in self._constants for value in inputs) and node.op_type not in _UNFOLDED:
            self._fold(node)
            return
        place = f"node {name}"
        outputs = [value if value in used else "" for value in node.output]
        if not any(outputs):
            return
        call = Call(
            node.op_type,
            [self._type(value, place)[0] if value else None for value in node.input],
            [self._type(value, place)[0] if value else None for value in outputs],
            self._attributes(node),
            [self._constants.get(value) for value in node.input],
            self._version,
        )
        try:
            nest = nest_of(call)
        except Unfit as error:
            raise self._error(place, str(error)) from None
        if not nest.known:
            self._unknown[node.op_type] += 1
        reads = [
            Access(self._read(value, place), dims, nest.numbers.get(number))
            for number, (value, dims) in enumerate(zip(node.input, self._charged(node, nest.reads), strict=False))
            if dims is not None
        ]
        writes = []
        for value, dims in zip(outputs, nest.writes, strict=False):
            if value and dims is not None:
                if value in self._tensors:
                    raise self._error(place, f"expected one source of tensor {value}, found two")
                writes.append(Access(self._append_tensor(value), dims))
        self.model.operator(
            name,
            node.op_type,
            reads,
            writes,
            nest.loops,
            flops=nest.flops,
            multiply_adds=nest.multiply_adds,
            whole=nest.whole,
            view=nest.view,
            known=nest.known,
        )

    def _charged(self, node: Any, reads: Iterable[Dims | None]) -> Iterable[Dims | None]:
        """The loops over inputs, also over those of which only the value counts, if they are no constants."""
        for value, dims in zip(node.input, reads, strict=False):
            if dims is None and value and value not in self._constants:
                yield (None,) * len(self._type(value, "")[0])
            else:
                yield dims if value else None

    def _fold(self, node: Any) -> None:
        """Declare the outputs of a node whose inputs are constant."""
        for value in node.output:
            self._constants[value] = None
        if node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.name == "value":
                    tensor = attribute.t
                    self._types[node.output[0]] = tuple(tensor.dims), self._dtype(tensor.data_type, node.output[0])
                    self._constants[node.output[0]] = self._numbers(tensor)

    def _attributes(self, node: Any) -> dict[str, Any]:
        import onnx

        return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
