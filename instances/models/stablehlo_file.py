"""Reads StableHLO programs, as JAX lowers them.

Treatment of the parts of a program:

calls                 inlined, as are compositions; an operator's name is the caller's scope and its own
loops                 unrolled if the counter says how often they run; names have the round, as in ``while/3/mul``. A
                      loop of more than `LARGEST_LOOP` operators stays one operator, which costs as much as its rounds
slices                of arrays that a loop goes through are tensors of their own: see `control.stacks`
branches              a constant condition decides, or else the user, or else the greater cost
annotations           of shardings are read through; in manual computations the work of one device counts
constants             scalars, constants with one value, iota, and what depends only on these cost nothing: the
                      compiler makes them inside the operators that read them. Other constants are parameters
broadcasts            no operators: a reader reads the source. The same holds for reshapes that only add or drop
                      dimensions of size 1, and for barriers
other reshapes        operators that are views
random numbers        a call of ``threefry2x32``, JAX's generator, is one operator
custom calls          moves of bytes, counted in one sentence, unless a rule has their name
arguments of main     parameters if their buffers are donated for a result (``tf.aliasing_output``) or if their names
                      begin with one of `STATE`; inputs otherwise. JAX writes names as locations, ``params['w']``
passes                those of a training step are told apart by `shardmark.instances.models.stablehlo.passes`
layers                the number at the end of a scope's name, as in ``jax.named_scope("layer7")``; the round of a loop
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from shardmark.instances.errors import InputError
from shardmark.instances.files.jsonfile import collector_paused
from shardmark.instances.models.model import Model, Nest, of_unknown_arithmetic
from shardmark.instances.models.stablehlo.builder import Builder, Outs, Place
from shardmark.instances.models.stablehlo.control.flow import Frame, Scope, branch, inside, loop, manual, view
from shardmark.instances.models.stablehlo.control.numbers import numbers_of
from shardmark.instances.models.stablehlo.control.program import Program
from shardmark.instances.models.stablehlo.control.stacks import Stacks
from shardmark.instances.models.stablehlo.functions import RETURNS, callee_of, composed
from shardmark.instances.models.stablehlo.passes import mark_passes
from shardmark.instances.models.stablehlo.values import Constant, Stack, Value, View

#: Names of arguments that stay on the devices between steps begin with one of these.
STATE = ("param", "weight", "state", "train_state", "opt", "variable", "model", "mu", "nu", "moment")

#: Results are the operands.
_SAME = {"optimization_barrier", "sharding_constraint", "propagation_barrier", "Sharding", "annotate_device_placement"}
_FREE = {"constant", "iota", "partition_id", "replica_id", "create_token", "after_all"}
#: Operands are the same as the results, for one device or for all.
_SHARDS = {"SPMDFullToShardShape", "SPMDShardToFullShape"}
_DIALECTS = {"stablehlo", "chlo", "func", "sdy"}
_PASSES = 3  # over the program, at most, to find the arguments that loops go through slice by slice


def model_of(
    module: Any,
    source: str,
    tell: Callable[[str], None] = lambda _: None,
    branches: Mapping[str, str] | None = None,
) -> Model:
    """The model of a module that `shardmark.instances.models.stablehlo.module.parse` returns.

    ``tell`` is called with sentences on loops, branches and operations of unknown arithmetic, and if no argument is a
    parameter. ``branches`` has choices by name: ``then``, ``else`` or a number.
    Raises InputError for dynamic shapes, loops whose number of rounds is unknown, and recursion.
    """
    with collector_paused():
        divided: frozenset[int] = frozenset()
        for _ in range(_PASSES):
            reader = _Reader(Program(module, source, branches or {}), divided)
            reader.read()
            if reader.stacks.wanted <= divided:
                break
            divided |= reader.stacks.wanted
        for sentence in reader.doubts():
            tell(sentence)
        return reader.builder.model


class _Reader:
    """Walks a program, and builds its model."""

    def __init__(self, program: Program, divided: frozenset[int] = frozenset(), depth: int = 0) -> None:
        """``divided`` are the arguments of main of which each slice is a tensor; ``depth`` counts kept loops around."""
        from jaxlib.mlir import ir

        self._ir, self.program, self.depth = ir, program, depth
        self.builder = Builder(os.path.basename(program.source).split(".")[0] or "model")
        self.stacks = Stacks(self.builder)
        self._divided = divided

    def read(self) -> None:
        """Build the model of the function main."""
        main = self.program.main()
        block = main.regions[0].blocks[0]
        self._aliased = self._donated(main)
        values = [self._argument(number, argument) for number, argument in enumerate(block.arguments)]
        results = self.walk(Frame(block, Scope(zip(block.arguments, values, strict=True)), Place()))
        model = self.builder.model
        if not model.operators:
            expected = "expected an operation whose results follow from an argument, not from constants alone"
            raise self._error(main.attributes["sym_name"].value, expected)
        stored = [[] if value is None else self.builder.stored(value, "output") for value in results]
        model.outputs += [tensor for tensors in stored for tensor in tensors]
        for number, result in self._aliased.items():
            if not 0 <= result < len(stored):
                expected = f"expected tf.aliasing_output to be an index of {len(stored)} results, found {result}"
                raise self._error(f"argument {number}", expected)
            for before, after in zip(_tensors(values[number]), stored[result], strict=False):
                if model.tensors[before].shape == model.tensors[after].shape:
                    model.updates[before] = after
        mark_passes(model, self.builder.keys)

    def doubts(self) -> Iterable[str]:
        """Sentences on what may not be as the user thinks."""
        yield from self.program.choices.sentences()
        if self.builder.unknown:
            yield of_unknown_arithmetic(self.builder.unknown)
        if not any(tensor.parameter for tensor in self.builder.model.tensors):
            yield (
                "no argument is a parameter, since none is donated and no name begins with "
                f"{', '.join(STATE[:4])} or the like (names are in text made with debug_info=True)"
            )

    def apart(self) -> _Reader:
        """A reader of a block that becomes a model of its own."""
        return _Reader(self.program, depth=self.depth + 1)

    def _error(self, place: str, expected: str) -> InputError:
        return InputError(self.program.source, place, expected)

    def _donated(self, main: Any) -> dict[int, int]:
        """For the arguments whose buffers take results, by number, the numbers of these results."""
        if "arg_attrs" not in main.attributes:
            return {}
        key = "tf.aliasing_output"
        return {i: given[key].value for i, given in enumerate(main.attributes["arg_attrs"]) if key in given}

    def _argument(self, number: int, argument: Any) -> Value | None:
        location = argument.location
        name = location.name_str if isinstance(location, self._ir.NameLoc) else f"arg{number}"
        found = self.program.types.of(argument.type, f"argument {name}")
        if found is None:
            return None
        parameter = number in self._aliased or name.lower().startswith(STATE)
        if number in self._divided:
            return self.stacks.argument(name, *found, parameter=parameter)
        value = self.builder.given(name, *found, parameter=parameter)
        self.builder.origins[value.tensor] = frozenset((number,))
        return value

    def walk(self, frame: Frame) -> Sequence[Value | None]:
        """The values that a block returns; functions, loops and branches are entered as they are met, however deep."""
        frames = [frame]
        while True:
            frame = frames[-1]
            operation = next(frame.operations).operation
            operands = [frame.values[operand] for operand in operation.operands]
            if operation.name not in RETURNS:
                self.program.count()
                found = self._operation(operation, operation.name, operands, frame)
                if isinstance(found, Frame):
                    frames.append(found)
                    continue
            else:
                again = frame.again(operands) if frame.again else None
                frames.pop()
                if again is not None:
                    frames.append(again)
                    continue
                if not frames:
                    return operands
                operation, found = frame.call, frame.finish(operands) if frame.finish else operands
                frame = frames[-1]
            frame.values.update(zip(operation.results, found, strict=True))

    def _operation(
        self, operation: Any, full: str, operands: list[Value | None], frame: Frame
    ) -> Sequence[Value | None] | Frame:
        """The values of an operation's results, or the block to walk through for them."""
        dialect, _, kind = full.partition(".")
        inner = inside(operation, frame.place)
        if dialect not in _DIALECTS:
            raise self._error(inner.name, f"expected operations of StableHLO, found {full}")
        if kind == "custom_call":
            kind = operation.attributes["call_target_name"].value.removeprefix("mhlo.").removeprefix("chlo.")
        if kind == "composite":
            kind = composed(operation)
        types = self.program.types
        outs: Outs = [types.of(result.type, f"operation {inner.name}") for result in operation.results]
        if kind == "while":
            return loop(self, operation, operands, outs, frame)
        if kind in ("case", "if"):
            return branch(self, operation, operands[0], frame)
        if kind == "manual_computation":
            return manual(self, operation, operands, outs, frame)
        callee = callee_of(operation)
        if callee is not None:
            return self._entered(callee, operation, operands, inner)
        if full == "func.call":
            return self._generator(operands, outs, inner)
        if kind in _SHARDS and len(operands) == len(outs) == 1:
            return [view(self.builder, operands[0], outs[0], inner)]
        if kind in _SAME and [x and x.shape for x in operands] == [out and out[0] for out in outs]:
            return operands
        if kind in _FREE or (operands and kind != "rng" and all(not isinstance(x, View | Stack) for x in operands)):
            return self._folded(operation, kind, operands, outs)
        if inner.rounds and kind == "add" and (kept := _without_zero(operands)):
            return [kept]
        given = [value for value in operands if value is not None]
        found = self.stacks.operation(kind, operation, given, outs, inner)
        return self.builder.computed(kind, operation, given, outs, inner) if found is None else found

    def _entered(self, callee: str, call: Any, operands: list[Value | None], inner: Place) -> Frame:
        function = self.program.functions.get(callee)
        if function is None or not function.regions[0].blocks:
            raise self._error(inner.name, f"expected a function {callee} with a body")
        block = function.regions[0].blocks[0]
        return Frame(block, Scope(zip(block.arguments, operands, strict=True)), inner, call)

    def _generator(self, operands: list[Value | None], outs: Outs, inner: Place) -> Sequence[Value | None]:
        """JAX's generator of random numbers as one operator: 20 rounds of about 5 operations per pair of numbers."""
        assert outs[0] is not None
        shape = outs[0][0]
        dims = tuple(f"d{i}" for i in range(len(shape)))
        given = [self.builder.joined(value, inner) for value in operands if value is not None]
        reads = [dims if value.shape == shape else (None,) * len(value.shape) for value in given]
        flops = 50 * len(outs) * math.prod(shape)
        nest = Nest(dict(zip(dims, shape, strict=True)), reads, [dims] * len(outs), flops)
        return self.builder.append("threefry2x32", nest, given, outs, inner)

    def _folded(
        self, operation: Any, kind: str, operands: Sequence[Value | None], outs: Outs
    ) -> Sequence[Value | None]:
        """Constants that follow from constants."""
        dense = any(isinstance(value, Constant) and value.dense for value in operands)
        if kind == "constant":
            value = operation.attributes["value"]
            dense = isinstance(value, self._ir.DenseElementsAttr) and not value.is_splat
        numbers = numbers_of(kind, operation, operands, *outs[0]) if len(outs) == 1 and outs[0] else None
        return [out and Constant(out[0], out[1], dense and math.prod(out[0]) > 1, numbers) for out in outs]


def _tensors(value: Value | None) -> Sequence[int]:
    """The tensors of an argument."""
    values = value.slices if isinstance(value, Stack) else [value]
    return [each.tensor for each in values if isinstance(each, View)]


def _without_zero(operands: Sequence[Value | None]) -> Value | None:
    """The other operand, if one is zero everywhere, as sums over the rounds of a loop begin; None if none is."""
    for zero, other in (operands, operands[::-1]):
        numbers = zero.numbers if isinstance(zero, Constant) else None
        if numbers is not None and numbers.ndim == 0 and numbers == 0:
            return other
    return None
