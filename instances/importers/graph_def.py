"""TensorFlow graphs (GraphDef, also within a MetaGraphDef) in text format, as instances of scheduling.

Treatment of the fields of tensorflow/core/framework/graph.proto and node_def.proto:

``node``        node i of the file is vertex i. A function call is one vertex; both branches of a condition are
                executed
``input``       an edge from the producer; its size is that of all outputs read. ``^name`` is an edge of size 0, which
                only orders; so are edges for a resource, or a variable by reference
``_class``      nodes with an entry ``loc:@name`` share a device with the node of that name and with each other. A node
                that takes a resource, or a variable by reference, shares a device with its producer, and a node
                with the device ``@name`` with the node of that name
``device``      a restriction to the devices that the name, possibly a partial one, matches: see
                instances/importers/_device_specs.py; with ``--placement free`` there are no restrictions
while loops     with ``--loops once`` one iteration: the input of NextIteration goes to Exit instead of Merge. Any other
                cycle is an error
``--fetch``     only nodes of these names and their dependencies, as a session runs them. Without it, the graph includes
                initialisers and savers, which a training step does not need
``attr``        types and shapes, for sizes in bytes and operations to compute: see instances/importers/_operations.py.
                With ``--weights random`` all are random whole numbers from 1 to 100 instead, as in Section 5.1 of
                Mayer et al. (DIDL 2017)
the rest        dropped

Devices come from a file (``--machine``) or are random, as in Section 5.1; random devices get TensorFlow's names, with
one CPU and four GPUs per task. With speeds in operations per second and bandwidths in bytes per second, costs are in
seconds; random speeds have no unit, so combine them with random weights.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from shardmark.instances import scheduling
from shardmark.instances.errors import InputError
from shardmark.instances.files.columns import plain
from shardmark.instances.files.jsonfile import collector_paused, decode, line_and_column, read_bytes
from shardmark.instances.generate.portable_random import Draws
from shardmark.instances.generate.simulated import weights as drawn_weights
from shardmark.instances.graph import find_cycle, no_cycle
from shardmark.instances.importers import Option
from shardmark.instances.importers._device_specs import EXAMPLE, Devices, random_device_name
from shardmark.instances.importers._machines import MACHINE, SEED, machine_of, seeded
from shardmark.instances.importers._operations import Input, Operations
from shardmark.instances.importers._text_proto import AT, SKIPPED, Message, Schema, Word, parse

TRACK = "scheduling"
TELLS = True
OPTIONS: Mapping[str, Option] = {
    "devices": Option(int, "number of random devices (default: 50)"),
    "machine": MACHINE,
    "seed": SEED,
    "weights": Option(str, "weights from shapes, or random (default: shapes)", "shapes", ("shapes", "random")),
    "batch": Option(int, "size of unknown dimensions (default: refuse them)"),
    "loops": Option(
        str, "while loops: refuse, or take one iteration (default: refused)", "refused", ("refused", "once")
    ),
    "fetch": Option(str, "nodes to run with their dependencies, separated by commas (default: all nodes)"),
    "placement": Option(str, "device names: keep as restrictions, or ignore (default: kept)", "kept", ("kept", "free")),
}
LARGEST = 256 << 20  # bytes of a file
LONGEST = 200  # characters of a name in an error

_SHAPE: Schema = {"dim": [{"size": int, "name": SKIPPED}], "unknown_rank": bool}
_KINDS = "half float double int string scomplex int64 bool dcomplex resource_handle variant uint32 uint64 float8"
_TENSOR: Schema = {
    "dtype": SKIPPED,
    "tensor_shape": _SHAPE,
    **dict.fromkeys(("version_number", "tensor_content", *(f"{kind}_val" for kind in _KINDS.split())), SKIPPED),
}
_CALL: Schema = {"name": SKIPPED, "attr": SKIPPED}
_LIST: Schema = {
    "s": [bytes],
    "i": [int],
    "type": [Word],
    "shape": [_SHAPE],
    "func": [_CALL],
    **dict.fromkeys(("f", "b", "tensor"), SKIPPED),
}
_VALUE: Schema = {
    "i": int,
    "b": bool,
    "type": Word,
    "shape": _SHAPE,
    "tensor": _TENSOR,
    "list": _LIST,
    "func": _CALL,
    "s": bytes,
    **dict.fromkeys(("f", "placeholder"), SKIPPED),
}
_NODE: Schema = {
    "name": str,
    "op": str,
    "input": [str],
    "device": str,
    "attr": [{"key": str, "value": _VALUE}],
    **dict.fromkeys(("experimental_debug_info", "experimental_type"), SKIPPED),
}
_SIGNATURE: Schema = {
    "name": str,
    **dict.fromkeys(("input_arg", "output_arg", "control_output", "attr", "deprecation", "summary"), SKIPPED),
    **dict.fromkeys(("description", "is_commutative", "is_aggregate", "is_stateful"), SKIPPED),
    **dict.fromkeys(("allows_uninitialized_input", "is_distributed_communication"), SKIPPED),
}
_FUNCTION: Schema = {
    "signature": _SIGNATURE,
    **dict.fromkeys(("attr", "arg_attr", "resource_arg_unique_id", "node_def", "ret", "control_ret"), SKIPPED),
}
_LIBRARY: Schema = {"function": [_FUNCTION], "gradient": SKIPPED, "registered_gradients": SKIPPED}
_GRAPH: Schema = {"node": [_NODE], "library": _LIBRARY, **dict.fromkeys(("versions", "version", "debug_info"), SKIPPED)}
_META: Schema = {
    "graph_def": _GRAPH,
    **dict.fromkeys(("meta_info_def", "saver_def", "collection_def", "signature_def", "asset_file_def"), SKIPPED),
    "object_graph_def": SKIPPED,
}

_INPUT = re.compile(r"(?P<control>\^)?(?P<name>[^\^:]+)(?::(?P<port>[0-9]{1,9}))?")
_BACK = {"NextIteration", "RefNextIteration"}, {"Merge", "RefMerge"}
_EXITS = {"Exit", "RefExit"}


def read(
    path: Path,
    *,
    devices: int | None,
    machine: Path | None,
    seed: int,
    weights: str,
    tell: Callable[[str], None] = lambda _: None,
    **options: Any,
) -> scheduling.Instance:
    """The dataflow of a file, plain or gzip; InputError with line and column if it is no graph.

    ``options`` are ``batch``, ``fetch``, ``loops`` and ``placement``. ``tell`` is called with a sentence on classes
    that name no node, on unknown operations, and on weights with units that the devices do not have.
    """
    batch = options["batch"]
    if batch is not None and batch < 1:
        raise InputError(path, "--batch", f"expected a whole number, at least 1, found {batch}")
    draws = seeded(seed)
    named = machine_of(machine, devices, draws, random_device_name)
    with collector_paused():
        text, once = decode(read_bytes(path, LARGEST), path), options["loops"] == "once"
        graph = _Graph(text, str(path), batch, options["fetch"], once=once)
        groups, column = graph.colocation(), None
        if options["placement"] == "kept":
            column = graph.restrictions(named["devices"]["name"])
            graph.refuse_contradictions(groups, column)
        complexity, edges = graph.drawn(draws) if weights == "random" else graph.counted()
        for sentence in graph.doubts(shapes=weights == "shapes", drawn=machine is None):
            tell(sentence)
        nodes = {"name": graph.names, "complexity": complexity, "colocation": groups, "devices": column}
        document = {"format": scheduling.FORMAT, "name": path.name.split(".")[0], "nodes": nodes, "edges": edges}
        return scheduling.parse({**document, **named}, str(path))


class _Graph:
    """The nodes of a graph and their inputs."""

    def __init__(self, text: str, source: str, batch: int | None, fetch: str | None, *, once: bool) -> None:
        self._text, self._source = text, source
        found = parse(text, source, {**_GRAPH, **_META})
        graph = found.get("graph_def", found)
        if graph is not found and found.keys() & _GRAPH.keys():
            raise InputError(source, "", "expected nodes and libraries only inside graph_def, found others outside")
        self._nodes: list[Message] = graph.get("node", [])
        if not self._nodes:
            raise InputError(source, "", "expected at least one node")
        functions = graph.get("library", {}).get("function", ())
        self._functions = {function.get("signature", {}).get("name") for function in functions}
        self._number: dict[str, int] = {}
        for number, node in enumerate(self._nodes):
            self._check(number, node)
        self._named = set(self._number)  # including nodes that are not fetched
        if fetch is not None:
            self._keep(fetch.split(","))
        #: Inputs of each node in their order, and the nodes that only precede it.
        self._inputs: list[list[Input]] = []
        self._before: list[list[int]] = []
        self._next: dict[int, int] = {}  # the NextIteration that each Merge would read
        for number in range(len(self._nodes)):
            self._read_inputs(number, once)
        self._leave_loops()
        self._operations = Operations(self._nodes, batch, self._error)
        self._refuse_cycle()

    @property
    def names(self) -> list[str]:
        """The names of the nodes, in file order."""
        return [node["name"] for node in self._nodes]

    def _check(self, number: int, node: Message) -> None:
        """Give a node its number, and make one dictionary of its attributes."""
        for key in ("name", "op"):
            if not node.get(key):
                raise self._error(number, f"expected a node with {'an op' if key == 'op' else 'a name'}")
        if self._number.setdefault(node["name"], number) != number:
            raise self._error(number, "expected every name once")
        node["attr"] = {entry.get("key", ""): entry.get("value", {}) for entry in node.get("attr", ())}

    def _keep(self, wanted: list[str]) -> None:
        """Drop all nodes except those of these names, or of outputs such as name:0, and their dependencies."""
        for name in wanted:
            if _tail(name) not in self._number:
                expected = "expected names of nodes, separated by commas"
                raise InputError(self._source, "--fetch", f"{expected}, found {_quoted(name)}")
        needed, ahead = set[str](), list(map(_tail, wanted))
        while ahead:
            name = ahead.pop()
            if name in self._number and name not in needed:  # inputs without a node are refused later
                needed.add(name)
                ahead += map(_tail, self._nodes[self._number[name]].get("input", ()))
        self._nodes = [node for node in self._nodes if node["name"] in needed]
        self._number = {node["name"]: number for number, node in enumerate(self._nodes)}

    def _read_inputs(self, number: int, once: bool) -> None:
        inputs, before = list[Input](), list[int]()
        for text in self._nodes[number].get("input", ()):
            part = _INPUT.fullmatch(text)
            if part is None or (part["control"] and part["port"]):
                raise self._error(number, f"expected an input such as name, name:1 or ^name, found {_quoted(text)}")
            if part["name"] not in self._number:
                raise self._error(number, f"expected the name of a node as an input, found {_quoted(text)}")
            other = self._number[part["name"]]
            if part["control"]:
                before.append(other)
            elif self._nodes[other]["op"] not in _BACK[0] or self._nodes[number]["op"] not in _BACK[1]:
                inputs.append((other, int(part["port"] or 0)))
            elif once:
                self._next[number] = other
            else:
                expected = "expected a graph without while loops, or `--loops once` for one iteration"
                raise self._error(number, f"{expected}, found {_quoted(text)} as an input")
        self._inputs.append(inputs)
        self._before.append(before)

    def _leave_loops(self) -> None:
        """Let Exit read the input of NextIteration, which would reach it through Merge and Switch."""
        for number, node in enumerate(self._nodes):
            inputs = self._inputs[number]
            if node["op"] in _EXITS and inputs:
                merges = [tail for tail, _ in self._inputs[inputs[0][0]][:1]]
                inputs[:1] = [(self._next[merge], 0) for merge in merges if merge in self._next] or inputs[:1]

    def _refuse_cycle(self) -> None:
        pairs = [(tail, head) for head, inputs in enumerate(self._inputs) for tail, _ in inputs]
        pairs += [(tail, head) for head, before in enumerate(self._before) for tail in before]
        tail, head = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        cycle = find_cycle(len(self._nodes), tail, head)
        if cycle:
            raise self._error(cycle[1], no_cycle([_quoted(self._nodes[number]["name"]) for number in cycle]))

    def drawn(self, draws: Draws) -> tuple[list[Any], list[list[Any]]]:
        """Random complexities and sizes, except for edges that only order or carry references."""
        edges = self._edges()
        sizes = plain(drawn_weights(draws, len(edges)))
        complexity = plain(drawn_weights(draws, len(self._nodes)))
        return complexity, [
            [u, v, size if ports else 0] for ((u, v), ports), size in zip(edges.items(), sizes, strict=True)
        ]

    def counted(self) -> tuple[list[Any], list[list[Any]]]:
        """Complexities and edges from types and shapes."""
        operations = self._operations
        for number, node in enumerate(self._nodes):
            called = (value.get("func") or value.get("list", {}).get("func") for value in node["attr"].values())
            if node["op"] in self._functions or any(called):
                expected = "expected no function call, whose operations cannot be counted, or `--weights random`"
                raise self._error(number, f"{expected}, found the operation {_quoted(node['op'])}")
        edges = [[u, v, sum(operations.size(u, port) for port in ports)] for (u, v), ports in self._edges().items()]
        return [operations.count(number, inputs) for number, inputs in enumerate(self._inputs)], edges

    def doubts(self, *, shapes: bool, drawn: bool) -> Iterator[str]:
        """Warnings about the graph, with ``shapes`` about its weights too."""
        classes = Counter(name for n, node in enumerate(self._nodes) for name in self._same_device(n, node))
        for name, count in classes.items():
            if name not in self._named:
                yield f"{_many(count)} of the class {_quoted(f'loc:@{name}')}, which names no node of the graph"
        if shapes:
            for op, count in self._operations.unknown.items():
                yield f"{_many(count)} of the unknown operation {_quoted(op)} counted as one operation per element"
        if shapes and drawn:
            yield (
                "weights are operations and bytes, but random speeds and bandwidths have no unit, so costs have none:"
                " with `--machine FILE`, costs are in seconds"
            )

    def _edges(self) -> dict[tuple[int, int], list[int]]:
        """The outputs of its tail that each edge carries."""
        edges: dict[tuple[int, int], dict[int, None]] = {}
        for head, inputs in enumerate(self._inputs):
            for place, (tail, port) in enumerate(inputs):
                carried = edges.setdefault((tail, head), {})
                if not self._operations.stays(head, place, (tail, port)):
                    carried[port] = None
            for tail in self._before[head]:
                edges.setdefault((tail, head), {})
        return {ends: list(ports) for ends, ports in edges.items()}

    def colocation(self) -> list[int | None]:
        """The colocation group of each node, numbered in order of first nodes."""
        together = list(range(len(self._nodes)))

        def root(number: int) -> int:
            while together[number] != number:
                together[number] = together[together[number]]
                number = together[number]
            return number

        first = dict(self._number)  # a class has the name of a node, which may not exist
        for number, node in enumerate(self._nodes):
            for name in self._same_device(number, node):
                together[root(number)] = root(first.setdefault(name, number))
            for place, given in enumerate(self._inputs[number]):
                if self._operations.stays(number, place, given):
                    together[root(number)] = root(given[0])
        roots = [root(number) for number in range(len(self._nodes))]
        members = np.bincount(roots, minlength=len(roots)).tolist()
        order: dict[int, int] = {}
        return [order.setdefault(r, len(order)) if members[r] > 1 else None for r in roots]

    def _same_device(self, number: int, node: Message) -> list[str]:
        """Names of the nodes that a node is colocated with."""
        classes = node["attr"].get("_class", {}).get("list", {}).get("s", ())
        names = [text[5:].decode(errors="replace") for text in classes if text.startswith(b"loc:@")]
        device = node.get("device", "")
        if device.startswith("@"):
            if device[1:] not in self._number:
                raise self._error(number, f"expected the name of a node after '@', found the device {_quoted(device)}")
            names.append(device[1:])
        return names

    def restrictions(self, names: list[str]) -> list[list[int] | None]:
        """The devices that each node may use; None for all."""
        devices = Devices(names)
        column: list[list[int] | None] = []
        for number, node in enumerate(self._nodes):
            name = node.get("device", "")
            meant = None if not name or name.startswith("@") else devices.meant(name)
            if name and meant is None and not name.startswith("@"):
                raise self._error(number, f"expected a device such as {EXAMPLE}, found {_quoted(name)}")
            if meant is not None and not meant:
                expected = f"expected a device of the machine, such as {names[0]}, or `--placement free`"
                raise self._error(number, f"{expected}, found {_quoted(name)}")
            column.append(meant if meant is None or len(meant) < len(names) else None)
        return column

    def refuse_contradictions(self, groups: list[int | None], column: list[list[int] | None]) -> None:
        """Raise InputError if the members of a group have no device in common."""
        common: dict[int, set[int]] = {}
        first: dict[int, int] = {}
        for number, (group, meant) in enumerate(zip(groups, column, strict=True)):
            if group is not None and meant is not None:
                common.setdefault(group, set(meant)).intersection_update(meant)
                other = first.setdefault(group, number)
                if not common[group]:
                    names = [_quoted(self._nodes[each][key]) for each, key in ((other, "name"), (number, "device"))]
                    expected = f"expected a device that its colocation group may use, including {names[0]}"
                    raise self._error(number, f"{expected}, found {names[1]}")

    def _error(self, number: int, expected: str) -> InputError:
        node = self._nodes[number]
        place = line_and_column(self._text, node[AT])
        return InputError(
            self._source, f"{place}, node {_quoted(node['name'])}" if node.get("name") else place, expected
        )


def _tail(text: str) -> str:
    """The name of the node of an input, or of an output to fetch."""
    return text.removeprefix("^").partition(":")[0]


def _many(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


def _quoted(text: str) -> str:
    """A name in quotes, with unprintable characters escaped and a long one truncated."""
    return repr(text if len(text) <= LONGEST else f"{text[:LONGEST]}...")
