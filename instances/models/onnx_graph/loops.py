"""The loops of ONNX operators: which loop runs over each dimension of what they read and write.

`nest_of` applies the rule of an operator type. Loops are named by their part in the operator: ``d0``, ``d1``, ... run
over the dimensions of the first output, and the others over what is summed:

=================  ==================================================================================================
matrix products    ``b`` batch, ``m`` rows of the left factor, ``n`` columns of the right one, ``k`` summed
convolutions       ``n`` batch, ``g`` groups of channels, ``o`` and ``i`` channels, ``x`` output positions, ``k``
                   positions of the kernel
reductions         ``r`` reduced dimensions
pooling            ``w`` positions of the window
=================  ==================================================================================================

Loops that no split may cut are those over positions that windows overlap, and over dimensions that an operator
normalises, sorts or accumulates along. Arithmetic counts 1 per number of the result for an elementwise operator,
whatever it computes; moving, selecting and converting numbers counts 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from instances.models.onnx_graph.call import (
    Call,
    Dims,
    Nest,
    Shape,
    Unfit,
    count,
    everything,
    loops_of,
    names,
    over,
    unknown,
)

Rule = Callable[[Call], Nest]


def nest_of(call: Call) -> Nest:
    """The loops of a node; ``known`` is False if no rule has its type. Raises Unfit if it contradicts its type."""
    rule = RULES.get(call.kind)
    if rule is None:
        return unknown(call)
    try:
        return rule(call)
    except (IndexError, KeyError, ValueError, TypeError, ZeroDivisionError) as error:
        if isinstance(error, Unfit):
            raise
        raise Unfit(f"expected inputs, outputs and attributes of {call.kind}") from error


def per_number(flops: int) -> Rule:
    """The rule of operators that take so many operations for every number of the result; inputs are broadcast."""

    def rule(call: Call) -> Nest:
        loops = loops_of(call.result)
        dims = tuple(loops)
        reads = [over(shape, dims, loops) for shape in call.inputs]
        writes = [None if shape is None else dims for shape in call.outputs]
        terms = max(len(call.inputs) - 1, 1) if call.kind in _VARIADIC else 1
        return Nest(loops, reads, writes, flops * terms * count(call.result))

    return rule


def along(flops: int, axis: int) -> Rule:
    """The rule of operators that take so many operations per number, along a dimension that has to stay whole."""

    def rule(call: Call) -> Nest:
        shape = call.shape(0)
        loops = loops_of(shape)
        dims = tuple(loops)
        first = call.axis(1 if call.version < 13 and axis == -1 else axis, len(shape))
        whole = dims[first:] if call.version < 13 and axis == -1 else dims[first : first + 1]
        reads = [dims, *(everything(other) for other in call.inputs[1:])]
        writes = [None if other is None else dims for other in call.outputs]
        return Nest(loops, reads, writes, flops * count(shape), whole=frozenset(whole))

    return rule


def view(call: Call) -> Nest:
    """Dimensions that survive keep their loop; of dimensions that merge or split, the outermost does."""
    before, after = call.shape(0), call.result
    if math.prod(before) != math.prod(after):
        raise Unfit(f"expected {math.prod(before)} numbers in the result, found {math.prod(after)}")
    read: list[str | None] = [None] * len(before)
    written: list[str | None] = [None] * len(after)
    loops, whole = dict[str, int](), set[str]()
    for number, (left, right) in enumerate(_groups(before, after)):
        lead = f"d{number}"
        loops[lead] = math.gcd(before[left[0]], after[right[0]])
        read[left[0]] = written[right[0]] = lead
        rest = math.prod(before[i] for i in left) // loops[lead]
        if rest > 1:
            loops[f"rest{number}"] = rest
            whole.add(f"rest{number}")
    reads: list[Dims | None] = [tuple(read), *[None] * (len(call.inputs) - 1)]
    writes: list[Dims | None] = [None if shape is None else tuple(written) for shape in call.outputs]
    return Nest(loops, reads, writes, whole=frozenset(whole), view=True)


def _groups(before: Shape, after: Shape) -> list[tuple[list[int], list[int]]]:
    """Dimensions before and after a reshape, in the smallest groups of equal size; dimensions of size 1 in none."""
    ahead = [i for i, size in enumerate(before) if size != 1][::-1]
    behind = [i for i, size in enumerate(after) if size != 1][::-1]
    if math.prod(before) == 0:
        return []
    found = []
    while ahead and behind:
        left, right = [ahead.pop()], [behind.pop()]
        a, b = before[left[0]], after[right[0]]
        while a != b:
            if a < b:
                left.append(ahead.pop())
                a *= before[left[-1]]
            else:
                right.append(behind.pop())
                b *= after[right[-1]]
        found.append((left, right))
    return found


def transpose(call: Call) -> Nest:
    shape = call.shape(0)
    order = call.integers("perm", range(len(shape))[::-1])
    loops = loops_of(call.result)
    if sorted(order) != list(range(len(shape))) or len(loops) != len(shape):
        raise Unfit(f"expected perm to order {len(shape)} dimensions, found {order}")
    dims = tuple(loops)
    return Nest(loops, [tuple(dims[order.index(i)] for i in range(len(dims)))], [dims])


def matmul(call: Call) -> Nest:
    """Products as NumPy multiplies: factors of one dimension are a row and a column."""
    left, right = call.shape(0), call.shape(1)
    if not left or not right or left[-1] != right[max(len(right) - 2, 0)]:
        raise Unfit(f"expected matrices that can be multiplied, found {list(left)} and {list(right)}")
    rows, columns = left[-2:-1], right[-1:] if len(right) > 1 else ()
    batch = call.result[: len(call.result) - len(rows) - len(columns)]
    loops = loops_of(batch, "b") | dict(zip(("m",), rows, strict=False)) | dict(zip(("n",), columns, strict=False))
    loops["k"] = left[-1]
    m, n = tuple(loops.keys() & {"m"}), tuple(loops.keys() & {"n"})
    outer = names("b", batch)
    first = over(left[: len(left) - len(rows) - 1], outer, loops) or ()
    second = over(right[: len(right) - len(columns) - 1], outer, loops) or ()
    reads: list[Dims | None] = [(*first, *m, "k"), (*second, "k", *n)]
    reads += [everything(shape) for shape in call.inputs[2:]]
    multiply_adds = math.prod(loops.values())
    return Nest(loops, reads, [(*outer, *m, *n)], 2 * multiply_adds, multiply_adds)


def gemm(call: Call) -> Nest:
    left, right = call.shape(0), call.shape(1)
    if len(left) != 2 or len(right) != 2:
        raise Unfit("expected two matrices")
    first, second = ("m", "k"), ("k", "n")
    if call.attributes.get("transA", 0):
        first = ("k", "m")
    if call.attributes.get("transB", 0):
        second = ("n", "k")
    loops = dict(zip(first, left, strict=True)) | dict(zip(second, right, strict=True))
    if left[first.index("k")] != right[second.index("k")]:
        raise Unfit(f"expected matrices that can be multiplied, found {list(left)} and {list(right)}")
    loops = {name: loops[name] for name in ("m", "n", "k")}
    added = call.inputs[2] if len(call.inputs) > 2 else None
    reads: list[Dims | None] = [first, second, over(added, ("m", "n"), loops)][: len(call.inputs)]
    multiply_adds = math.prod(loops.values())
    flops = 2 * multiply_adds + (0 if added is None else count(call.result))
    return Nest(loops, reads, [("m", "n")], flops, multiply_adds)


def convolution(call: Call) -> Nest:
    """Positions stay whole unless the kernel is a single point."""
    image, kernel, result = call.shape(0), call.shape(1), call.result
    groups = int(call.attributes.get("group", 1))
    if not len(image) == len(kernel) == len(result) or groups < 1 or image[1] != groups * kernel[1]:
        raise Unfit(f"expected {groups} groups of channels, found {list(image)} and {list(kernel)}")
    loops = {"n": result[0], "g": groups, "o": kernel[0] // groups, "i": kernel[1]}
    whole = {"g"} if groups == 1 else {"o", "i"}
    o, i = ("o", "i") if groups == 1 else ("g", "g")
    read: list[str | None] = ["n", i]
    strides = call.integers("strides", [1] * (len(image) - 2))
    for number, (size, window, stride) in enumerate(zip(image[2:], kernel[2:], strides, strict=True)):
        x, k = f"x{number}", f"k{number}"
        loops[x], loops[k] = result[2 + number], window
        point = window == 1 and stride == 1 and size == loops[x]
        read.append(x if point else None)
        whole |= {k} if point else {x, k}
    if groups == 1:
        del loops["g"]
    multiply_adds = math.prod(loops.values())
    spatial = len(image) - 2
    xs = [f"x{number}" for number in range(spatial)]
    weight = (o, "i" if groups == 1 else None, *(f"k{number}" for number in range(spatial)))
    reads: list[Dims | None] = [tuple(read), weight]
    reads += [None if shape is None else (o,) for shape in call.inputs[2:]]
    flops = 2 * multiply_adds + (count(result) if len(call.inputs) > 2 else 0)
    return Nest(loops, reads, [("n", o, *xs)], flops, multiply_adds, frozenset(whole & loops.keys()))


def pooling(call: Call) -> Nest:
    """One operation per position of the window."""
    shape, result = call.shape(0), call.result
    window = call.integers("kernel_shape", shape[2:])
    loops = loops_of(result)
    dims = tuple(loops)
    loops |= loops_of(tuple(window), "w")
    whole = frozenset((*dims[2:], *names("w", window)))
    read = (*dims[:2], *[None] * (len(shape) - 2))
    writes: list[Dims | None] = [None if other is None else dims for other in call.outputs]
    return Nest(loops, [read], writes, count(result) * math.prod(window), whole=whole)


def global_pooling(call: Call) -> Nest:
    shape = call.shape(0)
    loops = loops_of(shape[:2]) | loops_of(shape[2:], "r")
    read = tuple(loops)
    return Nest(loops, [read], [(*read[:2], *[None] * (len(shape) - 2))], count(shape))


def batch_normalization(call: Call) -> Nest:
    """A multiplication and an addition per number, as every channel's factors are known before the model runs."""
    shape = call.shape(0)
    loops = loops_of(shape)
    dims = tuple(loops)
    channel: Dims = ("d1",) if len(shape) > 1 else (None,)
    reads: list[Dims | None] = [dims, *[channel] * (len(call.inputs) - 1)]
    writes: list[Dims | None] = [None if other is None else dims for other in call.outputs[:1]]
    writes += [None if other is None else channel for other in call.outputs[1:]]
    return Nest(loops, reads, writes, 2 * count(shape))


def local_response_normalization(call: Call) -> Nest:
    """A multiply-add per channel of the window, then a power, a product and a sum."""
    shape = call.shape(0)
    loops = loops_of(shape)
    size = min(int(call.attributes["size"]), shape[1])
    return Nest(loops, [tuple(loops)], [tuple(loops)], (2 * size + 3) * count(shape), whole=frozenset({"d1"}))


def concatenate(call: Call) -> Nest:
    loops = loops_of(call.result)
    dims = tuple(loops)
    axis = call.axis(1, len(dims))
    read = tuple(None if i == axis else dim for i, dim in enumerate(dims))
    return Nest(loops, [None if shape is None else read for shape in call.inputs], [dims])


def split(call: Call) -> Nest:
    shape = call.shape(0)
    loops = loops_of(shape)
    axis = call.axis(0, len(shape))
    loops.pop(f"d{axis}", None)
    dims = tuple(None if i == axis else f"d{i}" for i in range(len(shape)))
    reads: list[Dims | None] = [dims, *[None] * (len(call.inputs) - 1)]
    return Nest(loops, reads, [None if other is None else dims for other in call.outputs])


def reduction(call: Call) -> Nest:
    shape = call.shape(0)
    axes = call.axes(len(shape))
    if not axes:
        axes = [] if call.attributes.get("noop_with_empty_axes", 0) else list(range(len(shape)))
    dims = tuple(f"r{i}" if i in axes else f"d{i}" for i in range(len(shape)))
    kept = bool(call.attributes.get("keepdims", 1))
    written = tuple(None if dim[0] == "r" else dim for dim in dims if kept or dim[0] == "d")
    reads: list[Dims | None] = [dims, *[None] * (len(call.inputs) - 1)]
    flops = count(shape) * (2 if call.kind in ("ReduceL2", "ReduceSumSquare", "ReduceLogSumExp") else 1)
    return Nest(dict(zip(dims, shape, strict=True)), reads, [written], flops)


_VARIADIC = {"Sum", "Max", "Min", "Mean"}
_ARITHMETIC = """
    Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Celu Clip Cos
    Cosh Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less
    LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or Pow PRelu Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin
    Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Xor"""
_MOVES = "Cast CastLike Where Expand BitCast"
_VIEWS = "Dropout Flatten Identity Reshape Squeeze Unsqueeze"
_REDUCTIONS = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare"

RULES: dict[str, Rule] = {
    **dict.fromkeys(_ARITHMETIC.split(), per_number(1)),
    **dict.fromkeys(_MOVES.split(), per_number(0)),
    **dict.fromkeys(_VIEWS.split(), view),
    **dict.fromkeys((f"Reduce{name}" for name in _REDUCTIONS.split()), reduction),
    "AveragePool": pooling,
    "BatchNormalization": batch_normalization,
    "Concat": concatenate,
    "Conv": convolution,
    "Gemm": gemm,
    "GlobalAveragePool": global_pooling,
    "GlobalMaxPool": global_pooling,
    "LRN": local_response_normalization,
    "LogSoftmax": along(5, -1),
    "LpPool": pooling,
    "MatMul": matmul,
    "MaxPool": pooling,
    "Softmax": along(5, -1),
    "Split": split,
    "Transpose": transpose,
}
