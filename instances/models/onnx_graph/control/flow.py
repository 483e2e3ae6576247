"""Loops and branches of an ONNX model: how many rounds a loop has, and what was chosen for each."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shardmark.instances.errors import InputError
from shardmark.instances.models.calls import MOST
from shardmark.instances.models.control.choices import LARGEST_LOOP, LARGEST_NAMES, Choices
from shardmark.instances.models.onnx_graph.control.nodes import Choice, attributes, size

OPTIONS = ("then", "else")
#: Loops that stay one operator, and branches to compare, within each other.
DEEPEST = 20


@dataclass
class Flow:
    """What was chosen, by the names of operators.

    ``choices``    of the user
    ``taken``      branches and numbers of rounds; None for what stays one operator
    ``undecided``  branches that neither a constant nor the user decides
    ``alike``      branches by their conditions, as branches with the same condition are taken together
    ``rounds``     of loops that stay one operator
    ``kept``       what a round of such a loop holds, by its graph and the types of its inputs
    """

    choices: Choices
    taken: dict[str, Choice] = field(default_factory=dict)
    undecided: dict[str, None] = field(default_factory=dict)
    alike: dict[str, str] = field(default_factory=dict)
    rounds: dict[str, int] = field(default_factory=dict)
    kept: dict[Any, Any] = field(default_factory=dict)
    nodes: int = 0

    def count(self, source: str) -> None:
        """Count one more node that is read; InputError if they are too many."""
        self.nodes += 1
        if self.nodes > MOST:
            raise InputError(source, "graph", f"expected at most {MOST:,} nodes once loops are unrolled")


@dataclass(frozen=True, slots=True)
class Either:
    """Names that are in one of two containers."""

    first: Container[str]
    second: Container[str]

    def __contains__(self, name: object) -> bool:
        return name in self.first or name in self.second


def is_sound(node: Any) -> bool:
    """True if an If, Loop or Scan has the graphs, inputs, outputs and axes that its operator type asks for."""
    given = attributes(node)
    names = ("then_branch", "else_branch") if node.op_type == "If" else ("body",)
    bodies: list[Any] = [given.get(name) for name in names]
    if not all(hasattr(body, "node") for body in bodies):
        return False
    (body, *_), inputs, outputs = bodies, len(node.input), len(node.output)
    if node.op_type == "If":
        return inputs == 1 and all(len(each.output) == outputs and not each.input for each in bodies)
    if node.op_type == "Loop":
        states = inputs - 2
        return states >= 0 and len(body.input) == inputs and len(body.output) - 1 == outputs >= states
    arrays = given.get("num_scan_inputs", 0)
    states = inputs - arrays
    numbers = {"scan_input_axes": arrays, "scan_input_directions": arrays}
    numbers |= dict.fromkeys(("scan_output_axes", "scan_output_directions"), outputs - states)
    lengths = all(name not in given or len(given[name]) == count for name, count in numbers.items())
    return arrays > 0 <= states <= outputs and len(body.input) == inputs and len(body.output) == outputs and lengths


def fits(graph: Any, rounds: int, name: str) -> bool:
    """True if a loop with this body, which runs so many rounds in all, is unrolled."""
    nodes, content = size(graph)
    return rounds * nodes <= LARGEST_LOOP and rounds * (content + nodes * len(name)) <= LARGEST_NAMES


def rounds_of(
    node: Any, given: Mapping[str, Any], shapes: Sequence[Any], number: Callable[[str], Any]
) -> tuple[int | None, bool]:
    """Rounds of a Loop or Scan, at most, and False if it may end earlier; None if nothing limits them.

    ``given`` are its attributes, ``shapes`` those of its inputs; ``number`` returns the number of a constant.
    """
    if node.op_type == "Scan":
        axes = given.get("scan_input_axes", [0] * int(given["num_scan_inputs"]))
        shape = shapes[len(shapes) - len(axes)]
        return (shape[axes[0] % len(shape)] if shape else None), True
    most = number(node.input[0]) if node.input[0] else None
    first = number(node.input[1]) if len(node.input) > 1 and node.input[1] else True
    if first is False:
        return 0, True
    steady = first is True and (not (len(node.input) > 1 and node.input[1]) or _stays_true(given["body"], number))
    return (None if most is None or most >= 1 << 62 else max(int(most), 0)), steady


def _stays_true(graph: Any, number: Callable[[str], Any]) -> bool:
    """True if a body returns its own condition, or one that is constantly true."""
    import numpy as np
    from onnx import TensorProto, numpy_helper

    makers = {name: node for node in graph.node for name in node.output}
    stored = {tensor.name: tensor for tensor in graph.initializer}
    name = graph.output[0].name
    for _ in range(len(graph.node) + 1):
        if name == graph.input[1].name:
            return True
        maker = makers.get(name)
        if maker is None:
            return bool(numpy_helper.to_array(stored[name]).all()) if name in stored else number(name) is True
        if maker.op_type == "Constant":
            values = attributes(maker).values()
            return all(np.all(numpy_helper.to_array(x) if isinstance(x, TensorProto) else x) for x in values)
        if maker.op_type not in ("Cast", "Identity"):
            return False
        name = maker.input[0]
    return False
