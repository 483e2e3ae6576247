"""A StableHLO operation as the rules of its loops see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shardmark.instances.models.model import Nest, Shape


@dataclass(frozen=True)
class Operation:
    """An operation as rules need it.

    ``kind``        its name without the dialect
    ``operands``    shapes of what it reads, ``results`` of what it writes
    ``attributes``  as MLIR's bindings hand them out
    ``generated``   for every operand, True if it is a constant that costs nothing to make
    ``body``        operations in its region, 0 if it has none
    """

    kind: str
    operands: tuple[Shape, ...]
    results: tuple[Shape, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    generated: tuple[bool, ...] = ()
    body: int = 0

    def integers(self, name: str) -> list[int] | None:
        """The integers of an array attribute, or None if it is missing."""
        return [int(x) for x in self.attributes[name]] if name in self.attributes else None

    def integer(self, name: str, default: int = 1) -> int:
        """The value of an integer attribute."""
        return int(self.attributes[name].value) if name in self.attributes else default


def names(prefix: str, shape: Sequence[int]) -> list[str]:
    """One loop per dimension."""
    return [f"{prefix}{dim}" for dim in range(len(shape))]


def unknown(operation: Operation) -> Nest:
    """Only bytes moved, and no splits."""
    return Nest(
        {},
        [(None,) * len(shape) for shape in operation.operands],
        [(None,) * len(shape) for shape in operation.results],
        known=False,
    )
