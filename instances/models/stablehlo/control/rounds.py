"""The number of rounds of a ``stablehlo.while`` whose counter grows by a constant up to a constant limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shardmark.instances.models.stablehlo.functions import callee_of

_LONGEST = 100  # operations that the counters of a loop may be traced through
_TURNED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "NE": "NE"}


@dataclass(frozen=True, slots=True)
class _Line:
    """An integer ``offset``, added to the argument with a number of the block if ``argument`` is not None."""

    argument: int | None
    offset: int


Known = Callable[[Any], int | None]


def rounds_of(loop: Any, known: Known, functions: Mapping[str, Any]) -> tuple[int, bool] | None:
    """The rounds of a loop, and whether it may end earlier, as another condition says; None if nothing limits them.

    ``known`` gives the integer of a value outside of the loop; None if it is unknown.
    """
    condition, body = (region.blocks[0] for region in loop.regions)
    tracer = _Tracer(known, functions)
    starts = [known(operand) for operand in loop.operands]
    ends = _terminator(body).operands
    parts, found, exact = [_terminator(condition).operands[0]], list[int](), True
    for part in parts:
        comparison: Any = part.owner if _is_result(part) else None
        kind = comparison.name if comparison else None
        if kind in ("stablehlo.and", "stablehlo.convert") and len(parts) < _LONGEST:
            parts += comparison.operands
            continue
        rounds = None
        if kind == "stablehlo.compare":
            direction = str(comparison.attributes["comparison_direction"]).split()[-1].rstrip(">")
            sides = [tracer.side(operand, condition, body, starts, ends) for operand in comparison.operands]
            if direction == "NE" and sides == [None, (0, 0)] and str(part.type) == str(comparison.operands[0].type):
                parts += comparison.operands[:1]  # a truth value that differs from false
                continue
            if None not in sides:
                rounds = _solved(direction, *sides)
        exact = exact and rounds is not None
        found += [] if rounds is None else [rounds]
    return (min(found), not exact) if found else None


class _Tracer:
    """Follows integers through additions, conversions and calls."""

    def __init__(self, known: Known, functions: Mapping[str, Any]) -> None:
        self._known, self._functions, self._left = known, functions, _LONGEST

    def side(self, value: Any, condition: Any, body: Any, starts: list[int | None], ends: Any) -> Any:
        """Value of a side of a comparison in the first round, and its growth per round; None if either is unknown."""
        line = self._line(value, condition)
        if line is None or line.argument is None:
            return None if line is None else (line.offset, 0)
        start, after = starts[line.argument], self._line(ends[line.argument], body)
        if start is None or after is None or after.argument != line.argument:
            return None
        return start + line.offset, after.offset

    def _line(self, value: Any, block: Any) -> _Line | None:
        """A value within a block as an argument plus an integer."""
        number, self._left = self._known(value), self._left - 1
        if number is not None or self._left < 0:
            return None if number is None else _Line(None, number)
        if not _is_result(value):
            return _Line(value.arg_number, 0) if value.owner == block else None
        operation = value.owner
        kind = operation.name.partition(".")[2]
        callee = self._functions.get(callee_of(operation) or "")
        if callee is not None and callee.regions[0].blocks:
            inner = callee.regions[0].blocks[0]
            line = self._line(_terminator(inner).operands[value.result_number], inner)
            if line is None or line.argument is None:
                return line
            outer = self._line(operation.operands[line.argument], block)
            return outer and _Line(outer.argument, outer.offset + line.offset)
        if kind == "constant":
            return _integer(operation)
        if kind in ("broadcast_in_dim", "convert", "optimization_barrier", "reshape"):
            return self._line(operation.operands[value.result_number], block)
        if kind not in ("add", "subtract"):
            return None
        a, b = (self._line(operand, block) for operand in operation.operands)
        if a is None or b is None or (b.argument is not None and (a.argument is not None or kind == "subtract")):
            return None
        sign = 1 if kind == "add" else -1
        return _Line(a.argument if b.argument is None else b.argument, a.offset + sign * b.offset)


def _is_result(value: Any) -> bool:
    from jaxlib.mlir import ir

    return isinstance(value, ir.OpResult)


def _terminator(block: Any) -> Any:
    return block.operations[len(block.operations) - 1].operation


def _integer(constant: Any) -> _Line | None:
    from jaxlib.mlir import ir

    value = constant.attributes["value"]
    if isinstance(value, ir.DenseIntElementsAttr) and value.is_splat:
        return _Line(None, int(value.get_splat_value().value))
    return None


def _solved(direction: str, left: tuple[int, int], right: tuple[int, int]) -> int | None:
    """Rounds until ``left[0] + k * left[1]`` no longer compares with ``right[0] + k * right[1]`` as stated."""
    distance, step = right[0] - left[0], left[1] - right[1]
    if direction in ("GT", "GE"):
        direction, distance, step = _TURNED[direction], -distance, -step
    if direction == "LE":
        direction, distance = "LT", distance + 1
    if direction == "NE":
        return distance // step if step and distance % step == 0 and distance // step >= 0 else None
    if direction != "LT":
        return None
    if distance <= 0:
        return 0
    return -(-distance // step) if step > 0 else None
