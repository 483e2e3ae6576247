"""Numbers of small constants, such as the counters of loops and the indices that follow from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from shardmark.instances.models.model import Shape
from shardmark.instances.models.stablehlo.values import Constant, Value

#: Elements of an array, at most, whose numbers are kept; equal elements count once.
SMALL = 1024

_COMPARISONS = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "GE": np.greater_equal,
    "GT": np.greater,
    "LE": np.less_equal,
    "LT": np.less,
}


def _divided(a: Any, b: Any) -> Any:
    """Quotients of integers are rounded towards zero."""
    return np.trunc(a / b) if np.issubdtype(a.dtype, np.integer) else a / b


_ELEMENTWISE: Mapping[str, Callable[..., Any]] = {
    "abs": np.abs,
    "add": np.add,
    "and": np.logical_and,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "convert": lambda x: x,
    "divide": _divided,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "negate": np.negative,
    "not": np.logical_not,
    "or": np.logical_or,
    "remainder": np.fmod,
    "select": np.where,
    "sign": np.sign,
    "subtract": np.subtract,
}


def numbers_of(kind: str, operation: Any, operands: Sequence[Value | None], shape: Shape, dtype: str) -> Any:
    """Numbers of an operation's only result, as `Constant` has them; None if they are unknown or too many."""
    given = [value.numbers if isinstance(value, Constant) else None for value in operands]
    if dtype not in np.sctypeDict or any(numbers is None for numbers in given):
        return None
    try:
        with np.errstate(all="ignore"):
            found = _result(kind, operation, given, shape)
        return None if found is None else np.asarray(found).astype(dtype)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):  # attributes that such operations lack
        return None


def _result(kind: str, operation: Any, given: Sequence[Any], shape: Shape) -> Any:
    small = math.prod(shape) <= SMALL
    if kind == "constant":
        return _stored(operation.attributes["value"], small)
    if kind == "iota" and small:
        axis = operation.attributes["iota_dimension"].value
        return np.indices(shape)[axis]
    if kind == "compare":
        return _COMPARISONS[str(operation.attributes["comparison_direction"]).split()[-1].rstrip(">")](*given)
    if kind in ("and", "or", "not") and any(x.dtype != bool for x in given):
        return None
    if kind in _ELEMENTWISE:
        return _ELEMENTWISE[kind](*given)
    if kind not in ("broadcast_in_dim", "dynamic_slice", "reshape"):
        return None
    if given[0].ndim == 0:
        return given[0]
    if kind == "reshape":
        return given[0].reshape(shape)
    if kind == "dynamic_slice":
        starts = [min(max(int(at), 0), size - n) for at, size, n in zip(given[1:], given[0].shape, shape, strict=True)]
        return given[0][tuple(slice(at, at + n) for at, n in zip(starts, shape, strict=True))]
    if not small:
        return None
    moved = [1] * len(shape)
    for size, dim in zip(given[0].shape, operation.attributes["broadcast_dimensions"], strict=True):
        moved[int(dim)] = size
    return np.broadcast_to(given[0].reshape(moved), shape)


def _stored(attribute: Any, small: bool) -> Any:
    """Numbers of MLIR's attribute."""
    if attribute.is_splat:
        return np.array(attribute.get_splat_value().value)
    return np.array(attribute) if small else None
