"""Loops of operators on single elements, along a dimension, or over windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from shardmark.instances.models.model import Dims, Nest, Shape
from shardmark.instances.models.onnx_graph.call import Call, count, everything, loops_of, names, over

_VARIADIC = {"Sum", "Max", "Min", "Mean"}


def per_number(flops: int) -> Callable[[Call], Nest]:
    """The rule of operators with a number of operations per result element; inputs are broadcast."""

    def rule(call: Call) -> Nest:
        loops = loops_of(call.result)
        dims = tuple(loops)
        reads = [over(shape, dims, loops) for shape in call.inputs]
        terms = max(len(call.inputs) - 1, 1) if call.kind in _VARIADIC else 1
        return Nest(loops, reads, _all(call.outputs, dims), flops * terms * count(call.result))

    return rule


def unary(flops: int, *, tied: bool = False) -> Callable[[Call], Nest]:
    """The rule of operators on each element of the first input; every iteration needs the other inputs in full.

    If results are ``tied``, they depend on all elements, as a scale does, and no loop may be split.
    """

    def rule(call: Call) -> Nest:
        shape = call.shape(0)
        loops = loops_of(shape)
        reads = [tuple(loops), *map(everything, call.inputs[1:])]
        writes = [None if x is None else tuple(loops) if x == shape else everything(x) for x in call.outputs]
        unread = {1: 0} if call.kind == "CastLike" else {}  # of which only the data type counts
        whole = frozenset(loops) if tied else frozenset()
        return Nest(loops, reads, writes, flops * count(shape), whole=whole, numbers=unread)

    return rule


def generated(flops: int) -> Callable[[Call], Nest]:
    """The rule of operators whose result elements do not depend on inputs."""

    def rule(call: Call) -> Nest:
        loops = loops_of(call.result)
        return Nest(loops, [None] * len(call.inputs), _all(call.outputs, tuple(loops)), flops * count(call.result))

    return rule


def along(flops: int, default: int = -1, *, to_end: bool = False) -> Callable[[Call], Nest]:
    """The rule of operators with a number of operations per element, along dimensions that must not be split.

    It is the one of the attribute ``axis`` or of the second input; ``to_end`` adds those after it.
    """

    def rule(call: Call) -> Nest:
        shape = call.shape(0)
        loops = loops_of(shape)
        dims = tuple(loops)
        old = call.kind in ("Softmax", "LogSoftmax", "Hardmax") and call.version < 13  # flattened from axis 1
        axis = call.axis(1 if old else default, len(shape))
        whole = dims[axis:] if to_end or old else dims[axis : axis + 1]
        reads: list[Dims | None] = [dims]
        for other in call.inputs[1:]:
            fits = other is not None and to_end and len(other) <= len(shape)
            reads.append(over(other, dims, loops) if fits else everything(other))
        kept = tuple(None if dim in whole else dim for dim in dims)
        writes = [_kept(other, shape, dims, kept) for other in call.outputs]
        return Nest(loops, reads, writes, flops * count(shape), whole=frozenset(whole))

    return rule


def _kept(written: Shape | None, shape: Shape, dims: Dims, kept: Dims) -> Dims | None:
    """Loops over what is written: as over what is read, the same without some dimensions, or none at all."""
    if written is None or written == shape:
        return None if written is None else dims
    return kept if len(written) == len(shape) else everything(written)


def loss(flops: int) -> Callable[[Call], Nest]:
    """The rule of classification losses; classes are dimension 1."""

    def rule(call: Call) -> Nest:
        shape = call.shape(0)
        loops = loops_of(shape)
        dims = tuple(loops)
        rest = (*dims[:1], *dims[2:])
        reads: list[Dims | None] = [dims, rest, *[("d1",) if x is not None else None for x in call.inputs[2:]]]
        by_rank: dict[int, Dims] = {len(dims): dims, len(rest): rest, 0: ()}
        writes = [None if x is None else by_rank[len(x)] for x in call.outputs]
        return Nest(loops, reads, writes, flops * count(shape), whole=frozenset({"d1"}))

    return rule


def rotary_embedding(call: Call) -> Nest:
    """Three operations per element; sines and cosines are given per position, or looked up by position ids."""
    shape = call.shape(0)
    loops = loops_of(shape)
    dims = tuple(loops)
    place = (dims[0], dims[-2])
    reads: list[Dims | None] = [dims]
    for other in call.inputs[1:]:
        listed = other is not None and other[:2] == (shape[0], shape[-2])
        reads.append((*place, None)[: len(other)] if other is not None and listed else everything(other))
    return Nest(loops, reads, [dims], 3 * count(shape), whole=frozenset(dims[-1:]))


def cumulated(call: Call) -> Nest:
    """One operation per element, along the dimension that the second input names."""
    shape = call.shape(0)
    loops = loops_of(shape)
    axes = call.axes(len(shape))
    whole = tuple(loops) if axes is None else [f"d{axis}" for axis in axes]
    return Nest(loops, [tuple(loops), None], [tuple(loops)], count(shape), whole=frozenset(whole))


def per_channel(flops: int) -> Callable[[Call], Nest]:
    """The rule of a normalisation over positions with factors per channel; ``d1`` and the batch may be split."""

    def rule(call: Call) -> Nest:
        shape = call.shape(0)
        loops = loops_of(shape)
        dims = tuple(loops)
        reads = [dims, *(None if x is None else over(x, ("d1",), loops) for x in call.inputs[1:])]
        grouped = call.kind == "GroupNormalization"
        whole = frozenset(dims[1:] if grouped else dims[2:])
        return Nest(loops, reads, [dims], flops * count(shape), whole=whole)

    return rule


def batch_normalization(call: Call) -> Nest:
    """One multiplication and one addition per element, as every channel's factors are known in advance."""
    shape = call.shape(0)
    loops = loops_of(shape)
    dims = tuple(loops)
    whole = frozenset(dims) - {"d1"} if call.attributes.get("training_mode", 0) else frozenset()
    channel: Dims = ("d1",) if len(shape) > 1 else (None,)
    reads: list[Dims | None] = [dims, *[channel] * (len(call.inputs) - 1)]
    writes: list[Dims | None] = [
        None if x is None else channel if number else dims for number, x in enumerate(call.outputs)
    ]
    return Nest(loops, reads, writes, 2 * count(shape), whole=whole)


def local_response_normalization(call: Call) -> Nest:
    """A multiply-add per channel of the window, then a power, a product and a sum."""
    shape = call.shape(0)
    loops = loops_of(shape)
    size = min(int(call.attributes["size"]), shape[1])
    return Nest(loops, [tuple(loops)], [tuple(loops)], (2 * size + 3) * count(shape), whole=frozenset({"d1"}))


def mean_variance_normalization(call: Call) -> Nest:
    shape = call.shape(0)
    loops = loops_of(shape)
    whole = frozenset(f"d{axis}" for axis in call.axes(len(shape)) or (0, 2, 3))
    return Nest(loops, [tuple(loops)], [tuple(loops)], 5 * count(shape), whole=whole & loops.keys())


def quantization(flops: int) -> Callable[[Call], Nest]:
    """The rule of conversions from or to small integers; scales are one, one per index of an axis, or per block."""

    def rule(call: Call) -> Nest:
        shape = call.shape(0)
        loops = loops_of(shape)
        dims = tuple(loops)
        reads: list[Dims | None] = [dims]
        for other in call.inputs[1:]:
            if other is not None and len(other) == 1 and len(shape) > 1:
                reads.append(over(other, (dims[call.axis(1, len(shape))],), loops))
            elif other is not None and len(other) == len(shape):
                reads.append(tuple(d if a == b else None for d, a, b in zip(dims, shape, other, strict=True)))
            else:
                reads.append(everything(other))
        return Nest(loops, reads, _all(call.outputs, dims), flops * count(shape))

    return rule


def pooling(call: Call) -> Nest:
    """One operation per position of the window; positions are not split."""
    shape, result = call.shape(0), call.result
    window = call.integers("kernel_shape", shape[2:])
    loops = loops_of(result)
    dims = tuple(loops)
    loops |= loops_of(tuple(window), "w")
    whole = frozenset((*dims[2:], *names("w", window)))
    read = (*dims[:2], *[None] * (len(shape) - 2))
    reads: list[Dims | None] = [read, *map(everything, call.inputs[1:])]
    return Nest(loops, reads, _all(call.outputs, dims), count(result) * math.prod(window), whole=whole)


def global_pooling(call: Call) -> Nest:
    shape = call.shape(0)
    loops = loops_of(shape[:2]) | loops_of(shape[2:], "r")
    read = tuple(loops)
    return Nest(loops, [read], [(*read[:2], *[None] * (len(shape) - 2))], count(shape))


def reduction(call: Call) -> Nest:
    shape = call.shape(0)
    axes = call.axes(len(shape))
    if axes is None and len(call.inputs) > 1 and call.inputs[1] is not None:  # known only when the model runs
        return Nest({}, [everything(x) for x in call.inputs], [everything(x) for x in call.outputs], count(shape))
    if call.kind in ("ArgMax", "ArgMin"):
        axes = [call.axis(0, len(shape))]
    elif not axes:
        axes = [] if call.attributes.get("noop_with_empty_axes", 0) else list(range(len(shape)))
    dims = tuple(f"r{i}" if i in axes else f"d{i}" for i in range(len(shape)))
    kept = bool(call.attributes.get("keepdims", 1))
    written = tuple(None if dim[0] == "r" else dim for dim in dims if kept or dim[0] == "d")
    reads: list[Dims | None] = [dims, *[None] * (len(call.inputs) - 1)]
    flops = count(shape) * (2 if call.kind in ("ReduceL2", "ReduceSumSquare", "ReduceLogSumExp") else 1)
    whole = frozenset(dim for dim in dims if dim[0] == "r") if call.kind.startswith("Arg") else frozenset()
    return Nest(dict(zip(dims, shape, strict=True)), reads, [written], flops, whole=whole)


def top_k(call: Call) -> Nest:
    """One comparison per element and level of a heap of the greatest elements."""
    shape = call.shape(0)
    loops = loops_of(shape)
    axis = call.axis(-1, len(shape))
    written = tuple(None if i == axis else f"d{i}" for i in range(len(shape)))
    depth = max(call.result[axis] - 1, 0).bit_length() + 1
    reads: list[Dims | None] = [tuple(loops), *[None] * (len(call.inputs) - 1)]
    return Nest(loops, reads, _all(call.outputs, written), depth * count(shape), whole=frozenset({f"d{axis}"}))


def fourier(call: Call) -> Nest:
    """5 n log2 n operations per transform of length n; the last dimension has real and imaginary parts."""
    shape = call.shape(0)
    result = call.result
    axes = call.axes(len(shape), 2)
    if axes is None and len(call.inputs) > 2 and call.inputs[2] is not None:  # known only when the model runs
        return Nest({}, [everything(x) for x in call.inputs], [everything(result)], 5 * count(shape) * 8)
    axis = axes[0] if axes else call.axis(1 if call.version < 20 else -2, len(shape))
    loops = {f"d{i}": size for i, size in enumerate(result)}
    read = tuple(f"d{i}" if i != axis and size == result[i] else None for i, size in enumerate(shape))
    whole = frozenset({f"d{axis}", f"d{len(shape) - 1}"})
    flops = int(5 * count(shape[:-1]) * math.log2(max(shape[axis], 2)))
    reads: list[Dims | None] = [read, *[None] * (len(call.inputs) - 1)]
    return Nest(loops, reads, [tuple(loops)], flops, whole=whole)


def _all(shapes: Sequence[Shape | None], dims: Dims) -> list[Dims | None]:
    """The same loops over all that is written."""
    return [None if shape is None else dims for shape in shapes]
