"""Nodes in place of an If, a Loop or a Scan: those of the taken branch, or of each round.

Values and nodes of a body get the name of the node in front, and the number of the round: ``encoder/3/scores``. The
reader and the exports replace nodes by the same functions, so that both have the same operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shardmark.instances.models.onnx_graph.names import Namer

KINDS = ("If", "Loop", "Scan")

#: The branch that is taken, "then" or "else", or the number of rounds; None if the node stays one operator.
Choice = str | int | None


@dataclass
class Body:
    """What stands for a node: nodes in order, stored tensors, and known types of values."""

    nodes: list[Any] = field(default_factory=list)
    stored: dict[str, Any] = field(default_factory=dict)
    types: list[Any] = field(default_factory=list)


def is_control(node: Any) -> bool:
    """True for an operator of ONNX itself that runs a graph of its own."""
    return node.op_type in KINDS and node.domain in ("", "ai.onnx")


def attributes(node: Any) -> dict[str, Any]:
    """Values of a node's attributes by name."""
    import onnx

    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}


def graphs(node: Any) -> list[Any]:
    """The graphs in a node's attributes."""
    return [graph for attribute in node.attribute for graph in (attribute.g, *attribute.graphs) if graph.output]


def captured(node: Any) -> list[str]:
    """Values from around a node that the graphs in its attributes read, each once."""
    found: dict[str, None] = {}
    waiting = [(graph, frozenset[str]()) for graph in graphs(node)]
    while waiting:
        graph, known = waiting.pop()
        own = known | {value.name for value in (*graph.input, *graph.initializer)}
        own |= {tensor.values.name for tensor in graph.sparse_initializer}
        own |= {name for inner in graph.node for name in inner.output}
        used = [name for inner in graph.node for name in inner.input] + [value.name for value in graph.output]
        found |= dict.fromkeys(name for name in used if name and name not in own)
        waiting += [(deeper, own) for inner in graph.node for deeper in graphs(inner)]
    return list(found)


def size(graph: Any) -> tuple[int, int]:
    """Number of nodes of a graph, those of graphs in it included, and their bytes."""
    count, waiting = 0, [graph]
    while waiting:
        nodes = waiting.pop().node
        count += len(nodes)
        waiting += [inner for node in nodes for inner in graphs(node)]
    return count, sum(node.ByteSize() for node in graph.node)


def replaced(
    nodes: Iterable[Any], decide: Callable[[Any, str, int], Choice], version: int, store: Callable[[Body], None]
) -> Iterator[tuple[Any, str]]:
    """Nodes in order, with their names, where chosen bodies stand for nodes.

    ``decide`` gets a node, its name, and how often it stands in the graph; it is asked when all nodes before have been
    yielded. ``store`` is called with a body before its nodes are yielded. ``version`` is that of the operator set.
    """
    namer = Namer()
    waiting = [(iter(nodes), 1)]
    while waiting:
        inner, rounds = waiting[-1]
        node = next(inner, None)
        if node is None:
            waiting.pop()
            continue
        name = namer.name(node)
        choice = decide(node, name, rounds) if is_control(node) else None
        if choice is None:
            yield node, name
            continue
        body = body_of(node, name, choice, version)
        store(body)
        waiting.append((iter(body.nodes), rounds * (choice if isinstance(choice, int) else 1)))


def body_of(node: Any, name: str, choice: str | int, version: int) -> Body:
    """What stands for a node with a name, once its branch or its number of rounds is chosen."""
    given = attributes(node)
    if isinstance(choice, str):
        body = Body()
        ends = run(body, given[f"{choice}_branch"], name, name, {})
        for end, output in zip(ends, node.output, strict=False):
            _add(body, name, "Identity", [end], output)
        return body
    return (_loop if node.op_type == "Loop" else _scan)(node, name, choice, version, given)


def _loop(node: Any, name: str, rounds: int, version: int, given: Mapping[str, Any]) -> Body:
    body, graph = Body(), given["body"]
    states, slices = list(node.input[2:]), list[list[str]]()
    for number in range(rounds):
        own = f"{name}/{number}"
        count = _constant(body, f"{own}/round", number)
        going = _constant(body, f"{own}/going", True)
        values = dict(zip((value.name for value in graph.input), (count, going, *states), strict=False))
        ends = run(body, graph, name, own, values)
        states = ends[1 : 1 + len(states)]
        slices.append(ends[1 + len(states) :])
    _finish(body, node, name, states, slices, [0] * len(slices[0]) if slices else [], version)
    return body


def _scan(node: Any, name: str, rounds: int, version: int, given: Mapping[str, Any]) -> Body:
    body, graph = Body(), given["body"]
    inputs = int(given["num_scan_inputs"])
    states, arrays = list(node.input[: len(node.input) - inputs]), list(node.input[len(node.input) - inputs :])
    axes, backward = given.get("scan_input_axes", [0] * inputs), given.get("scan_input_directions", [0] * inputs)
    slices = list[list[str]]()
    for number in range(rounds):
        own = f"{name}/{number}"
        taken = []
        for array, axis, reverse in zip(arrays, axes, backward, strict=True):
            index = _constant(body, f"{own}/{array}/index", rounds - 1 - number if reverse else number)
            taken.append(_add(body, own, "Gather", [array, index], f"{own}/{array}", axis=axis))
        values = dict(zip((value.name for value in graph.input), (*states, *taken), strict=True))
        ends = run(body, graph, name, own, values)
        states = ends[: len(states)]
        slices.append(ends[len(states) :])
    results = len(node.output) - len(states)
    turned = given.get("scan_output_directions", [0] * results)
    columns = [column[::-1] if turn else column for column, turn in zip(zip(*slices, strict=True), turned, strict=True)]
    rows = [list(row) for row in zip(*columns, strict=True)]
    _finish(body, node, name, states, rows, given.get("scan_output_axes", [0] * results), version)
    return body


def _finish(
    body: Body,
    node: Any,
    name: str,
    states: Sequence[str],
    slices: Sequence[Sequence[str]],
    axes: Sequence[int],
    version: int,
) -> None:
    """Let last states be the first outputs of a node, and slices of all rounds, joined, the others."""
    for state, output in zip(states, node.output, strict=False):
        _add(body, name, "Identity", [state], output)
    for number, (output, axis) in enumerate(zip(node.output[len(states) :], axes, strict=True)):
        if not output:
            continue
        parts = []
        for at, ends in enumerate(slices):
            part = f"{name}/{at}/{output}/slice"
            if version < 13:
                parts.append(_add(body, name, "Unsqueeze", [ends[number]], part, axes=[axis]))
            else:
                axes_of = _constant(body, f"{part}/axes", [axis])
                parts.append(_add(body, name, "Unsqueeze", [ends[number], axes_of], part))
        _add(body, name, "Concat", parts, output, axis=axis)


def run(body: Body, graph: Any, shared: str, own: str, values: Mapping[str, str]) -> list[str]:
    """Add the nodes of a graph, and return the names of its outputs.

    ``values`` are the inputs of the graph; ``shared`` begins the names of stored tensors, ``own`` those of values.
    """
    names = dict(values)
    for tensor in graph.initializer:
        names[tensor.name] = name = f"{shared}/{tensor.name}"
        if name not in body.stored:
            body.stored[name] = copy = type(tensor)()
            copy.CopyFrom(tensor)
            copy.name = name
    names |= {name: f"{own}/{name}" for node in graph.node for name in node.output if name}
    for node in graph.node:
        copy = type(node)()
        copy.CopyFrom(node)
        copy.name = node.name and f"{own}/{node.name}"
        _rename(copy, names)
        body.nodes.append(copy)
    for value in graph.value_info:
        if value.name in names:
            info = type(value)()
            info.CopyFrom(value)
            info.name = names[value.name]
            body.types.append(info)
    return [names.get(value.name, value.name) for value in graph.output]


def _rename(node: Any, names: Mapping[str, str]) -> None:
    """Rename the values that a node reads and writes, also in the graphs in its attributes."""
    waiting = [(node, names)]
    while waiting:
        inner, known = waiting.pop()
        inner.input[:] = [known.get(name, name) for name in inner.input]
        if inner is node:
            inner.output[:] = [known.get(name, name) for name in inner.output]
        for graph in graphs(inner):
            hidden = {value.name for value in (*graph.input, *graph.initializer)}
            hidden |= {name for deeper in graph.node for name in deeper.output}
            outer = known
            if not hidden.isdisjoint(known):
                outer = {name: new for name, new in known.items() if name not in hidden}
            for value in graph.output:
                value.name = outer.get(value.name, value.name)
            waiting += [(deeper, outer) for deeper in graph.node]


def _add(body: Body, name: str, kind: str, inputs: Sequence[str], output: str, **given: Any) -> str:
    from onnx import helper

    if output:
        body.nodes.append(helper.make_node(kind, inputs, [output], name=f"{name}/{kind}/{output}", **given))
    return output


def _constant(body: Body, name: str, value: Any) -> str:
    import numpy as np
    from onnx import helper, numpy_helper

    dtype = np.bool_ if value is True else np.int64
    body.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(value, dtype))))
    return name
