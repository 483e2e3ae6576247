"""Values of a graph that are known before it runs, with their elements if they are small."""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

Shape = tuple[int, ...]

#: Numbers of a constant, at most, that are worked out; shapes, axes and the like have fewer.
SMALL = 1024
#: Operators with windows, whose evaluation may take longer than what they read and write suggests.
_WINDOWED = {
    *("AveragePool", "Conv", "ConvInteger", "ConvTranspose", "DeformConv", "LpPool", "MaxPool", "MaxUnpool"),
    "QLinearConv",
}


class Constants:
    """Constants by name; onnx's reference implementation computes their elements when first needed."""

    def __init__(self, opsets: Mapping[str, int]) -> None:
        self._opsets = dict(opsets)
        self._tensors: MutableMapping[str, Any] = {}  # as stored; None for too large a one
        self._shapes: MutableMapping[str, Shape | int] = {}  # sizes of another tensor, or their product
        self._nodes: MutableMapping[str, tuple[Any, list[str]]] = {}
        self._numbers: MutableMapping[str, Any] = {}

    def fork(self) -> Constants:
        """Constants to which others can be added that are not in these."""
        copy = Constants(self._opsets)
        for name in ("_tensors", "_shapes", "_nodes", "_numbers"):
            setattr(copy, name, ChainMap({}, getattr(self, name)))
        return copy

    def __contains__(self, name: str) -> bool:
        return name in self._tensors or name in self._shapes or name in self._nodes

    def add_tensor(self, name: str, tensor: Any, shape: Sequence[int]) -> None:
        """Add a stored tensor."""
        self._tensors[name] = tensor if math.prod(shape) <= SMALL else None

    def add_shape(self, name: str, shape: Sequence[int]) -> None:
        """Add a value that lists the sizes of a tensor."""
        self._shapes[name] = tuple(shape)

    def add_count(self, name: str, shape: Sequence[int]) -> None:
        """Add a value that is the number of elements of a tensor."""
        self._shapes[name] = math.prod(shape)

    def add_node(self, node: Any, shapes: Mapping[str, Shape | None]) -> None:
        """Add the results of a node that reads only constants; ``shapes`` are those of its results, None if unknown."""
        for name in node.output:
            if name:
                shape = shapes.get(name)
                small = node.op_type == "NonZero" if shape is None else math.prod(shape) <= SMALL
                small = small and node.op_type not in _WINDOWED
                self._nodes[name] = (node if small else None), list(node.input)

    def sources(self, name: str) -> set[str]:
        """The stored tensors from which a constant follows."""
        waiting, seen = [name], {name}
        while waiting:
            more = {value for value in self._nodes.get(waiting.pop(), (None, ()))[1] if value} - seen
            waiting += more
            seen |= more
        return {value for value in seen if value in self._tensors}

    def numbers(self, name: str) -> Any:
        """The constant's elements as an array; None if they are too many or not stored, or it is not a constant."""
        waiting = [name]
        while waiting:
            last = waiting[-1]
            if last in self._numbers:
                waiting.pop()
                continue
            node, inputs = self._nodes.get(last, (None, ()))
            missing = [x for x in inputs if x and x not in self._numbers] if node is not None else []
            if missing:
                waiting += missing
                continue
            waiting.pop()
            self._numbers[last] = self._stored(last) if node is None else None
            if node is not None:
                self._evaluate(node)
        return self._numbers[name]

    def _stored(self, name: str) -> Any:
        import numpy as np
        from onnx import numpy_helper

        if name in self._shapes:
            return np.array(self._shapes[name], dtype=np.int64)
        tensor = self._tensors.get(name)
        if tensor is None or tensor.data_location:
            return None
        try:
            return numpy_helper.to_array(tensor)
        except (ValueError, TypeError):  # its data do not fit its shape
            return None

    def _evaluate(self, node: Any) -> None:
        """The results of a node whose inputs are worked out."""
        import onnx
        from onnx.reference import ReferenceEvaluator

        for name in node.output:
            self._numbers[name] = None
        given = {name: self._numbers[name] for name in node.input if name}
        if any(numbers is None for numbers in given.values()):
            return
        graph = onnx.GraphProto(name="constant", node=[node])
        graph.input.extend(onnx.ValueInfoProto(name=name) for name in given)
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output if name)
        try:
            results = ReferenceEvaluator(graph, opsets=self._opsets).run(None, given)
        except Exception:  # the reference raises whatever NumPy raises; without numbers, shapes are asked for later
            return
        self._numbers.update(zip((name for name in node.output if name), results, strict=True))
