"""Operators of PyTorch as operators of models: the same kind on inputs of the same shapes.

Products are alike if they have as many multiply-adds and operands of the same sizes, as exporters transpose weights and
merge dimensions. Everything else is alike if the shapes of its inputs are the same in any order.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from shardmark.instances.models.model import Model, Operator
from shardmark.plans.times.measured import Event, Shapes

#: A kind of computation and the shapes that tell it from others.
Signature = tuple[str, Hashable]

_PRODUCTS = {"mm", "bmm", "matmul", "linear"}
_WITH_BIAS = {"addmm", "baddbmm"}  # whose first operand is added
_CONVOLUTIONS = {"conv1d", "conv2d", "conv3d", "convolution", "_convolution", "cudnn_convolution"}

#: Kinds in ONNX and StableHLO by the names of PyTorch's operators.
KINDS = {
    "add": ("Add", "add"),
    "sub": ("Sub", "subtract"),
    "mul": ("Mul", "multiply"),
    "div": ("Div", "divide"),
    "neg": ("Neg", "negate"),
    "exp": ("Exp", "exponential"),
    "pow": ("Pow", "power"),
    "sqrt": ("Sqrt", "sqrt"),
    "rsqrt": ("Rsqrt", "rsqrt"),
    "erf": ("Erf", "erf"),
    "tanh": ("Tanh", "tanh"),
    "sigmoid": ("Sigmoid", "logistic"),
    "relu": ("Relu",),
    "gelu": ("Gelu",),
    "silu": ("Swish",),
    "softmax": ("Softmax",),
    "log_softmax": ("LogSoftmax",),
    "where": ("Where", "select"),
    "mean": ("ReduceMean",),
    "sum": ("ReduceSum", "reduce"),
    "layer_norm": ("LayerNormalization",),
    "rms_norm": ("RMSNormalization",),
    "batch_norm": ("BatchNormalization",),
    "group_norm": ("GroupNormalization",),
    "max_pool2d": ("MaxPool",),
    "avg_pool2d": ("AveragePool",),
    "adaptive_avg_pool2d": ("GlobalAveragePool",),
    "embedding": ("Gather", "gather"),
    "cat": ("Concat", "concatenate"),
    "transpose": ("Transpose", "transpose"),
    "permute": ("Transpose", "transpose"),
}


def signature_of(model: Model, operator: Operator) -> Signature:
    """The signature of a model's operator."""
    shapes = [model.tensors[access.tensor].shape for access in operator.reads]
    if operator.multiply_adds and operator.kind in ("Conv", "convolution"):
        return "convolution", (shapes[0], shapes[1])
    if operator.multiply_adds:
        return "product", (operator.multiply_adds, _sizes(shapes[:2]))
    return operator.kind, _unordered(shapes)


def signatures_of(event: Event) -> list[Signature]:
    """The signatures that an operator of PyTorch can have in a model; none for ranges, and for kinds not listed."""
    space, _, name = event.name.partition("::")
    shapes = event.shapes
    if space != "aten" or not shapes:
        return []
    if name in _CONVOLUTIONS and len(shapes) > 1:
        return [("convolution", (shapes[0], shapes[1]))]
    operands = shapes[1:] if name in _WITH_BIAS else shapes
    if name in _PRODUCTS | _WITH_BIAS and len(operands) > 1:
        number = _multiply_adds(name, *operands[:2])
        return [] if number is None else [("product", (number, _sizes(operands[:2])))]
    return [(kind, _unordered(shapes)) for kind in KINDS.get(name.rstrip("_"), ())]


def has_bias(event: Event) -> bool:
    """True for a product that also adds a bias."""
    if event.name == "aten::linear":
        return len(event.shapes or ()) > 2
    return event.name == "aten::addmm"


def _multiply_adds(name: str, left: tuple[int, ...], right: tuple[int, ...]) -> int | None:
    """Those of a product of two tensors; None unless both have two dimensions."""
    if len(left) < 2 or len(right) < 2:
        return None
    if name == "linear":
        return math.prod(left) * right[0]
    try:
        batch = np.broadcast_shapes(left[:-2], right[:-2])
    except ValueError:
        return None
    return math.prod(batch) * left[-2] * left[-1] * right[-1]


def _sizes(shapes: Iterable[Sequence[int]]) -> tuple[int, ...]:
    return tuple(sorted(map(math.prod, shapes)))


def _unordered(shapes: Iterable[tuple[int, ...]]) -> Shapes:
    """Shapes in any order; scalars are left out, as PyTorch passes them as numbers."""
    return tuple(sorted(shape for shape in shapes if shape))
