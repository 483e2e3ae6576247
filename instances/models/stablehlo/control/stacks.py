"""Arrays that loops read and write slice by slice: each slice is a tensor, as in a program without the loop.

JAX stacks the weights of all layers, and what the backward pass needs of each round, in arrays of which a round takes
its slice. XLA updates such arrays in place. Here a slice at a known index is the tensor that was stored there, and
storing one costs nothing. Operations that treat all slices alike, as an optimiser does, are one operator per slice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from shardmark.instances.models.model import Nest
from shardmark.instances.models.stablehlo.builder import Builder, Outs, Place, by_slices
from shardmark.instances.models.stablehlo.values import Constant, Stack, Value, View, fixed

#: Slices of all stacks together, at most; further arrays are not divided.
MOST = 1 << 22
#: Slices of one stack, at most.
LONGEST = 4096


class Stacks:
    """Makes stacks for the model of ``builder``; ``wanted`` are arguments of which slices were taken as a whole."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._left = MOST
        self.wanted: set[int] = set()

    def argument(self, name: str, shape: tuple[int, ...], dtype: str, *, parameter: bool) -> Stack:
        """An argument of the program, slice by slice."""
        names = (f"{name}[{number}]" for number in range(shape[0]))
        one = (1, *shape[1:])
        return Stack(shape, [self._builder.given(each, one, dtype, parameter=parameter) for each in names])

    def operation(
        self, kind: str, operation: Any, operands: Sequence[Value], outs: Outs, place: Place
    ) -> Sequence[Value | None] | None:
        """The results of an operation on slices, or on stacks; None if it is one operator on whole arrays."""
        if kind == "dynamic_slice" and operands:
            return self._taken(operands, outs)
        if kind == "dynamic_update_slice" and place.rounds and len(operands) > 1:
            return self._stored(operands, outs) or self._in_place(operands, outs, place)
        length = next((value.shape[0] for value in operands if isinstance(value, Stack)), 0)
        if length == 0 or len(outs) != 1 or outs[0] is None:
            return None
        shape, dtype = outs[0]
        alike = all(value.shape == () or value.shape[:1] == (length,) for value in operands)
        if shape[:1] != (length,) or not alike or not by_slices(kind, operation, shape):
            return self._summed(kind, operation, operands, outs, place)
        slices = []
        for number in range(length):
            inner = replace(place, name=f"{place.name}[{number}]")
            given = [value if value.shape == () else self._slice(value, number, inner) for value in operands]
            slices += self._builder.computed(kind, operation, given, [((1, *shape[1:]), dtype)], inner)
        return [Stack(shape, slices)]

    def _summed(
        self, kind: str, operation: Any, operands: Sequence[Value], outs: Outs, place: Place
    ) -> Sequence[Value | None] | None:
        """A reduction of a stack along its first dimension: slices are reduced one by one, and their results joined."""
        stack, out = operands[0], outs[0]
        if kind != "reduce" or len(operands) != 2 or not isinstance(stack, Stack) or out is None:
            return None
        first = next(iter(operation.regions[0].blocks[0].operations)).operation
        total: Value | None = None
        for number, piece in enumerate(stack.slices):
            inner = replace(place, name=f"{place.name}[{number}]")
            (part,) = self._builder.computed(kind, operation, [piece, operands[1]], outs, inner)
            if total is not None:
                (part,) = self._builder.computed(first.name.partition(".")[2], first, [total, part], outs, inner)
            total = part
        return [total]

    def _taken(self, operands: Sequence[Value], outs: Outs) -> Sequence[Value | None] | None:
        """Slices at known indices of an array that is divided, or may be after another pass over the program."""
        source, starts, out = operands[0], [fixed(value) for value in operands[1:]], outs[0]
        if not starts or starts[0] is None or out is None or out[0][1:] != source.shape[1:]:
            return None
        count = out[0][0]
        start = min(max(starts[0], 0), source.shape[0] - count)
        if isinstance(source, Stack):
            slices = source.slices[start : start + count]
            return [slices[0] if count == 1 else Stack(out[0], slices)]
        if count == 1 and 1 < source.shape[0] <= LONGEST and isinstance(source, View) and source.dims[:1] == (0,):
            self.wanted |= self._builder.origins.get(source.tensor, frozenset())
        return None

    def _stored(self, operands: Sequence[Value], outs: Outs) -> Sequence[Value | None] | None:
        """A slice that is put into an array at a known index."""
        target, update, start = operands[0], operands[1], fixed(operands[2]) if len(operands) > 2 else None
        if update.shape != (1, *target.shape[1:]) or start is None or isinstance(update, Stack):
            return None
        start = min(max(start, 0), target.shape[0] - 1)
        if isinstance(target, View) and target.dims[:1] == (0,) and 1 < target.shape[0] <= LONGEST:
            self.wanted |= self._builder.origins.get(target.tensor, frozenset())
        self._left -= target.shape[0]
        if isinstance(target, View) or self._left < 0 or target.shape[0] > LONGEST:
            return None
        slices = target.slices if isinstance(target, Stack) else [_part(target, i) for i in range(target.shape[0])]
        return [Stack(target.shape, [*slices[:start], update, *slices[start + 1 :]])]

    def _in_place(self, operands: Sequence[Value], outs: Outs, place: Place) -> Sequence[Value | None]:
        """An update within a loop, which moves no more than what is new."""
        given = [self._builder.joined(value, place) for value in operands]
        dims = tuple(f"d{i}" for i in range(len(given[0].shape)))
        sizes = zip(dims, given[0].shape, given[1].shape, strict=True)
        read = tuple(dim if a == b else None for dim, a, b in sizes)
        others = [(None,) * len(value.shape) for value in given[2:]]
        loops = dict(zip(dims, given[0].shape, strict=True))
        nest = Nest(loops, [dims, read, *others], [dims], numbers={0: 0})
        written = math.prod(given[1].shape)
        return self._builder.append("dynamic_update_slice", nest, given, outs, place, written=written)

    def _slice(self, value: Value, number: int, place: Place) -> View | Constant:
        """A slice of a value along its first dimension."""
        if isinstance(value, Stack):
            return value.slices[number]
        if isinstance(value, Constant):
            return _part(value, number)
        shape = (1, *value.shape[1:])
        tensor = self._builder.model.tensors[value.tensor]
        if 0 not in value.dims or tensor.shape[value.dims.index(0)] == 1:  # the same for all
            return View(value.tensor, shape, value.dims)
        self.wanted |= self._builder.origins.get(value.tensor, frozenset())
        dims = tuple(f"d{i}" for i in range(len(shape)))
        loops = dict(zip(dims, shape, strict=True))
        nest = Nest(loops, [(None, *dims[1:])], [dims], numbers={0: math.prod(shape)})
        (found,) = self._builder.append("slice", nest, [value], [(shape, tensor.dtype)], place)
        assert isinstance(found, View)
        return found


def _part(value: Constant, number: int) -> Constant:
    """A slice of a constant."""
    numbers = value.numbers
    if numbers is not None and numbers.ndim:
        numbers = numbers[number : number + 1]
    return Constant((1, *value.shape[1:]), value.dtype, value.dense, numbers)
