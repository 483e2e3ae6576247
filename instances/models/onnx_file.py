"""Reads ONNX models.

Treatment of the parts of a graph:

functions         inlined
old operators     converted, as `shardmark.instances.models.onnx_graph.operator_sets` says
If                the branch of a constant condition, or that which the user names, or the dearer one
Loop, Scan        unrolled if the number of rounds is constant; one of more than `LARGEST_LOOP` operators stays one
                  operator, which costs as much as its rounds
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
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

from shardmark.instances.errors import InputError
from shardmark.instances.files.jsonfile import collector_paused, read_bytes
from shardmark.instances.models.control.choices import Choices, arithmetic, work
from shardmark.instances.models.model import Access, Dims, Model, Nest, Shape, of_unknown_arithmetic
from shardmark.instances.models.onnx_graph.call import Call, Unfit
from shardmark.instances.models.onnx_graph.constants import Constants
from shardmark.instances.models.onnx_graph.control.flow import DEEPEST, OPTIONS, Either, Flow, fits, is_sound, rounds_of
from shardmark.instances.models.onnx_graph.control.nodes import (
    Body,
    Choice,
    attributes,
    captured,
    is_control,
    replaced,
    run,
)
from shardmark.instances.models.onnx_graph.load import load
from shardmark.instances.models.onnx_graph.loops import nest_of
from shardmark.instances.models.onnx_graph.modules import fill_gaps, module_of, weights_of
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
    path: str | os.PathLike[str],
    dims: Mapping[str, int] | None = None,
    tell: Callable[[str], None] = lambda _: None,
    branches: Mapping[str, str] | None = None,
) -> Model:
    """The model of an ONNX file, plain or gzip.

    ``dims`` has values for symbolic sizes, by the names of `shardmark.instances.models.onnx_graph.sizes`; ``branches``
    has "then" or "else" for names or patterns of names. ``tell`` is called with sentences on loops, branches and
    operators of unknown arithmetic. Raises InputError for anything that is not an ONNX model with known shapes and
    loops of known length.
    """
    return read_flow(path, dims, tell, branches)[0]


def read_flow(
    path: str | os.PathLike[str],
    dims: Mapping[str, int] | None = None,
    tell: Callable[[str], None] = lambda _: None,
    branches: Mapping[str, str] | None = None,
) -> tuple[Model, Flow]:
    """The model of a file as `read_onnx` reads it, and what was chosen for its loops and branches."""
    source = os.fspath(path)
    with collector_paused():
        proto = load(read_bytes(path, LARGEST), source, dims or {})
        flow = Flow(Choices(source, branches or {}))
        reader = _Reader(
            source, {"" if x.domain == "ai.onnx" else x.domain: x.version for x in proto.opset_import}, flow
        )
        reader.read(proto.graph)
        for sentence in reader.doubts():
            tell(sentence)
        return reader.model, flow


class _Reader:
    """Walks a graph, and builds its model."""

    def __init__(self, source: str, opsets: Mapping[str, int], flow: Flow) -> None:
        self._source, self._opsets, self._flow = source, opsets, flow
        self.model = Model(os.path.basename(source).split(".")[0] or "model")
        self._version = opsets.get("", 1)
        self._constants = Constants(opsets)
        self._types = Types(source, opsets, self._constants)
        self._tensors: dict[str, int] = {}  # of the model
        self._nests: dict[Any, Nest] = {}  # by all that they follow from
        self._unknown: Counter[str] = Counter()
        self._used: set[str] = set()  # names of values that are read
        self._around: Container[str] = ()  # values of the graph around, which are inputs here
        self._depth = 0
        self.ends: list[str] = []  # values that the graph returns, if it is a body

    def read(self, graph: Any) -> None:
        """Build the model."""
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
        self._used |= {value.name for value in graph.output}
        self._walk(graph.node)
        if not self.model.operators:
            raise self._error("graph", "expected a node whose results follow from an input, not from constants alone")
        self.model.outputs += [self._read(value.name, "graph") for value in graph.output]
        fill_gaps(self.model)
        self.model.weights = weights_of(graph, self.model, self._constants.sources)

    def _walk(self, nodes: Sequence[Any]) -> None:
        self._used |= _read_by(nodes)
        for node, name in replaced(nodes, self._decided, self._version, self._add):
            self._flow.count(self._source)
            if is_control(node):
                self._keep(node, name)
            else:
                self._node(node, name)

    def doubts(self) -> Iterable[str]:
        """Sentences on loops, branches and operators of unknown arithmetic."""
        yield from self._flow.choices.sentences()
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
        if name not in self._tensors and name not in self._constants and name not in self._around:
            raise self._error(
                place, f"expected tensor {name} to be an input, a constant or the output of an earlier node"
            )

    def _add(self, body: Body) -> None:
        """Take what a body stores, and what is known of its values."""
        self._used |= _read_by(body.nodes)
        for tensor in body.stored.values():
            self._store(tensor.name, tensor)
        for value in body.types:
            self._types.declare(value)

    def _decided(self, node: Any, name: str, rounds: int) -> Choice:
        """The branch of an If, or the rounds of a loop that is unrolled; None if the node stays one operator."""
        if self._used.isdisjoint(node.output):
            return None
        self.model.unrolled = True
        if node.op_type == "Scan" and self._version < 9:
            raise self._error(f"node {name}", f"expected operator set 9 or newer for Scan, found {self._version}")
        if not is_sound(node):
            expected = f"expected graphs, inputs and outputs as the operator type has them ({node.op_type})"
            raise self._error(f"node {name}", expected)
        for value in filter(None, node.input):
            self._require(value, f"node {name}")
        if name not in self._flow.taken:
            self._flow.taken[name] = self._choice(node, name, rounds)
        return self._flow.taken[name]

    def _choice(self, node: Any, name: str, rounds: int) -> Choice:
        given = attributes(node)
        if node.op_type == "If":
            condition = self._number(node.input[0])
            if condition is not None:
                return "then" if condition else "else"
            chosen = self._flow.choices.chosen(name, OPTIONS)
            taken = self._flow.alike.get(node.input[0]) if chosen is None else OPTIONS[chosen]
            if taken is None:
                works = [work(self._apart(given[f"{option}_branch"], name, ()).model) for option in OPTIONS]
                taken = OPTIONS[works[1] > works[0]]
                self._flow.choices.dearer(name, taken)
                self._flow.undecided[name] = None
            self._flow.alike[node.input[0]] = taken
            return taken
        shapes = [self._types.shape(value) if value else None for value in node.input]
        found, steady = rounds_of(node, given, shapes, self._number)
        if found is None:
            expected = f"expected a number of rounds that is known without inputs, found {node.op_type}"
            raise self._error(f"node {name}", f"{expected}: export it with a constant length")
        if steady and found and fits(given["body"], rounds * found, name):
            return found
        if steady and found:
            self._flow.choices.kept(name, found)
        elif found:
            self._flow.choices.shorter(name, found)
        self._flow.rounds[name] = found
        return None

    def _number(self, name: str) -> Any:
        """The only number of a constant; None if there is none."""
        numbers = self._constants.numbers(name) if name and name in self._constants else None
        return None if numbers is None or numbers.size != 1 else numbers.ravel()[0].item()

    def _apart(self, graph: Any, name: str, types: Sequence[tuple[Shape, str]]) -> _Reader:
        """A reader that has read a graph into a model of its own; ``types`` are those of its inputs."""
        if self._depth == DEEPEST:
            expected = f"expected at most {DEEPEST} large loops and unknown branches within each other"
            raise self._error(f"node {name}", expected)
        inner = _Reader(self._source, self._opsets, self._flow)
        inner._depth, inner._around = self._depth + 1, Either(self._tensors, self._around)
        inner._constants = self._constants.fork()
        inner._types = self._types.fork(inner._constants)
        for value, kind in zip(graph.input, types, strict=True):
            inner._types.state(f"{name}/{value.name}", *kind)
            inner._append(f"{name}/{value.name}")
        body = Body()
        ends = run(body, graph, name, name, {value.name: f"{name}/{value.name}" for value in graph.input})
        inner._used |= set(ends)
        inner._add(body)
        inner._walk(body.nodes)
        inner.ends = ends
        return inner

    def _keep(self, node: Any, name: str) -> None:
        """A loop as one operator, which costs as much as all of its rounds."""
        if self._used.isdisjoint(node.output):
            return
        given, rounds, place = attributes(node), self._flow.rounds[name], f"node {name}"
        graph, loop = given["body"], node.op_type == "Loop"
        types = [self._types.of(value) for value in node.input[2 * loop :]]
        count = len(types) if loop else len(types) - int(given["num_scan_inputs"])
        axes = given.get("scan_input_axes", [0] * (len(types) - count))
        rows = [(_without(shape, axis), dtype) for (shape, dtype), axis in zip(types[count:], axes, strict=True)]
        kinds = [*([((), "int64"), ((), "bool")] if loop else []), *types[:count], *rows]
        key = graph.SerializeToString(), tuple(kinds)
        inner = self._flow.kept.get(key)
        if inner is None:
            inner = self._flow.kept[key] = self._apart(graph, name, kinds)
        ends = [inner._types.of(value) for value in inner.ends[loop:]]  # without the condition
        axes = [None] * count + list(given.get("scan_output_axes", [0] * (len(ends) - count)))
        for value, (shape, dtype), axis in zip(node.output, ends, axes, strict=True):
            at = 0 if axis is None else axis % (len(shape) + 1)
            self._types.state(value, shape if axis is None else (*shape[:at], rounds, *shape[at:]), dtype)
        reads = [self._read(value, place) for value in dict.fromkeys([*filter(None, node.input), *captured(node)])]
        writes = [self._append(value) for value in node.output if value in self._used]
        flops, multiply_adds = arithmetic(inner.model)
        self.model.operator(
            name,
            node.op_type,
            [Access(tensor, (None,) * len(self.model.tensors[tensor].shape)) for tensor in reads],
            [Access(tensor, (None,) * len(self.model.tensors[tensor].shape)) for tensor in writes],
            {},
            flops=rounds * flops,
            multiply_adds=rounds * multiply_adds,
            repeats=(rounds, inner.model),
        )

    def _node(self, node: Any, name: str) -> None:
        place, used = f"node {name}", self._used
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
        nest.append(self.model, name, node.op_type, reads, writes, module=module_of(node, name))

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
            attributes(node),
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
        given = attributes(node)
        if node.op_type == "Size":
            self._constants.add_count(node.output[0], shape)
        else:
            self._constants.add_shape(node.output[0], shape[given.get("start", 0) : given.get("end")])


def _read_by(nodes: Iterable[Any]) -> set[str]:
    """Names of the values that nodes read, also in the graphs in their attributes."""
    return {name for node in nodes for name in (*node.input, *captured(node))}


def _without(shape: Shape, axis: int) -> Shape:
    axis %= len(shape)
    return (*shape[:axis], *shape[axis + 1 :])
