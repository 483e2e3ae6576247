"""Values of a StableHLO program: tensors as their readers see them, constants, and stacks of slices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shardmark.instances.models.model import Shape


@dataclass(frozen=True, slots=True)
class View:
    """A value of the program: a tensor as readers see it.

    ``dims`` gives, for every dimension of the tensor, the dimension of the view that runs over it; None if the view
    has none for it, which only dimensions of size 1 lack.
    """

    tensor: int
    shape: Shape
    dims: tuple[int | None, ...]


@dataclass(slots=True)
class Constant:
    """A value that is known before the program runs; ``dense`` if it has to be stored, as a parameter.

    ``numbers`` is a NumPy array of its shape, or of no dimension if all elements are equal; None if they are not kept.
    """

    shape: Shape
    dtype: str
    dense: bool = False
    numbers: Any = None
    view: View | None = None  # of the parameter, once an operator reads it


@dataclass(frozen=True, slots=True)
class Stack:
    """An array that a loop reads or writes slice by slice along its first dimension, such as the weights of all layers.

    ``slices`` are values with a first dimension of size 1.
    """

    shape: Shape
    slices: Sequence[View | Constant]


Value = View | Constant | Stack


def fixed(value: Value | None) -> int | None:
    """The number that an index or a counter is; None if it depends on the program's inputs."""
    numbers = value.numbers if isinstance(value, Constant) else None
    return int(numbers.flat[0]) if numbers is not None and numbers.size == 1 else None
