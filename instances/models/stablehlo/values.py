"""Values of a StableHLO program: tensors as their readers see them, and constants."""

from __future__ import annotations

from dataclasses import dataclass

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
    """A value that is known before the program runs; ``dense`` if it has to be stored, as a parameter."""

    shape: Shape
    dtype: str
    dense: bool = False
    view: View | None = None  # of the parameter, once an operator reads it


Value = View | Constant
