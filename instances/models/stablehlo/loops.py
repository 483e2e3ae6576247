"""The loops of StableHLO operations: which loop runs over each dimension of the tensors that they read and write.

`nest_of` applies the rule of an operation's name. Loops are named by their part in the operation: ``d0``, ``d1``, ...
run over the dimensions of the first result, and the others over what is summed:

=====================  ==============================================================================================
``dot_general``        ``b`` batch, ``m`` free dimensions of the left, ``n`` of the right operand, ``k`` contracted
``convolution``        ``n`` batch, ``o`` and ``i`` channels, ``x`` output positions, ``k`` positions of the kernel
``reduce``             ``r`` reduced dimensions
``reduce_window``      ``w`` positions of the window
``gather``             ``v`` dimensions of the table that are looked up
``scatter``            ``u`` dimensions over which updates are listed
=====================  ==============================================================================================

Loops that must not be split are those over positions of overlapping windows, over sorted or transformed dimensions,
and over matrices that are factorised. Arithmetic counts 1 per result element, and 0 for moving, selecting and
converting elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from shardmark.instances.models.model import Dims, Nest, Shape
from shardmark.instances.models.reshape import reshaped
from shardmark.instances.models.stablehlo.lookups import gather, scatter
from shardmark.instances.models.stablehlo.operation import Operation, names, unknown
from shardmark.instances.models.stablehlo.products import convolution, dot_general

#: Arithmetic of one operation per result.
_ARITHMETIC = """
    abs add and atan2 cbrt ceil clamp compare complex cosine count_leading_zeros divide exponential
    exponential_minus_one floor imag is_finite log log_plus_one logistic maximum minimum multiply negate not or popcnt
    power real remainder round_nearest_afz round_nearest_even rsqrt shift_left shift_right_arithmetic
    shift_right_logical sign sine sqrt subtract tan tanh xor
    acos acosh asin asinh atan atanh bessel_i1e conj cosh digamma erf erf_inv erfc is_inf is_neg_inf is_pos_inf lgamma
    next_after polygamma sinh square zeta"""
ARITHMETIC = frozenset(_ARITHMETIC.split())
#: Numbers are only written again.
MOVES = frozenset({"bitcast_convert", "convert", "copy", "reduce_precision", "select"})


def nest_of(operation: Operation) -> Nest:
    """The loops of an operation; ``known`` is False if no rule has its name or its shapes."""
    rule = RULES.get(operation.kind)
    if rule is None:
        return unknown(operation)
    try:
        return rule(operation)
    except (IndexError, KeyError):  # a custom call by a known name, with other operands than that name has
        return unknown(operation)


def elementwise(operation: Operation) -> Nest:
    """Operands have the shape of the result, or are scalars."""
    result = operation.results[0]
    dims = tuple(names("d", result))
    if any(shape not in (result, ()) for shape in (*operation.operands, *operation.results)):
        return unknown(operation)
    reads = [dims if shape == result else () for shape in operation.operands]
    flops = math.prod(result) * len(operation.results) if operation.kind in ARITHMETIC else 0
    return Nest(dict(zip(dims, result, strict=True)), reads, [dims] * len(operation.results), flops)


def transpose(operation: Operation) -> Nest:
    result, order = operation.results[0], operation.integers("permutation") or []
    dims = names("d", result)
    return Nest(
        dict(zip(dims, result, strict=True)), [tuple(dims[order.index(i)] for i in range(len(dims)))], [tuple(dims)]
    )


def reshape(operation: Operation) -> Nest:
    """Kept dimensions keep their loops; if dimensions merge or split, the outermost one does."""
    (operand,), (result,) = operation.operands, operation.results
    found = reshaped(operand, result)
    return Nest(found.loops, [tuple(found.read)], [tuple(found.written)], whole=frozenset(found.whole), view=True)


def concatenate(operation: Operation) -> Nest:
    (result,), axis = operation.results, operation.integer("dimension", 0)
    dims = names("d", result)
    read = tuple(None if i == axis else dim for i, dim in enumerate(dims))
    return Nest(dict(zip(dims, result, strict=True)), [read] * len(operation.operands), [tuple(dims)])


def part(operation: Operation) -> Nest:
    """Slices, and pads: dimensions of the same size before and after keep their loop.

    The other operands, fill values or start positions, are read in full.
    """
    operand, result = operation.operands[0], operation.results[0]
    dims = names("d", result)
    read = tuple(dim if a == b else None for dim, a, b in zip(dims, operand, result, strict=True))
    others = [(None,) * len(shape) for shape in operation.operands[1:]]
    loops = dict(zip(dims, result, strict=True))
    fewer = min(math.prod(operand), math.prod(result))
    return Nest(loops, [read, *others], [tuple(dims)], numbers={0: fewer})


def dynamic_update_slice(operation: Operation) -> Nest:
    operand, update = operation.operands[:2]
    dims = names("d", operand)
    read = tuple(dim if a == b else None for dim, a, b in zip(dims, operand, update, strict=True))
    others = [(None,) * len(shape) for shape in operation.operands[2:]]
    return Nest(dict(zip(dims, operand, strict=True)), [tuple(dims), read, *others], [tuple(dims)])


def reverse(operation: Operation) -> Nest:
    (shape,), turned = operation.results, operation.integers("dimensions") or []
    dims = names("d", shape)
    whole = frozenset(dims[axis] for axis in turned)
    return Nest(dict(zip(dims, shape, strict=True)), [tuple(dims)], [tuple(dims)], whole=whole)


def along(attribute: str, flops: Callable[[Shape, int, Operation], int]) -> Callable[[Operation], Nest]:
    """The rule of operations along one dimension of equal shapes, which is not split."""

    def rule(operation: Operation) -> Nest:
        shape = operation.operands[0]
        if any(other != shape for other in (*operation.operands, *operation.results)):
            return unknown(operation)
        axis = operation.integer(attribute, len(shape) - 1) % max(len(shape), 1)
        dims = tuple(names("d", shape))
        return Nest(
            dict(zip(dims, shape, strict=True)),
            [dims] * len(operation.operands),
            [dims] * len(operation.results),
            flops(shape, axis, operation),
            whole=frozenset({dims[axis]}),
        )

    return rule


def sort_flops(shape: Shape, axis: int, operation: Operation) -> int:
    """Comparisons of a merge sort, each by as many operations as the region has."""
    return math.prod(shape) * max(shape[axis] - 1, 0).bit_length() * max(operation.body, 1)


def top_k(operation: Operation) -> Nest:
    (operand,), result = operation.operands, operation.results[0]
    dims = names("d", operand)
    write = (*dims[:-1], None)
    depth = max(result[-1] - 1, 0).bit_length() + 1
    loops = dict(zip(dims, operand, strict=True))
    return Nest(
        loops, [tuple(dims)], [write] * len(operation.results), math.prod(operand) * depth, whole=frozenset(dims[-1:])
    )


def fft(operation: Operation) -> Nest:
    """5 n log2 n operations per transform of n complex numbers, half of that for real ones."""
    result = operation.results[0]
    lengths = operation.integers("fft_length") or []
    dims = names("d", result)
    last = len(result) - len(lengths)
    read = tuple(dim if i < last else None for i, dim in enumerate(dims))
    size = math.prod(lengths)
    flops = int(5 * math.prod(result[:last]) * size * math.log2(max(size, 2)))
    if "R" in str(operation.attributes["fft_type"]).replace("FFT", ""):
        flops //= 2
    return Nest(dict(zip(dims, result, strict=True)), [read], [tuple(dims)], flops, whole=frozenset(dims[last:]))


def cholesky(operation: Operation) -> Nest:
    """n**3 / 3 operations per matrix."""
    shape = operation.operands[0]
    dims = tuple(names("d", shape))
    flops = math.prod(shape[:-1]) * shape[-1] ** 2 // 3
    return Nest(dict(zip(dims, shape, strict=True)), [dims], [dims], flops, whole=frozenset(dims[-2:]))


def triangular_solve(operation: Operation) -> Nest:
    """Right-hand sides are independent of each other; they are columns, or rows if the matrix is on the right."""
    matrix, sides = operation.operands
    dims = names("d", sides)
    left = "left_side" not in operation.attributes or bool(operation.attributes["left_side"].value)
    tied = dims[-2] if left else dims[-1]
    return Nest(
        dict(zip(dims, sides, strict=True)),
        [(*dims[:-2], None, None), tuple(dims)],
        [tuple(dims)],
        math.prod(sides) * matrix[-1],
        whole=frozenset({tied}),
    )


def random(operation: Operation) -> Nest:
    """Random numbers, ten operations each; the generator's state is small."""
    result = operation.results[-1]
    dims = tuple(names("d", result))
    reads = [(None,) * len(shape) for shape in operation.operands]
    writes = [(None,) * len(shape) for shape in operation.results[:-1]]
    return Nest(dict(zip(dims, result, strict=True)), reads, [*writes, dims], 10 * math.prod(result))


def reduce(operation: Operation) -> Nest:
    """Operands of one shape, and as many scalars as initial values."""
    count = len(operation.operands) // 2
    shape, reduced = operation.operands[0], set(operation.integers("dimensions") or [])
    kept = iter(range(len(shape)))
    dims = tuple(f"r{i}" if i in reduced else f"d{next(kept)}" for i in range(len(shape)))
    written = tuple(dim for i, dim in enumerate(dims) if i not in reduced)
    flops = math.prod(shape) * max(operation.body, 1)
    reads: list[Dims] = [dims] * count
    return Nest(dict(zip(dims, shape, strict=True)), reads + [()] * count, [written] * count, flops)


def reduce_window(operation: Operation) -> Nest:
    """Dimensions with overlapping windows are not split."""
    count = len(operation.operands) // 2
    shape, result = operation.operands[0], operation.results[0]
    window = operation.integers("window_dimensions") or []
    dims, over = names("d", result), names("w", result)
    single = [size == 1 and a == b for size, a, b in zip(window, shape, result, strict=True)]
    loops = dict(zip(dims, result, strict=True))
    loops.update((name, size) for name, size, one in zip(over, window, single, strict=True) if not one)
    read = tuple(dim if one else None for dim, one in zip(dims, single, strict=True))
    whole = frozenset(
        name for pair, one in zip(zip(dims, over, strict=True), single, strict=True) if not one for name in pair
    )
    flops = math.prod(result) * math.prod(window) * max(operation.body, 1)
    reads: list[Dims] = [read] * count
    return Nest(loops, reads + [()] * count, [tuple(dims)] * count, flops, whole=whole & loops.keys())


def select_and_scatter(operation: Operation) -> Nest:
    """The gradient of a pooling: one comparison per position of the window, one addition per number of the source."""
    operand, source, _ = operation.operands
    window = operation.integers("window_dimensions") or [1] * len(operand)
    dims = names("d", operand)
    single = [size == 1 and a == b for size, a, b in zip(window, operand, source, strict=True)]
    read = tuple(dim if one else None for dim, one in zip(dims, single, strict=True))
    whole = frozenset(dim for dim, one in zip(dims, single, strict=True) if not one)
    flops = math.prod(source) * (math.prod(window) + 1)
    return Nest(dict(zip(dims, operand, strict=True)), [tuple(dims), read, ()], [tuple(dims)], flops, whole=whole)


RULES: Mapping[str, Callable[[Operation], Nest]] = {
    **dict.fromkeys(ARITHMETIC | MOVES, elementwise),
    **dict.fromkeys(("slice", "dynamic_slice", "pad"), part),
    **dict.fromkeys(("dot", "dot_general"), dot_general),
    **dict.fromkeys(("rng", "rng_bit_generator"), random),
    "cholesky": cholesky,
    "concatenate": concatenate,
    "convolution": convolution,
    "dynamic_update_slice": dynamic_update_slice,
    "fft": fft,
    "gather": gather,
    "reduce": reduce,
    "reduce_window": reduce_window,
    "reshape": reshape,
    "reverse": reverse,
    "scatter": scatter,
    "select_and_scatter": select_and_scatter,
    "sort": along("dimension", sort_flops),
    "top_k": top_k,
    "transpose": transpose,
    "triangular_solve": triangular_solve,
}
