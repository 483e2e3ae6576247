"""Symbolic sizes of an ONNX file, and the numbers that the caller gives for them.

A size goes by its name, such as ``batch``. One without a name, which some exporters write as ``?`` or -1, goes by the
tensor and the axis, such as ``x.0``.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from shardmark.instances.catalog import near_miss
from shardmark.instances.errors import InputError

_NAMELESS = ("", "?")


def set_sizes(graph: Any, source: str, dims: Mapping[str, int]) -> None:
    """Replace symbolic sizes of a graph by numbers.

    Raises InputError for a name in ``dims`` that no size has, and if a size of an input has no number.
    """
    names = dict[str, str]()  # of sizes, to the tensor that has it first
    for value, axis, dimension in _open(graph):
        name = _name(value, axis, dimension)
        names.setdefault(name, value.name)
        if name in dims:
            dimension.dim_value = dims[name]
        elif name != dimension.dim_param:
            dimension.Clear()  # which shape inference may fill
    for name in dims:
        if not names:
            raise InputError(source, f"size {name}", "expected no such size, as the model's sizes are all numbers")
        if name not in names:
            expected = "expected the name of a size of the model, or TENSOR.AXIS for one without a name"
            raise InputError(source, f"size {name}", f"{expected}{near_miss(name, names)}")
    _require_numbers(graph, source)


def _require_numbers(graph: Any, source: str) -> None:
    """Raise InputError if a size of an input has no number."""
    stored = {tensor.name for tensor in graph.initializer}
    inputs = {value.name for value in graph.input} - stored
    missing = dict[str, str]()  # name of a size to the first input that has it
    for value, axis, dimension in _open(graph):
        if value.name in inputs:
            missing.setdefault(_name(value, axis, dimension), value.name)
    for name, tensor in missing.items():
        options = " ".join(f"--dim{'=' if name.startswith('-') else ' '}{shlex.quote(name)}=N" for name in missing)
        values = ", ".join(f"{name!r}: N" for name in missing)
        advice = f"pass {options}, or dims={{{values}}} in Python"
        raise InputError(source, f"tensor {tensor}", f"expected a number for its size {name}; {advice}")


def _open(graph: Any) -> Iterator[tuple[Any, int, Any]]:
    """Every size without a number: its value, axis and dimension; inputs come first."""
    for value in (*graph.input, *graph.output, *graph.value_info):
        for axis, dimension in enumerate(value.type.tensor_type.shape.dim):
            if not dimension.HasField("dim_value") or dimension.dim_value == -1:
                yield value, axis, dimension


def _name(value: Any, axis: int, dimension: Any) -> str:
    name = dimension.dim_param
    return f"{value.name}.{axis}" if name in _NAMELESS else str(name)
