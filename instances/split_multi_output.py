"""Graphs whose nodes produce several tensors, rewritten as graphs whose nodes produce one, at the same cost.

A node with several tensors sends one tensor of their total size to helpers, nodes without work that each produce one
of them. Moving all helpers to their node's stage never raises the cost of a stage: a helper elsewhere made that stage
send the total, at least as much as all tensors; a stage that a helper leaves had to receive the total, and now receives
at most the tensors it reads; an edge that the quotient graph gains was a path before. So the optimum equals that of the
original graph, in which each tensor counts once per cut and stage. The same holds for a helper that produces nothing
and precedes nodes that must run after its node without reading from it.

Peak memory is overestimated at helpers: while one runs, its tensor exists twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Tensor:
    """The output of a node; ``readers`` are indices of nodes and may repeat."""

    name: str
    size: float
    readers: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Operation:
    """A node; ``followers`` are indices of nodes that must run after it even if they read nothing from it."""

    name: str
    work: float
    params: float
    tensors: list[Tensor] = field(default_factory=list)
    followers: list[int] = field(default_factory=list)


def one_tensor_each(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return ``nodes`` and ``edges`` of a pipeline document: the operations in order, then the helpers.

    Tensors of size 0 and tensors without readers are omitted. A helper is named after its tensor or, if it produces
    nothing, after its node with a leading ``^``.
    """
    columns = _Columns(operations)
    for index, operation in enumerate(operations):
        sent = [tensor for tensor in operation.tensors if tensor.size > 0 and tensor.readers]
        columns.output_size[index] = sum(tensor.size for tensor in sent)
        for tensor in sent:
            columns.join(index if len(sent) == 1 else columns.helper(index, tensor.name, tensor.size), tensor.readers)
        served = {reader for tensor in sent for reader in tensor.readers}
        ordered = [reader for tensor in operation.tensors for reader in tensor.readers] + operation.followers
        others = [reader for reader in ordered if reader not in served]
        if others:
            columns.join(columns.helper(index, f"^{operation.name}", 0.0) if sent else index, others)
    return columns.document()


class _Columns:
    def __init__(self, operations: Sequence[Operation]) -> None:
        self.name = [operation.name for operation in operations]
        self.work = [operation.work for operation in operations]
        self.param_size = [operation.params for operation in operations]
        self.output_size = [0.0] * len(operations)
        self._edges: list[list[int]] = []

    def helper(self, index: int, name: str, size: float) -> int:
        """Add a node that reads from node ``index``, and return its number."""
        self.name.append(name)
        self.work.append(0.0)
        self.param_size.append(0.0)
        self.output_size.append(size)
        self._edges.append([index, len(self.name) - 1])
        return len(self.name) - 1

    def join(self, index: int, readers: Iterable[int]) -> None:
        """Add one edge to every reader."""
        self._edges += [[index, reader] for reader in dict.fromkeys(readers)]

    def document(self) -> dict[str, Any]:
        """The keys ``nodes`` and ``edges`` of the track's file format."""
        nodes = {key: column for key, column in vars(self).items() if key != "_edges"}
        return {"nodes": nodes, "edges": self._edges}
