"""Loops, branches and manual computations of a StableHLO program, as blocks that a reader walks through."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from shardmark.instances.errors import InputError
from shardmark.instances.models.control.choices import arithmetic, work
from shardmark.instances.models.model import Model, Nest
from shardmark.instances.models.stablehlo import scopes
from shardmark.instances.models.stablehlo.builder import Builder, Outs, Place
from shardmark.instances.models.stablehlo.control.program import Program
from shardmark.instances.models.stablehlo.control.rounds import rounds_of
from shardmark.instances.models.stablehlo.functions import label
from shardmark.instances.models.stablehlo.values import Constant, Stack, Value, View, fixed

_DEEPEST = 20  # loops that stay one operator, and branches to compare, within each other

Values = Sequence[Value | None]


class Reader(Protocol):
    """What walks through the blocks of ``program`` and builds a model; ``depth`` counts the blocks read apart."""

    program: Program
    builder: Builder
    depth: int

    def walk(self, frame: Frame) -> Values: ...

    def apart(self) -> Reader: ...


class Scope(dict[Any, Value | None]):
    """Values of a block, and those of the blocks around it."""

    def __init__(self, own: Iterable[tuple[Any, Value | None]] = (), around: Scope | None = None) -> None:
        super().__init__(own)
        self._around = around

    def __missing__(self, key: Any) -> Value | None:
        scope = self._around
        while scope is not None and key not in scope:
            scope = scope._around
        if scope is None:
            raise KeyError(key)
        return scope[key]


class _Apart(Scope):
    """Values of a block that is read into a model of its own, where those from around it are inputs."""

    def __init__(self, own: Values, block: Any, around: Scope, old: Builder, new: Builder) -> None:
        self._outer, self._old, self._new = around, old, new
        super().__init__(zip(block.arguments, map(self._taken, own), strict=True))

    def __missing__(self, key: Any) -> Value | None:
        self[key] = found = self._taken(self._outer[key])
        return found

    def __contains__(self, key: Any) -> bool:
        return True

    def _taken(self, value: Value | None) -> Value | None:
        if value is None:
            return None
        if isinstance(value, Constant):
            return Constant(value.shape, value.dtype, value.dense, value.numbers)
        return self._new.given("given", value.shape, self._old.dtype(value), parameter=False)


@dataclass(slots=True)
class Frame:
    """A block that is being walked through.

    ``values``  of its arguments, and of the operations before
    ``call``    the operation whose results are what the block returns; None for main
    ``again``   for what a round of a loop returns, the next round; None after the last
    ``finish``  makes the results of the call of what the block returns
    """

    block: Any
    values: Scope
    place: Place
    call: Any = None
    again: Callable[[Values], Frame | None] | None = None
    finish: Callable[[Values], Values] | None = None
    operations: Iterator[Any] = field(init=False)

    def __post_init__(self) -> None:
        self.operations = iter(self.block.operations)


def inside(operation: Any, place: Place) -> Place:
    """The place of an operation: its own name and line after those around it."""
    name, line = label(operation)
    if place.within:
        name = name.removeprefix(f"{place.within}/").removeprefix("body/")
    return replace(place, name=f"{place.name}/{name}" if place.name else name, lines=(*place.lines, line), within="")


def loop(reader: Reader, operation: Any, operands: Values, outs: Outs, frame: Frame) -> Values | Frame:
    """The first round of a loop, or the results of a loop that stays one operator."""
    program, place = reader.program, inside(operation, frame.place)
    shown = "/".join(scopes.parts(place.name))

    def known(value: Any) -> int | None:
        try:
            return fixed(frame.values[value])
        except KeyError:
            return None

    reader.builder.model.unrolled = True
    found = rounds_of(operation, known, program.functions)
    if found is None:
        expected = "expected a loop with a counter, which begins, grows and ends by constants, found stablehlo.while"
        advice = "use jax.lax.scan, or jax.lax.fori_loop with constant limits"
        raise InputError(program.source, shown, f"{expected} with another condition: {advice}")
    rounds, shorter = found
    if shorter:
        program.choices.shorter(shown, rounds)
    if rounds == 0:
        return operands
    together = max(frame.place.rounds, 1) * rounds
    if not program.unrolls(operation, together, place.name):
        program.choices.kept(shown, rounds)
        return _kept(reader, operation, operands, outs, frame, rounds)
    own, _ = label(operation)
    block, backward = operation.regions[1].blocks[0], scopes.is_backward(place.name)

    def round_(number: int, values: Values) -> Frame | None:
        if number == rounds:
            return None
        shown = rounds - 1 - number if backward else number  # the backward pass begins with the last round
        around = replace(place, name=f"{place.name}/{shown}", lines=frame.place.lines, within=own, rounds=together)
        scope = Scope(zip(block.arguments, values, strict=True), frame.values)
        return Frame(block, scope, around, operation, lambda found: round_(number + 1, found))

    first = round_(0, operands)
    assert first is not None
    return first


def _kept(reader: Reader, operation: Any, operands: Values, outs: Outs, frame: Frame, rounds: int) -> Values:
    """A loop as one operator, which costs as much as all of its rounds."""
    block, kept = operation.regions[1].blocks[0], reader.program.kept
    if operation not in kept:
        returned = list(block.operations)[-1].operation.operands
        pairs = zip(block.arguments, returned, operands, strict=True)
        given = [_any(value) if a != b else value for a, b, value in pairs]
        kept[operation] = _model(reader, block, given, frame, rounds)
    inner = kept[operation]
    flops, multiply_adds = arithmetic(inner)
    read = [value for each in operands if each for value in (each.slices if isinstance(each, Stack) else [each])]
    nest = Nest(
        {},
        [(None,) * len(value.shape) for value in read],
        [None if out is None else (None,) * len(out[0]) for out in outs],
        flops=rounds * flops,
        multiply_adds=rounds * multiply_adds,
    )
    return reader.builder.append("while", nest, read, outs, inside(operation, frame.place), repeats=(rounds, inner))


def _any(value: Value | None) -> Value | None:
    """A value that changes from round to round, so that nothing is known of it."""
    return replace(value, numbers=None, dense=True) if isinstance(value, Constant) else value


def _model(reader: Reader, block: Any, given: Values, frame: Frame, rounds: int) -> Model:
    """A model of a block alone."""
    if reader.depth == _DEEPEST:
        expected = f"expected at most {_DEEPEST} large loops and unknown branches within each other"
        raise InputError(reader.program.source, frame.place.name, expected)
    apart = reader.apart()
    scope = _Apart(given, block, frame.values, reader.builder, apart.builder)
    apart.walk(Frame(block, scope, replace(frame.place, rounds=min(rounds, 1))))
    return apart.builder.model


def branch(reader: Reader, operation: Any, condition: Value | None, frame: Frame) -> Frame:
    """The branch that is read: that of a constant condition, or that which the user names, or the dearer one."""
    reader.builder.model.unrolled = True
    place, regions = inside(operation, frame.place), operation.regions
    is_if = operation.name == "stablehlo.if"
    number = fixed(condition)
    if number is not None:
        taken = int(not number) if is_if else number if 0 <= number < len(regions) else len(regions) - 1
    else:
        taken = _decided(reader, operation, condition, place, frame)
    own, _ = label(operation)
    around = replace(frame.place, within=frame.place.within or own)
    return Frame(regions[taken].blocks[0], Scope((), frame.values), around, operation)


def _decided(reader: Reader, operation: Any, condition: Value | None, place: Place, frame: Frame) -> int:
    """The number of the region that the user names, or that has most arithmetic, and then moves most bytes.

    A branch of the backward pass has the condition of one of the forward pass, and takes the same region.
    """
    program, key = reader.program, (operation, place.name)
    if key in program.taken:
        return program.taken[key]
    count, is_if = len(operation.regions), operation.name == "stablehlo.if"
    alike = (reader.builder, condition.tensor, operation.name, count) if isinstance(condition, View) else key
    options = list(map(str, range(count)))
    if count == 2:
        options = ["then", "else"] if is_if else ["else", "then"]  # JAX makes an index of a condition
    plain = shown = "/".join(scopes.parts(place.name))
    while program.names.setdefault(shown, operation) != operation:
        shown = f"{plain}#{len(program.names) + 1}"
    chosen = program.choices.chosen(shown, options)
    if chosen is None:
        chosen = program.taken.get(alike)
    if chosen is None:
        models = [_model(reader, region.blocks[0], (), frame, frame.place.rounds) for region in operation.regions]
        chosen = max(range(count), key=lambda number: (*work(models[number]), -number))
        program.choices.dearer(shown, options[chosen])
    program.taken[key] = program.taken[alike] = chosen
    return chosen


def manual(reader: Reader, operation: Any, operands: Values, outs: Outs, frame: Frame) -> Frame:
    """A computation that says what each device of a mesh does: one device's part of it is read."""
    reader.builder.model.unrolled = True
    program, place = reader.program, inside(operation, frame.place)
    block = operation.regions[0].blocks[0]
    types = [program.types.of(argument.type, place.name) for argument in block.arguments]
    values = [view(reader.builder, *pair, place) for pair in zip(operands, types, strict=True)]
    program.choices.of_one_device("/".join(scopes.parts(place.name)))

    def finish(found: Values) -> Values:
        return [view(reader.builder, value, out, place) for value, out in zip(found, outs, strict=True)]

    own, _ = label(operation)
    around = replace(frame.place, within=frame.place.within or own)
    return Frame(block, Scope(zip(block.arguments, values, strict=True), frame.values), around, operation, None, finish)


def view(builder: Builder, value: Value | None, out: Any, place: Place) -> Value | None:
    """A device's part of a value, or the value of which it is a part; no byte moves."""
    if value is None or out is None or value.shape == out[0]:
        return value
    if isinstance(value, Constant):
        return Constant(out[0], out[1], value.dense)
    given = builder.joined(value, place)
    dims = tuple(f"d{i}" for i in range(len(out[0])))
    nest = Nest(dict(zip(dims, out[0], strict=True)), [(None,) * len(given.shape)], [dims], view=True)
    (found,) = builder.append("shard", nest, [given], [out], place)
    assert isinstance(found, View)
    return found
