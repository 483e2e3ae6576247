"""Graphs whose nodes produce several tensors, written as graphs whose nodes produce one, at the same cost.

A node with several tensors sends one of their total size to helpers, nodes without work that each produce one of
them. Wherever these are, moving all of them to their node's block makes no block dearer: one of them elsewhere made
that block send the total, which is no less than all the tensors; a block that they leave had to receive the total,
and now receives at most the tensors that it reads; an edge that the quotient graph gains was a path in it. So the
cheapest partition costs what it costs where each tensor is counted once a cut and block, and one with the helpers
beside their nodes shows it. The same holds for a helper that produces nothing and comes before nodes which are to
execute after its node without reading from it.

Peak memory is more than it need be where helpers are: while they execute, a tensor is there twice.
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
    """A node; ``followers`` are numbers of nodes that execute after it whatever they read."""

    name: str
    work: float
    params: float
    tensors: list[Tensor] = field(default_factory=list)
    followers: list[int] = field(default_factory=list)


def one_tensor_each(operations: Sequence[Operation]) -> dict[str, Any]:
    """``nodes`` and ``edges`` of a pipeline document: the operations, numbered as they are, and after them helpers.

    Tensors of size 0 and those that nothing reads cost nothing and are left out. A helper has the name of its
    tensor, or that of its node after ``^`` if it produces nothing.
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
        """The number of a new node that reads what node ``index`` produces."""
        self.name.append(name)
        self.work.append(0.0)
        self.param_size.append(0.0)
        self.output_size.append(size)
        self._edges.append([index, len(self.name) - 1])
        return len(self.name) - 1

    def join(self, index: int, readers: Iterable[int]) -> None:
        """An edge to every reader, once."""
        self._edges += [[index, reader] for reader in dict.fromkeys(readers)]

    def document(self) -> dict[str, Any]:
        """The two keys of the track's file format."""
        nodes = {key: column for key, column in vars(self).items() if key != "_edges"}
        return {"nodes": nodes, "edges": self._edges}
