"""Shapes and data types of MLIR's types."""

from __future__ import annotations

import re
from typing import Any

from shardmark.instances.errors import InputError
from shardmark.instances.models.model import BITS, Shape

_TYPE = re.compile(r"tensor<((?:[0-9]+x)*)([A-Za-z][A-Za-z0-9]*(?:<f(?:32|64)>)?)>")
_DTYPES = {
    "i1": "bool",
    **{f"i{bits}": f"int{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"ui{bits}": f"uint{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "bf16": "bfloat16",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
    **{name.replace("float", "f").replace("_", "").lower(): name for name in BITS if re.match(r"float[48]_", name)},
}


class Types:
    """Types of tensors, each read once."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._known: dict[str, tuple[Shape, str] | None] = {}

    def of(self, kind: Any, place: str) -> tuple[Shape, str] | None:
        """Shape and data type; None for a token, which is no tensor. InputError for anything else."""
        text = str(kind)
        if text not in self._known:
            self._known[text] = self._read(kind, text, place)
        return self._known[text]

    def _read(self, kind: Any, text: str, place: str) -> tuple[Shape, str] | None:
        from jaxlib.mlir import ir

        match = _TYPE.fullmatch(text)
        if match is None and text.startswith("tensor<") and isinstance(kind, ir.RankedTensorType):
            if not kind.has_static_shape:
                expected = f"expected static shapes, found {text}: export with numbers for all sizes"
                raise InputError(self._source, place, expected)
            match = _TYPE.fullmatch(f"tensor<{''.join(f'{size}x' for size in kind.shape)}{kind.element_type}>")
        if match is None and text in ("!stablehlo.token", "!mhlo.token"):
            return None
        dtype = None if match is None else _DTYPES.get(match[2]) or _DTYPES.get(match[2].lower())
        if match is None or dtype is None:
            raise InputError(self._source, place, f"expected a tensor of numbers, found {text}")
        return tuple(map(int, match[1].split("x")[:-1])), dtype
