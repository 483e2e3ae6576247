"""Shapes and data types of the values of a graph."""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from typing import Any

from shardmark.instances.errors import InputError
from shardmark.instances.models.model import BITS
from shardmark.instances.models.onnx_graph.constants import Constants, Shape

_DTYPES = {
    "float": "float32",
    "double": "float64",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
    "float4e2m1": "float4_e2m1fn",
}
#: Numbers of a tensor, at most.
MOST = 1 << 60


class Types:
    """Types of values: as stated by the file, as inferred for the whole graph, or else inferred for one node."""

    def __init__(self, source: str, opsets: Mapping[str, int], constants: Constants) -> None:
        self._source, self._opsets, self._constants = source, opsets, constants
        self._types: MutableMapping[str, Any] = {}  # an onnx.TypeProto, or (shape, data type) once asked for
        self._makers: dict[str, str] = {}  # kinds of the operators that make values
        self._equal: dict[tuple[Shape, str], tuple[Shape, str]] = {}

    def fork(self, constants: Constants) -> Types:
        """Types to which others can be added that are not in these, with constants of their own."""
        copy = Types(self._source, self._opsets, constants)
        copy._types = ChainMap({}, self._types)
        return copy

    def state(self, name: str, shape: Shape, dtype: str) -> None:
        """Take a shape and a data type."""
        self._types[name] = shape, dtype

    def declare(self, value: Any) -> None:
        """Take the type of an `onnx.ValueInfoProto`."""
        if value.HasField("type"):
            self._types[value.name] = value.type

    def declare_stored(self, name: str, shape: Shape, data_type: int) -> None:
        """Take the type of a stored tensor."""
        if any(size < 0 for size in shape) or math.prod(shape) > MOST:
            raise self._error(f"tensor {name}", f"expected sizes >= 0 and at most 2^60 numbers, found {list(shape)}")
        self._types[name] = shape, self._dtype(data_type, name)

    def known(self, name: str) -> bool:
        """True if a value's shape is known."""
        kind = self._types.get(name)
        if kind is None or isinstance(kind, tuple):
            return kind is not None
        tensor = kind.tensor_type
        return tensor.HasField("shape") and all(dimension.HasField("dim_value") for dimension in tensor.shape.dim)

    def shape(self, name: str) -> Shape:
        """Sizes of a value; InputError if they are unknown."""
        return self.of(name)[0]

    def of(self, name: str) -> tuple[Shape, str]:
        """Shape and data type of a value; InputError if they are unknown."""
        kind = self._types.get(name)
        if isinstance(kind, tuple):
            return kind
        place = f"tensor {name}"
        if kind is None:
            made = f"; {self._makers[name]} makes it, so state it as value_info" if name in self._makers else ""
            raise self._error(place, f"expected a known shape, but none is stated or can be inferred{made}")
        if not kind.HasField("tensor_type"):
            raise self._error(
                place, f"expected a tensor, found {(kind.WhichOneof('value') or 'nothing').split('_')[0]}"
            )
        shape = self._sizes(kind.tensor_type, place)
        if any(size < 0 for size in shape) or math.prod(shape) > MOST:
            raise self._error(place, f"expected sizes >= 0 and at most 2^60 numbers, found {list(shape)}")
        found = shape, self._dtype(kind.tensor_type.elem_type, name)
        self._types[name] = found = self._equal.setdefault(found, found)
        return found

    def infer(self, node: Any) -> None:
        """Infer the types of a node's outputs that are unknown, from its inputs and what is known of their numbers."""
        import onnx

        self._makers |= dict.fromkeys(node.output, node.op_type)
        if all(self.known(name) for name in node.output if name):
            return
        if not all(self.known(name) for name in node.input if name):
            return
        domain = "" if node.domain == "ai.onnx" else node.domain
        try:
            schema = onnx.defs.get_schema(node.op_type, self._opsets.get(domain, 1), domain)
            inputs = {name: self._proto(name) for name in node.input if name}
            numbers = {name: self._constants.numbers(name) for name in inputs if name in self._constants}
            found = onnx.shape_inference.infer_node_outputs(
                schema,
                node,
                inputs,
                {name: onnx.numpy_helper.from_array(x, name) for name, x in numbers.items() if x is not None},
                opset_imports=[onnx.OperatorSetIdProto(domain=key, version=x) for key, x in self._opsets.items()],
            )
        except Exception:  # of onnx's own kinds, which have no common base
            return  # whoever reads an output asks for its shape
        for name, kind in found.items():
            if not self.known(name):
                self._types[name] = kind

    def settle(self, name: str, numbers: Any) -> None:
        """Take the type of a constant whose numbers are worked out, if nothing else gives it."""
        import onnx

        if numbers is not None and not self.known(name):
            self._types[name] = numbers.shape, self._dtype(onnx.helper.np_dtype_to_tensor_dtype(numbers.dtype), name)

    def _proto(self, name: str) -> Any:
        """The type of a value, which is known, as onnx has it."""
        import onnx

        kind = self._types[name]
        if isinstance(kind, tuple):
            number = onnx.helper.np_dtype_to_tensor_dtype(_numpy_dtype(kind[1]))
            return onnx.helper.make_tensor_type_proto(number, kind[0])
        return kind

    def _sizes(self, tensor: Any, place: str) -> Shape:
        if not tensor.HasField("shape"):
            raise self._error(place, "expected a known number of dimensions")
        sizes = list[int]()
        for position, dimension in enumerate(tensor.shape.dim):
            if not dimension.HasField("dim_value"):
                raise self._error(
                    place, f"expected a known size of dimension {position}; it depends on computed values"
                )
            sizes.append(dimension.dim_value)
        return tuple(sizes)

    def _dtype(self, number: int, name: str) -> str:
        import onnx

        try:
            dtype = onnx.TensorProto.DataType.Name(number).lower()
        except ValueError:
            dtype = f"of number {number}"
        dtype = _DTYPES.get(dtype, dtype)
        if dtype not in BITS:
            raise self._error(f"tensor {name}", f"expected a tensor of numbers, found data type {dtype}")
        return dtype

    def _error(self, place: str, expected: str) -> InputError:
        return InputError(self._source, place, expected)


def _numpy_dtype(name: str) -> Any:
    import ml_dtypes
    import numpy as np

    return np.dtype(getattr(ml_dtypes, name) if hasattr(ml_dtypes, name) else name)
