"""Reads StableHLO programs, as JAX lowers them.

Treatment of the parts of a program:

calls                 inlined, as are compositions; an operator's name is the caller's scope and its own
control flow          refused; loops have to be unrolled (``jax.lax.scan(..., unroll=True)``)
constants             scalars, constants with one value, iota, and what depends only on these cost nothing: the
                      compiler makes them inside the operators that read them. Other constants are parameters
broadcasts            no operators: a reader reads the source. The same holds for reshapes that only add or drop
                      dimensions of size 1, for barriers, and for annotations of shardings
other reshapes        operators that are views
random numbers        a call of ``threefry2x32``, JAX's generator, is one operator
custom calls          moves of bytes, counted in one sentence, unless a rule has their name
arguments of main     parameters if their buffers are donated for a result (``tf.aliasing_output``) or if their names
                      begin with one of `STATE`; inputs otherwise. JAX writes names as locations, ``params['w']``
passes                those of a training step are told apart by `shardmark.instances.models.stablehlo.passes`
layers                the number at the end of a scope's name, as in ``jax.named_scope("layer7")``
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shardmark.instances.errors import InputError
from shardmark.instances.files.jsonfile import collector_paused
from shardmark.instances.models.calls import require_few
from shardmark.instances.models.model import Access, Dims, Model, Nest, Shape, of_unknown_arithmetic
from shardmark.instances.models.stablehlo import scopes
from shardmark.instances.models.stablehlo.functions import RETURNS, bodies, callee_of, composed, label
from shardmark.instances.models.stablehlo.loops import nest_of
from shardmark.instances.models.stablehlo.operation import Operation
from shardmark.instances.models.stablehlo.passes import mark_passes
from shardmark.instances.models.stablehlo.types import Types
from shardmark.instances.models.stablehlo.values import Constant, Value, View

#: Names of arguments that stay on the devices between steps begin with one of these.
STATE = ("param", "weight", "state", "train_state", "opt", "variable", "model", "mu", "nu", "moment")

_CONTROL = {"while", "case", "if"}
#: Results are the operands.
_SAME = {"optimization_barrier", "sharding_constraint", "propagation_barrier", "Sharding", "annotate_device_placement"}
_FREE = {"constant", "iota", "partition_id", "replica_id", "create_token", "after_all"}
_DIALECTS = {"stablehlo", "chlo", "func", "sdy"}


def model_of(module: Any, source: str, tell: Callable[[str], None] = lambda _: None) -> Model:
    """The model of a module that `shardmark.instances.models.stablehlo.module.parse` returns.

    ``tell`` is called with a sentence on operations of unknown arithmetic, and one if no argument is a parameter.
    Raises InputError for dynamic shapes, control flow and recursion.
    """
    with collector_paused():
        reader = _Reader(module, source)
        reader.read()
        for sentence in reader.doubts():
            tell(sentence)
        return reader.model


@dataclass(frozen=True, slots=True)
class _Place:
    """The calls around an operation: names of their scopes, and their lines as keys."""

    name: str = ""
    lines: tuple[Any, ...] = ()


@dataclass(slots=True)
class _Frame:
    """A function that is being walked through.

    ``operations``  those that are left
    ``values``      of its arguments, and of the operations before
    ``call``        the operation whose results are what the function returns; None for main
    """

    operations: Iterator[Any]
    values: dict[Any, Value | None]
    place: _Place
    call: Any = None


class _Reader:
    """Walks a module, and builds its model."""

    def __init__(self, module: Any, source: str) -> None:
        from jaxlib.mlir import ir

        self._ir, self._module, self._source = ir, module, source
        self.model = Model(os.path.basename(source).split(".")[0] or "model")
        self._names: Counter[str] = Counter()
        self._taken: set[str] = set()
        self._types = Types(source)
        self._unknown: Counter[str] = Counter()
        self._alike: Counter[tuple[int, str]] = Counter()
        self._keys: list[tuple[str, Any]] = []  # location's name and line of every operator
        self._functions: dict[str, Any] = {}
        for operation in module.body.operations:
            if operation.operation.name == "func.func":
                self._functions[operation.attributes["sym_name"].value] = operation

    def read(self) -> None:
        """Build the model of the function main."""
        main = self._functions.get("main")
        if main is None:
            public = [f for f in self._functions.values() if "sym_visibility" not in f.attributes]
            if len(public) != 1:
                raise self._error("", f"expected a function main, found {len(public)} public functions")
            main = public[0]
        if not main.regions[0].blocks:
            raise self._error("main", "expected a function with a body")
        block = main.regions[0].blocks[0]
        self._aliased = self._donated(main)
        require_few(bodies(self._functions), main.attributes["sym_name"].value, self._source)
        values = [self._argument(number, argument) for number, argument in enumerate(block.arguments)]
        results = self._walk(_frame(main, values, _Place()))
        if not self.model.operators:
            expected = "expected an operation whose results follow from an argument, not from constants alone"
            raise self._error(main.attributes["sym_name"].value, expected)
        stored = [None if value is None else self._stored(value, "output") for value in results]
        self.model.outputs += [tensor for tensor in stored if tensor is not None]
        for number, result in self._aliased.items():
            if not 0 <= result < len(stored):
                expected = f"expected tf.aliasing_output to be an index of {len(stored)} results, found {result}"
                raise self._error(f"argument {number}", expected)
            before, after = values[number], stored[result]
            if isinstance(before, View) and after is not None and before.shape == self.model.tensors[after].shape:
                self.model.updates[before.tensor] = after
        mark_passes(self.model, self._keys)

    def doubts(self) -> Iterable[str]:
        """Sentences on what may not be as the user thinks."""
        if self._unknown:
            yield of_unknown_arithmetic(self._unknown)
        if not any(tensor.parameter for tensor in self.model.tensors):
            yield (
                "no argument is a parameter, since none is donated and no name begins with "
                f"{', '.join(STATE[:4])} or the like (names are in text made with debug_info=True)"
            )

    def _error(self, place: str, expected: str) -> InputError:
        return InputError(self._source, place, expected)

    def _donated(self, main: Any) -> dict[int, int]:
        """For the arguments whose buffers take results, by number, the numbers of these results."""
        if "arg_attrs" not in main.attributes:
            return {}
        key = "tf.aliasing_output"
        return {i: given[key].value for i, given in enumerate(main.attributes["arg_attrs"]) if key in given}

    def _argument(self, number: int, argument: Any) -> Value | None:
        location = argument.location
        name = location.name_str if isinstance(location, self._ir.NameLoc) else f"arg{number}"
        found = self._types.of(argument.type, f"argument {name}")
        if found is None:
            return None
        parameter = number in self._aliased or name.lower().startswith(STATE)
        return self._whole(self.model.tensor(self._unique(name), *found, parameter=parameter))

    def _whole(self, tensor: int) -> View:
        shape = self.model.tensors[tensor].shape
        return View(tensor, shape, tuple(range(len(shape))))

    def _unique(self, name: str) -> str:
        """The name, with ``#2``, ``#3`` and so on if it is taken."""
        plain = name
        while name in self._taken:
            self._names[plain] += 1
            name = f"{plain}#{self._names[plain] + 1}"
        self._taken.add(name)
        return name

    def _walk(self, frame: _Frame) -> Sequence[Value | None]:
        """The values that a function returns; those that it calls are entered as they are met, however deep."""
        frames = [frame]
        while True:
            frame = frames[-1]
            operation = next(frame.operations).operation
            operands = [frame.values[operand] for operand in operation.operands]
            if operation.name not in RETURNS:
                found = self._operation(operation, operation.name, operands, frame.place)
                if isinstance(found, _Frame):
                    frames.append(found)
                    continue
            else:
                frames.pop()
                if not frames:
                    return operands
                operation, found, frame = frame.call, operands, frames[-1]
            frame.values.update(zip(operation.results, found, strict=True))

    def _operation(
        self, operation: Any, full: str, operands: list[Value | None], place: _Place
    ) -> Sequence[Value | None] | _Frame:
        """The values of an operation's results, or the function to walk through for them."""
        dialect, _, kind = full.partition(".")
        inner = _inside(operation, place)
        if dialect not in _DIALECTS:
            raise self._error(inner.name, f"expected operations of StableHLO, found {full}")
        if kind in _CONTROL:
            advice = (
                "unroll it, as jax.lax.scan(..., unroll=True) does" if kind == "while" else "choose before lowering"
            )
            raise self._error(inner.name, f"expected no control flow, found {full}: {advice}")
        if kind == "custom_call":
            kind = operation.attributes["call_target_name"].value.removeprefix("mhlo.").removeprefix("chlo.")
        if kind == "composite":
            kind = composed(operation)
        outs: Sequence[Any] = [self._types.of(result.type, f"operation {inner.name}") for result in operation.results]
        callee = callee_of(operation)
        if callee is not None:
            return self._entered(callee, operation, operands, inner)
        if full == "func.call":
            return self._generator(operands, outs, inner)
        if kind in _SAME and [x and x.shape for x in operands] == [out and out[0] for out in outs]:
            return operands
        if kind in _FREE or (operands and kind != "rng" and all(not isinstance(x, View) for x in operands)):
            return self._folded(operation, kind, operands, outs)
        if kind in ("broadcast_in_dim", "reshape"):
            view = self._seen(operation, kind, operands[0], outs[0][0])
            if view is not None:
                return [view]
        return self._compute(operation, kind, operands, outs, inner)

    def _entered(self, callee: str, call: Any, operands: list[Value | None], inner: _Place) -> _Frame:
        function = self._functions.get(callee)
        if function is None or not function.regions[0].blocks:
            raise self._error(inner.name, f"expected a function {callee} with a body")
        return _frame(function, operands, inner, call)

    def _generator(self, operands: list[Value | None], outs: Sequence[Any], inner: _Place) -> Sequence[Value | None]:
        """JAX's generator of random numbers as one operator: 20 rounds of about 5 operations per pair of numbers."""
        shape = outs[0][0]
        dims = tuple(f"d{i}" for i in range(len(shape)))
        reads = [
            dims if value is not None and value.shape == shape else (None,) * len(value.shape)
            for value in operands
            if value
        ]
        flops = 50 * len(outs) * math.prod(shape)
        nest = Nest(dict(zip(dims, shape, strict=True)), reads, [dims] * len(outs), flops)
        return self._append("threefry2x32", nest, [value for value in operands if value], outs, inner)

    def _folded(
        self, operation: Any, kind: str, operands: Sequence[Value | None], outs: Sequence[Any]
    ) -> Sequence[Value | None]:
        """Constants that follow from constants."""
        dense = any(isinstance(value, Constant) and value.dense for value in operands)
        if kind == "constant":
            value = operation.attributes["value"]
            dense = isinstance(value, self._ir.DenseElementsAttr) and not value.is_splat
        return [out and Constant(out[0], out[1], dense and math.prod(out[0]) > 1) for out in outs]

    def _seen(self, operation: Any, kind: str, value: Value | None, shape: Shape) -> View | None:
        """A broadcast, or a reshape by dimensions of size 1, as a view; None for other reshapes."""
        assert isinstance(value, View)
        if kind == "broadcast_in_dim":
            moved: list[int | None] = [int(dim) for dim in operation.attributes["broadcast_dimensions"]]
        else:
            ahead = [i for i, size in enumerate(shape) if size != 1]
            behind = [i for i, size in enumerate(value.shape) if size != 1]
            if [shape[i] for i in ahead] != [value.shape[i] for i in behind]:
                return None
            moved = [None] * len(value.shape)
            for i, j in zip(behind, ahead, strict=True):
                moved[i] = j
        return View(value.tensor, shape, tuple(None if dim is None else moved[dim] for dim in value.dims))

    def _compute(
        self, operation: Any, kind: str, operands: Sequence[Value | None], outs: Sequence[Any], inner: _Place
    ) -> Sequence[Value | None]:
        """An operator."""
        given = [value for value in operands if value is not None]
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
            self._unknown[kind] += 1
        if nest.view and self._spread(given[0]):
            nest = replace(nest, view=False)
        return self._append(kind, nest, given, outs, inner)

    def _spread(self, value: Value) -> bool:
        """True if a view has more numbers than its tensor."""
        return isinstance(value, View) and math.prod(value.shape) != self.model.tensors[value.tensor].numbers

    def _append(
        self, kind: str, nest: Nest, operands: Sequence[Value], outs: Sequence[Any], inner: _Place
    ) -> Sequence[Value | None]:
        """An operator of these loops, and the values that it writes."""
        reads = [
            access
            for number, (value, dims) in enumerate(zip(operands, nest.reads, strict=True))
            if (access := self._access(value, dims, nest.numbers.get(number))) is not None
        ]
        name = self._unique("/".join(scopes.parts(inner.name)))
        written: list[Value | None] = []
        writes = list[Access]()
        dims_ahead = (dims for dims in nest.writes if dims is not None)
        for number, out in enumerate(outs):
            if out is None:
                written.append(None)
                continue
            tensor = self.model.tensor(name if number == 0 else self._unique(f"{name}:{number}"), *out)
            writes.append(Access(tensor, next(dims_ahead)))
            written.append(self._whole(tensor))
        layer, role = scopes.layer(inner.name)
        role = f"{role}/{kind}{'/backward' if scopes.is_backward(inner.name) else ''}"
        self._alike[layer, role] += 1
        nest.append(
            self.model,
            name,
            kind,
            reads,
            writes,
            layer=layer,
            role=f"{role}#{self._alike[layer, role]}",
        )
        self._keys.append((inner.name, inner.lines))
        return written

    def _access(self, value: Value, dims: Dims | None, numbers: int | None) -> Access | None:
        """A use of the tensor behind a value; None if it costs nothing."""
        if dims is None:
            return None
        if isinstance(value, Constant):
            if not value.dense:
                return None
            if value.view is None:
                name = self._unique("constant")
                value.view = self._whole(self.model.tensor(name, value.shape, value.dtype, parameter=True))
            value = value.view
        shape = self.model.tensors[value.tensor].shape
        over = tuple(
            dims[dim] if dim is not None and shape[i] == value.shape[dim] else None for i, dim in enumerate(value.dims)
        )
        most = self.model.tensors[value.tensor].numbers
        return Access(value.tensor, over, None if numbers is None or numbers >= most else numbers)

    def _stored(self, value: Value, name: str) -> int:
        """The tensor of a value that the program returns; an operator writes it if it is a view."""
        if isinstance(value, Constant):
            return self.model.tensor(self._unique(name), value.shape, value.dtype, parameter=True)
        tensor = self.model.tensors[value.tensor]
        if value == self._whole(value.tensor):
            return value.tensor
        dims = tuple(f"d{i}" for i in range(len(value.shape)))
        nest = Nest(dict(zip(dims, value.shape, strict=True)), [dims], [dims], view=not self._spread(value))
        kind = "reshape" if nest.view else "broadcast_in_dim"
        place = _Place(f"{tensor.name}/{kind}", (None,))
        written = self._append(kind, nest, [value], [(value.shape, tensor.dtype)], place)[0]
        assert isinstance(written, View)
        return written.tensor


def _inside(operation: Any, place: _Place) -> _Place:
    """The place of an operation: its own name and line after those of the calls around it."""
    name, line = label(operation)
    return _Place(f"{place.name}/{name}" if place.name else name, (*place.lines, line))


def _frame(function: Any, given: Sequence[Value | None], place: _Place, call: Any = None) -> _Frame:
    block = function.regions[0].blocks[0]
    return _Frame(iter(block.operations), dict(zip(block.arguments, given, strict=True)), place, call)
