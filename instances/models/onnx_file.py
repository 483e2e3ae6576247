"""Reads ONNX models.

Treatment of the parts of a graph:

functions         inlined
old operators     converted, as `shardmark.instances.models.onnx_graph.operator_sets` says
control flow      refused
symbolic sizes    replaced by the numbers that the caller gives; their names: `onnx_graph.sizes`
initializers      parameters, also those that the graph lists among its inputs; external data is never opened
constants         what depends only on constants and shapes is folded: it is a parameter if an operator reads it
values as shapes  a constant input that sets a shape, such as that of a Reshape, does not count as read
outputs           unread outputs, such as the mask of a Dropout, are omitted
views             Reshape, Flatten, Squeeze, Unsqueeze, Identity and Dropout move no byte
operators         named as `shardmark.instances.models.onnx_graph.names` does; those without a rule move bytes and are
                  told of
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from shardmark.instances.errors import InputError
from shardmark.instances.files.jsonfile import collector_paused, read_bytes
from shardmark.instances.models.model import Access, Dims, Model, Nest, of_unknown_arithmetic
from shardmark.instances.models.onnx_graph.call import Call, Unfit
from shardmark.instances.models.onnx_graph.constants import Constants
from shardmark.instances.models.onnx_graph.load import load
from shardmark.instances.models.onnx_graph.loops import nest_of
from shardmark.instances.models.onnx_graph.names import operator_names
from shardmark.instances.models.onnx_graph.types import Types

LARGEST = 2 << 30  # bytes of a file, the most that protobuf reads
_STANDARD = ("", "ai.onnx")
_SHAPES = {"Shape", "Size"}
#: Operators that are not folded, though all they read is constant: random ones, and those that widen weights.
UNFOLDED = {
    *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
    *("DequantizeLinear", "DynamicQuantizeLinear"),
}


def read_onnx(
    path: str | os.PathLike[str], dims: Mapping[str, int] | None = None, tell: Callable[[str], None] = lambda _: None
) -> Model:
    """The model of an ONNX file, plain or gzip.

    ``dims`` has values for symbolic sizes, by the names of `shardmark.instances.models.onnx_graph.sizes`. ``tell`` is
    called with a sentence on operators of unknown arithmetic. Raises InputError for anything that is not an ONNX model
    with known shapes and without control flow.
    """
    source = os.fspath(path)
    with collector_paused():
        reader = _Reader(load(read_bytes(path, LARGEST), source, dims or {}), source)
        reader.read()
        for sentence in reader.doubts():
            tell(sentence)
        return reader.model


class _Reader:
    """Walks a graph, and builds its model."""

    def __init__(self, proto: Any, source: str) -> None:
        self._source, self._graph = source, proto.graph
        self.model = Model(os.path.basename(source).split(".")[0] or "model")
        opsets = {"" if x.domain == "ai.onnx" else x.domain: x.version for x in proto.opset_import}
        self._version = opsets.get("", 1)
        self._constants = Constants(opsets)
        self._types = Types(source, opsets, self._constants)
        self._tensors: dict[str, int] = {}  # of the model
        self._nests: dict[Any, Nest] = {}  # by all that they follow from
        self._unknown: Counter[str] = Counter()

    def read(self) -> None:
        """Build the model."""
        graph = self._graph
        for value in (*graph.value_info, *graph.output, *graph.input):
            self._types.declare(value)
        for tensor in graph.initializer:
            self._store(tensor.name, tensor)
        for sparse in graph.sparse_initializer:
            self._types.declare_stored(sparse.values.name, tuple(sparse.dims), sparse.values.data_type)
            self._constants.add_tensor(sparse.values.name, None, sparse.dims)
        for value in graph.input:
            if value.name not in self._constants:
                self._append(value.name)
        used = {name for node in graph.node for name in node.input} | {value.name for value in graph.output}
        for node, name in zip(graph.node, operator_names(graph.node), strict=True):
            self._node(node, name, used)
        if not self.model.operators:
            raise self._error("graph", "expected a node whose results follow from an input, not from constants alone")
        self.model.outputs += [self._read(value.name, "graph") for value in graph.output]

    def doubts(self) -> Iterable[str]:
        """A sentence on operators of unknown arithmetic."""
        if self._unknown:
            yield of_unknown_arithmetic(self._unknown)

    def _error(self, place: str, expected: str) -> InputError:
        return InputError(self._source, place, expected)

    def _store(self, name: str, tensor: Any) -> None:
        if name in self._constants:
            raise self._error("graph", f"expected one source of tensor {name}, found two")
        shape = tuple(tensor.dims)
        self._types.declare_stored(name, shape, tensor.data_type)
        self._constants.add_tensor(name, tensor, shape)

    def _append(self, name: str) -> int:
        """Make a tensor of the model of a value."""
        if name in self._tensors:
            raise self._error("graph", f"expected one source of tensor {name}, found two")
        shape, dtype = self._types.of(name)
        self._tensors[name] = self.model.tensor(name, shape, dtype, parameter=name in self._constants)
        return self._tensors[name]

    def _read(self, name: str, place: str) -> int:
        """The tensor of a value that is there."""
        if name in self._tensors:
            return self._tensors[name]
        self._require(name, place)
        return self._append(name)

    def _require(self, name: str, place: str) -> None:
        if name not in self._tensors and name not in self._constants:
            raise self._error(
                place, f"expected tensor {name} to be an input, a constant or the output of an earlier node"
            )

    def _node(self, node: Any, name: str, used: set[str]) -> None:
        place = f"node {name}"
        inputs = [value for value in node.input if value]
        for value in inputs:
            self._require(value, place)
        for value in node.output:
            if value in self._tensors or value in self._constants:
                raise self._error(place, f"expected one source of tensor {value}, found two")
        outputs = [value if value in used else "" for value in node.output]
        if not any(outputs):
            return
        self._types.infer(node)
        standard = node.domain in _STANDARD
        if (
            standard
            and node.op_type not in UNFOLDED
            and not self._is_random_dropout(node)
            and self._folded(node, inputs)
        ):
            return
        nest = self._nest(node, outputs, place)
        if not nest.known:
            self._unknown[node.op_type] += 1
        reads = [
            Access(self._read(value, place), dims, nest.numbers.get(number))
            for number, (value, dims) in enumerate(zip(node.input, self._charged(node, nest.reads), strict=False))
            if value and dims is not None
        ]
        writes = [
            Access(self._append(value), dims)
            for value, dims in zip(outputs, nest.writes, strict=False)
            if value and dims is not None
        ]
        nest.append(self.model, name, node.op_type, reads, writes)

    def _nest(self, node: Any, outputs: Sequence[str], place: str) -> Nest:
        """The loops of a node; equal nodes share them."""
        asked = list[int]()

        def numbers(index: int) -> Any:
            asked.append(index)
            return self._constants.numbers(node.input[index])

        call = Call(
            node.op_type if node.domain in _STANDARD else f"{node.domain}.{node.op_type}",
            tuple(self._types.shape(value) if value else None for value in node.input),
            tuple(self._types.shape(value) if value else None for value in outputs),
            _attributes(node),
            self._version,
            numbers,
        )
        key = call.kind, call.inputs, call.outputs, tuple(x.SerializeToString() for x in node.attribute)
        nest = self._nests.get(key)
        if nest is not None:
            return nest
        try:
            nest = nest_of(call)
        except Unfit as error:
            raise self._error(place, f"{error} ({node.op_type})") from None
        if not asked:
            self._nests[key] = nest
        return nest

    def _charged(self, node: Any, reads: Iterable[Dims | None]) -> Iterable[Dims | None]:
        """The loops over inputs, also over those of which only the value counts, if they are no constants."""
        for value, dims in zip(node.input, reads, strict=False):
            if dims is None and value and value not in self._constants:
                yield (None,) * len(self._types.shape(value))
            else:
                yield dims

    def _folded(self, node: Any, inputs: list[str]) -> bool:
        """Note the outputs of a node as constants if its inputs are; return True if so."""
        if node.op_type in _SHAPES and inputs:
            self._fold_shape(node)
            return True
        if any(value not in self._constants for value in inputs):
            return False
        shapes = {value: self._types.shape(value) if self._types.known(value) else None for value in node.output}
        self._constants.add_node(node, shapes)
        for value in node.output:
            if shapes[value] is None:
                self._types.settle(value, self._constants.numbers(value))
        return True

    def _is_random_dropout(self, node: Any) -> bool:
        """True for a Dropout that may be in training, whose outputs are random."""
        if node.op_type != "Dropout" or len(node.input) < 3 or not node.input[2]:
            return False
        training = self._constants.numbers(node.input[2]) if node.input[2] in self._constants else None
        return training is None or bool(training.any())

    def _fold_shape(self, node: Any) -> None:
        shape = self._types.shape(node.input[0])
        attributes = _attributes(node)
        if node.op_type == "Size":
            self._constants.add_count(node.output[0], shape)
        else:
            self._constants.add_shape(node.output[0], shape[attributes.get("start", 0) : attributes.get("end")])


def _attributes(node: Any) -> dict[str, Any]:
    import onnx

    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
