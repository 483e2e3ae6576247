"""TensorFlow cost graphs (CostGraphDef) in text format, as in the data set of REGAL (Paliwal et al. 2020).

Treatment of the fields of tensorflow/core/framework/cost_graph.proto:

``id``, ``input_info``  an edge from the node of every input. With ``tensors="every"``, each output of a node is a
                        tensor, carried by a helper node after the file's own nodes, so that it counts once per cut
                        and stage (see instances/split_multi_output.py); with ``"first"``, a node has only output 0,
                        even if others are read, as in "Practical Performance Guarantees for Pipelined DNN
                        Inference" (Archer et al. 2024, Appendix C.2)
``control_input``       the node executes after that one; nothing is sent, which may also need a helper node
``compute_cost``        work, in microseconds if TensorFlow measured it
``output_info.size``    size of the tensor in bytes; an output without readers is omitted. An alias of an input has
                        a size like any other output, as it must be sent between stages too
``persistent_memory_size``  size of the parameters, with the older fields for host and device
the rest                dropped: device, temporary memory, analytical times, shapes and types. Nodes without any cost
                        such as ``_SOURCE`` stay, so that node i of a solution is node i of the file
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from shardmark.instances import pipeline
from shardmark.instances.errors import InputError
from shardmark.instances.files.jsonfile import collector_paused, decode, line_and_column, read_bytes
from shardmark.instances.graph import find_cycle, no_cycle
from shardmark.instances.importers import Option
from shardmark.instances.importers._text_proto import AT, SKIPPED, Message, Schema, parse
from shardmark.instances.split_multi_output import Operation, Tensor, one_tensor_each

TRACK = "pipeline"
OPTIONS: Mapping[str, Option] = {
    "stages": Option(int, "number of stages"),
    "bandwidth": Option(float, "bytes sent between stages per unit of compute_cost (default: 1)", 1.0),
    "memory": Option(float, "fast memory of a stage in bytes (default: unlimited)"),
    "tensors": Option(str, "outputs of a node to include (default: every)", "every", ("every", "first")),
}
LARGEST = 256 << 20  # bytes of a file; reading takes 15 times as much memory

_OUTPUT: Schema = {"size": int, "alias_input_port": int, "shape": SKIPPED, "dtype": SKIPPED}
_PARAMS = ("persistent_memory_size", "host_persistent_memory_size", "device_persistent_memory_size")
_NODE: Schema = {
    "name": str,
    "id": int,
    "input_info": [{"preceding_node": int, "preceding_port": int}],
    "output_info": [_OUTPUT],
    "control_input": [int],
    "compute_cost": int,
    **dict.fromkeys(_PARAMS, int),
    **dict.fromkeys(("device", "is_final", "inaccurate", "compute_time", "memory_time"), SKIPPED),
    **dict.fromkeys(("temporary_memory_size", "host_temp_memory_size", "device_temp_memory_size"), SKIPPED),
}
_GRAPH: Schema = {"node": [_NODE], "cost": SKIPPED}


def read(path: Path, *, stages: int | None, bandwidth: float, memory: float | None, tensors: str) -> pipeline.Instance:
    """The pipeline of a file, plain or gzip; InputError with line and column if it is no cost graph."""
    with collector_paused():
        reader = _Reader(decode(read_bytes(path, LARGEST), path), str(path))
        document = {
            "format": pipeline.FORMAT,
            "name": path.name.split(".")[0],
            "bandwidth": bandwidth,
            "memory": memory,
            **one_tensor_each(reader.operations(first_only=tensors == "first")),
        }
        return pipeline.parse(document, str(path), stages)


class _Reader:
    """The nodes of a cost graph, and their numbers by id."""

    def __init__(self, text: str, source: str) -> None:
        self._text, self._source = text, source
        self._nodes: list[Message] = parse(text, source, _GRAPH).get("node", [])
        if not self._nodes:
            raise InputError(source, "", "expected at least one node")
        self._number: dict[int, int] = {}
        for number, node in enumerate(self._nodes):
            if self._number.setdefault(node.get("id", 0), number) != number:
                raise self._error(node, f"expected every id once, found {node.get('id', 0)} again")

    def operations(self, *, first_only: bool) -> list[Operation]:
        """Return the nodes in file order, each tensor with the indices of its readers."""
        made = [self._operation(node, first_only) for node in self._nodes]
        for number, node in enumerate(self._nodes):
            for entry in node.get("input_info", ()):
                producer = self._find(entry, entry.get("preceding_node", 0))
                port = entry.get("preceding_port", 0)
                outputs = len(self._nodes[producer].get("output_info", ()))
                if not 0 <= port < outputs:
                    found = f"found {port} of {_called(self._nodes[producer])}, which has {outputs}"
                    raise self._error(entry, f"expected an output's number as preceding_port, {found}")
                made[producer].tensors[0 if first_only else port].readers.append(number)
            for other in node.get("control_input", ()):
                made[self._find(node, other)].followers.append(number)
        self._refuse_cycle(made)
        return made

    def _refuse_cycle(self, made: list[Operation]) -> None:
        """Raise InputError if nodes of the file are on a cycle, before helper nodes are inserted."""
        pairs = [
            (producer, consumer)
            for producer, operation in enumerate(made)
            for readers in (*(tensor.readers for tensor in operation.tensors), operation.followers)
            for consumer in readers
        ]
        tail, head = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        cycle = find_cycle(len(made), tail, head)
        if cycle:
            nodes = [self._nodes[number] for number in cycle]
            inputs, source = nodes[1].get("input_info", ()), nodes[0].get("id", 0)
            place = next((x for x in inputs if x.get("preceding_node", 0) == source), nodes[1])
            raise self._error(place, no_cycle(list(map(_called, nodes))))

    def _operation(self, node: Message, first_only: bool) -> Operation:
        name = node.get("name", "")
        outputs = node.get("output_info", [])[: 1 if first_only else None]
        return Operation(
            name,
            self._sum(node, ("compute_cost",)),
            self._sum(node, _PARAMS),
            [Tensor(f"{name}:{port}", self._sum(output, ("size",))) for port, output in enumerate(outputs)],
        )

    def _sum(self, message: Message, fields: Iterable[str]) -> int:
        """The sum of fields, each of which must be at least 0."""
        values = {field: message.get(field, 0) for field in fields}
        for field, value in values.items():
            if value < 0:
                raise self._error(message, f"expected a known {field}, at least 0, found {value}")
        return sum(values.values())

    def _find(self, message: Message, identity: int) -> int:
        """The number of the node that a message names by its id."""
        if identity not in self._number:
            raise self._error(message, f"expected the id of a node, found {identity}")
        return self._number[identity]

    def _error(self, message: Message, expected: str) -> InputError:
        return InputError(self._source, line_and_column(self._text, message[AT]), expected)


def _called(node: Message) -> str:
    """A node's name in quotes; without one, its id."""
    return repr(node["name"]) if node.get("name") else f"id {node.get('id', 0)}"
