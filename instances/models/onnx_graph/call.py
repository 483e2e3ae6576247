"""A node of an ONNX graph, in the form that rules take."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shardmark.instances.models.model import Dims, Nest, Shape


class Unfit(ValueError):
    """A node that contradicts its operator type; the text says what was expected."""


@dataclass(frozen=True, slots=True)
class Call:
    """A node with all that determines its loops.

    ``kind``        operator type
    ``inputs``      shape of every input; None for an omitted one
    ``outputs``     shape of every output; None for an unread one
    ``attributes``  values of the attributes that the node has
    ``version``     version of the operator set
    ``numbers``     returns the values of an input, by position, as an array; None if they are known only at run time
    """

    kind: str
    inputs: Sequence[Shape | None]
    outputs: Sequence[Shape | None]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    version: int = 1
    numbers: Callable[[int], Any] = lambda _: None

    def shape(self, index: int) -> Shape:
        """Shape of an input that the node must have."""
        shape = self.inputs[index] if index < len(self.inputs) else None
        if shape is None:
            raise Unfit(f"expected at least {index + 1} inputs")
        return shape

    @property
    def result(self) -> Shape:
        """Shape of the first output that is read."""
        for shape in self.outputs:
            if shape is not None:
                return shape
        raise Unfit("expected an output")

    def value(self, index: int) -> list[Any] | None:
        """Values of an existing input as a list; None if they are unknown."""
        numbers = self.numbers(index) if index < len(self.inputs) and self.inputs[index] is not None else None
        return None if numbers is None else list(numbers.ravel().tolist())

    def integers(self, name: str, default: Sequence[int]) -> list[int]:
        """An attribute that is a list of integers."""
        return [int(number) for number in self.attributes.get(name, default)]

    def axis(self, default: int, rank: int) -> int:
        """The attribute ``axis``, counted from the first dimension."""
        axis = int(self.attributes.get("axis", default))
        if not -rank <= axis < max(rank, 1):
            raise Unfit(f"expected an axis between {-rank} and {rank - 1}, found {axis}")
        return axis % max(rank, 1)

    def axes(self, rank: int, position: int = 1) -> list[int] | None:
        """The attribute ``axes``, or the input at a position: numbers of dimensions; None if there is neither."""
        found = self.attributes["axes"] if "axes" in self.attributes else self.value(position)
        if found is None:
            return None
        if not all(-rank <= axis < rank for axis in found):
            raise Unfit(f"expected axes between {-rank} and {rank - 1}, found {found}")
        return [int(axis) % rank for axis in found]


def names(prefix: str, shape: Sequence[int]) -> tuple[str, ...]:
    """One loop per dimension."""
    return tuple(f"{prefix}{dim}" for dim in range(len(shape)))


def loops_of(shape: Shape, prefix: str = "d") -> dict[str, int]:
    """One loop per dimension, with its trip count."""
    return dict(zip(names(prefix, shape), shape, strict=True))


def over(shape: Shape | None, dims: Sequence[str | None], loops: Mapping[str, int]) -> Dims | None:
    """Loops over a tensor that is broadcast to the dimensions ``dims``, aligned at the last one."""
    if shape is None:
        return None
    if len(shape) > len(dims):
        raise Unfit(f"expected at most {len(dims)} dimensions, found {len(shape)}")
    ends = dims[len(dims) - len(shape) :]
    return tuple(dim if dim is not None and loops[dim] == size else None for size, dim in zip(shape, ends, strict=True))


def everything(shape: Shape | None) -> Dims | None:
    """No loop over any dimension: every iteration needs all of the tensor."""
    return None if shape is None else (None,) * len(shape)


def count(shape: Shape | None) -> int:
    """Number of elements of a tensor; 0 if there is none."""
    return 0 if shape is None else math.prod(shape)


def unknown(call: Call) -> Nest:
    """Only bytes moved, and no splits."""
    return Nest({}, [everything(x) for x in call.inputs], [everything(x) for x in call.outputs], known=False)
