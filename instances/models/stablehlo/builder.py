"""Builds the model of a StableHLO program: names operators, and lists the tensors behind the values that they use."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from shardmark.instances.models.model import Access, Dims, Model, Nest, Shape
from shardmark.instances.models.stablehlo import scopes
from shardmark.instances.models.stablehlo.loops import ARITHMETIC, MOVES, nest_of
from shardmark.instances.models.stablehlo.operation import Operation
from shardmark.instances.models.stablehlo.values import Constant, Stack, Value, View

Outs = Sequence[tuple[Shape, str] | None]  # shapes and data types of results; None for a token

_MOST_ORIGINS = 32  # arguments whose slices a tensor is traced back to


@dataclass(frozen=True, slots=True)
class Place:
    """What is around an operation.

    ``name``    scopes of the calls and rounds of loops
    ``lines``   lines of the program, as keys
    ``within``  the name of the innermost loop, which operations in it repeat
    ``rounds``  how often the operation runs, once all loops around it are unrolled; 0 outside of loops
    """

    name: str = ""
    lines: tuple[Any, ...] = ()
    within: str = ""
    rounds: int = 0


class Builder:
    """A model that grows by operators.

    ``keys``     the name and the line of every operator
    ``unknown``  number of operators of unknown arithmetic, by kind
    ``origins``  for a tensor whose slices follow from slices of arguments, the numbers of these arguments
    """

    def __init__(self, name: str) -> None:
        self.model = Model(name)
        self.keys: list[tuple[str, Any]] = []
        self.unknown: Counter[str] = Counter()
        self.origins: dict[int, frozenset[int]] = {}
        self._names: Counter[str] = Counter()
        self._taken: set[str] = set()
        self._alike: Counter[tuple[int, str]] = Counter()

    def unique(self, name: str) -> str:
        """The name, with ``#2``, ``#3`` and so on if it is taken."""
        plain = name
        while name in self._taken:
            self._names[plain] += 1
            name = f"{plain}#{self._names[plain] + 1}"
        self._taken.add(name)
        return name

    def whole(self, tensor: int) -> View:
        """A tensor as it is."""
        shape = self.model.tensors[tensor].shape
        return View(tensor, shape, tuple(range(len(shape))))

    def given(self, name: str, shape: Shape, dtype: str, *, parameter: bool) -> View:
        """A new tensor without a producer."""
        return self.whole(self.model.tensor(self.unique(name), shape, dtype, parameter=parameter))

    def dtype(self, value: Value) -> str:
        """Data type of a value's elements."""
        while isinstance(value, Stack):
            value = value.slices[0]
        return value.dtype if isinstance(value, Constant) else self.model.tensors[value.tensor].dtype

    def computed(self, kind: str, operation: Any, operands: Sequence[Value], outs: Outs, place: Place) -> list[Any]:
        """The results of an operation: views if it moves nothing, else what a new operator writes."""
        given = [self.joined(value, place) for value in operands]
        if kind in ("broadcast_in_dim", "reshape"):
            assert outs[0] is not None
            view = _seen(operation, kind, given[0], outs[0][0])
            if view is not None:
                return [view]
        body = 0
        if len(operation.regions) and len(operation.regions[0].blocks):
            body = len(operation.regions[0].blocks[0].operations) - 1
        nest = nest_of(
            Operation(
                kind,
                tuple(value.shape for value in given),
                tuple(out[0] for out in outs if out is not None),
                operation.attributes,
                tuple(isinstance(value, Constant) and not value.dense for value in given),
                body,
            )
        )
        if not nest.known:
            self.unknown[kind] += 1
        if nest.view and self._spread(given[0]):
            nest = replace(nest, view=False)
        written = self.append(kind, nest, given, outs, place)
        self._trace(kind, operation, given, written)
        return written

    def joined(self, value: Value, place: Place) -> View | Constant:
        """A value as one tensor; an operator joins the slices of a stack."""
        if not isinstance(value, Stack):
            return value
        dims = tuple(f"d{i}" for i in range(len(value.shape)))
        nest = Nest(dict(zip(dims, value.shape, strict=True)), [(None, *dims[1:])] * len(value.slices), [dims])
        outs = [(value.shape, self.dtype(value))]
        (found,) = self.append("concatenate", nest, value.slices, outs, place)
        assert isinstance(found, View)
        return found

    def _spread(self, value: Value) -> bool:
        """True if a view has more numbers than its tensor."""
        return isinstance(value, View) and math.prod(value.shape) != self.model.tensors[value.tensor].numbers

    def append(
        self,
        kind: str,
        nest: Nest,
        operands: Sequence[View | Constant],
        outs: Outs,
        place: Place,
        *,
        written: int | None = None,
        **labels: object,
    ) -> list[Any]:
        """An operator of these loops, and the values that it writes; ``written`` numbers if it writes in place."""
        reads = [
            access
            for number, (value, dims) in enumerate(zip(operands, nest.reads, strict=True))
            if (access := self._access(value, dims, nest.numbers.get(number))) is not None
        ]
        name = self.unique("/".join(scopes.parts(place.name)))
        results: list[Value | None] = []
        writes = list[Access]()
        dims_ahead = (dims for dims in nest.writes if dims is not None)
        for number, out in enumerate(outs):
            if out is None:
                results.append(None)
                continue
            tensor = self.model.tensor(name if number == 0 else self.unique(f"{name}:{number}"), *out)
            writes.append(Access(tensor, next(dims_ahead), written))
            results.append(self.whole(tensor))
        layer, role = scopes.layer(place.name)
        role = f"{role}/{kind}{'/backward' if scopes.is_backward(place.name) else ''}"
        self._alike[layer, role] += 1
        labels |= {"module": scopes.module(place.name), "layer": layer, "role": f"{role}#{self._alike[layer, role]}"}
        nest.append(self.model, name, kind, reads, writes, **labels)
        self.keys.append((place.name, place.lines))
        return results

    def _access(self, value: View | Constant, dims: Dims | None, numbers: int | None) -> Access | None:
        """A use of the tensor behind a value; None if it costs nothing."""
        if dims is None:
            return None
        if isinstance(value, Constant):
            if not value.dense:
                return None
            if value.view is None:
                value.view = self.given("constant", value.shape, value.dtype, parameter=True)
            value = value.view
        shape = self.model.tensors[value.tensor].shape
        over = tuple(
            dims[dim] if dim is not None and shape[i] == value.shape[dim] else None for i, dim in enumerate(value.dims)
        )
        most = self.model.tensors[value.tensor].numbers
        return Access(value.tensor, over, None if numbers is None or numbers >= most else numbers)

    def _trace(self, kind: str, operation: Any, operands: Sequence[View | Constant], written: Sequence[Any]) -> None:
        """Note from which arguments the slices of a result follow, if its slices follow from slices alone."""
        result = written[0] if len(written) == 1 else None
        if result is None or len(result.shape) == 0 or not by_slices(kind, operation, result.shape):
            return
        views = [x for x in operands if isinstance(x, View) and x.shape[:1] == result.shape[:1] and x.dims[:1] == (0,)]
        found = frozenset[int]().union(*(self.origins.get(view.tensor, ()) for view in views))
        if 0 < len(found) <= _MOST_ORIGINS:
            self.origins[result.tensor] = found

    def stored(self, value: Value, name: str, *, in_slices: bool = False) -> list[int]:
        """The tensors of a value that the program returns; an operator writes it if it is a view.

        ``in_slices`` is True for a slice of a stack, which need not have the first dimension.
        """
        if isinstance(value, Stack):
            slices = enumerate(value.slices)
            return [tensor for at, piece in slices for tensor in self.stored(piece, f"{name}[{at}]", in_slices=True)]
        if isinstance(value, Constant):
            return [self.model.tensor(self.unique(name), value.shape, value.dtype, parameter=True)]
        tensor = self.model.tensors[value.tensor]
        whole = self.whole(value.tensor)
        if value == whole or (in_slices and value == _reshaped_by_ones(whole, value.shape)):
            return [value.tensor]
        dims = tuple(f"d{i}" for i in range(len(value.shape)))
        nest = Nest(dict(zip(dims, value.shape, strict=True)), [dims], [dims], view=not self._spread(value))
        kind = "reshape" if nest.view else "broadcast_in_dim"
        place = Place(f"{tensor.name}/{kind}", (None,))
        (written,) = self.append(kind, nest, [value], [(value.shape, tensor.dtype)], place)
        assert isinstance(written, View)
        return [written.tensor]


def by_slices(kind: str, operation: Any, shape: Shape) -> bool:
    """True if each slice of a result along its first dimension follows from the same slices of the operands."""
    attributes = operation.attributes
    if kind == "transpose":
        return int(attributes["permutation"][0]) == 0
    if kind == "reduce":
        return len(operation.operands) == 2 and 0 not in map(int, attributes["dimensions"])
    if kind == "broadcast_in_dim":
        return len(attributes["broadcast_dimensions"]) > 0 and int(attributes["broadcast_dimensions"][0]) == 0
    return kind == "reshape" or kind in ARITHMETIC or kind in MOVES


def _seen(operation: Any, kind: str, value: Value, shape: Shape) -> View | None:
    """A broadcast, or a reshape by dimensions of size 1, as a view; None for other reshapes."""
    if not isinstance(value, View):
        return None
    if kind == "broadcast_in_dim":
        moved: list[int | None] = [int(dim) for dim in operation.attributes["broadcast_dimensions"]]
        return View(value.tensor, shape, tuple(None if dim is None else moved[dim] for dim in value.dims))
    return _reshaped_by_ones(value, shape)


def _reshaped_by_ones(value: View, shape: Shape) -> View | None:
    """A view of another shape, which has the same dimensions except for some of size 1; None if it has not."""
    ahead = [i for i, size in enumerate(shape) if size != 1]
    behind = [i for i, size in enumerate(value.shape) if size != 1]
    if [shape[i] for i in ahead] != [value.shape[i] for i in behind]:
        return None
    moved: list[int | None] = [None] * len(value.shape)
    for i, j in zip(behind, ahead, strict=True):
        moved[i] = j
    return View(value.tensor, shape, tuple(None if dim is None else moved[dim] for dim in value.dims))
