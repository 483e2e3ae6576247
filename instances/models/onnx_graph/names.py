"""Names of the operators of an ONNX graph, shared by the reader and by the exports that map a plan back to the file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Named(Protocol):
    """The parts of an `onnx.NodeProto` that give a node its name."""

    name: str
    op_type: str

    @property
    def output(self) -> Iterable[str]: ...


def operator_names(nodes: Iterable[Named]) -> list[str]:
    """One unique name per node, in the order of the graph.

    A node is called by its own name, else by its first output, else by its type. If a name is taken, ``#2`` is
    appended, or ``#3`` and so on.
    """
    namer = Namer()
    return [namer.name(node) for node in nodes]


class Namer:
    """Names nodes one after another."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._copies: dict[str, int] = {}

    def name(self, node: Named) -> str:
        """The name of the next node."""
        return self.unique(node.name or next(filter(None, node.output), node.op_type))

    def unique(self, plain: str) -> str:
        """A name, with a number at its end if it is taken."""
        name = plain
        while name in self._names:
            self._copies[plain] = self._copies.get(plain, 1) + 1
            name = f"{plain}#{self._copies[plain]}"
        self._names.add(name)
        return name
