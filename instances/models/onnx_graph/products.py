"""Loops of matrix products, convolutions, recurrences and attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from shardmark.instances.models.model import Dims, Nest
from shardmark.instances.models.onnx_graph.call import Call, Unfit, count, everything, loops_of, names, over


def matmul(call: Call) -> Nest:
    """Matrix products with NumPy's rules: one-dimensional factors are a row and a column."""
    left, right = call.shape(0), call.shape(1)
    if not left or not right or left[-1] != right[max(len(right) - 2, 0)]:
        raise Unfit(f"expected matrices that can be multiplied, found {list(left)} and {list(right)}")
    rows, columns = left[-2:-1], right[-1:] if len(right) > 1 else ()
    batch = call.result[: len(call.result) - len(rows) - len(columns)]
    m, n = ("m",) * len(rows), ("n",) * len(columns)
    loops = {**loops_of(batch, "b"), **dict(zip((*m, *n), (*rows, *columns), strict=True)), "k": left[-1]}
    outer = names("b", batch)
    first = over(left[: len(left) - len(rows) - 1], outer, loops) or ()
    second = over(right[: len(right) - len(columns) - 1], outer, loops) or ()
    multiply_adds = math.prod(loops.values())
    reads: list[Dims | None] = [(*first, *m, "k"), (*second, "k", *n)]
    reads += [everything(shape) for shape in call.inputs[2:]]
    return Nest(loops, reads, [(*outer, *m, *n)], 2 * multiply_adds, multiply_adds)


def gemm(call: Call) -> Nest:
    left, right = call.shape(0), call.shape(1)
    first = ("k", "m") if call.attributes.get("transA", 0) else ("m", "k")
    second = ("n", "k") if call.attributes.get("transB", 0) else ("k", "n")
    if len(left) != 2 or len(right) != 2 or left[first.index("k")] != right[second.index("k")]:
        raise Unfit(f"expected matrices that can be multiplied, found {list(left)} and {list(right)}")
    sizes = dict(zip((*first, *second), (*left, *right), strict=True))
    loops = {name: sizes[name] for name in ("m", "n", "k")}
    added = call.inputs[2] if len(call.inputs) > 2 else None
    multiply_adds = math.prod(loops.values())
    flops = 2 * multiply_adds + (0 if added is None else count(call.result))
    reads: list[Dims | None] = [first, second, over(added, ("m", "n"), loops)]
    return Nest(loops, reads, [("m", "n")], flops, multiply_adds)


def convolution(call: Call) -> Nest:
    """Positions are not split unless the kernel is a single point."""
    image, kernel, result = call.shape(0), call.shape(1), call.result
    groups = int(call.attributes.get("group", 1))
    if not 2 < len(image) == len(kernel) == len(result) or groups < 1 or image[1] != groups * kernel[1]:
        raise Unfit(f"expected channels in {groups} groups, found {list(image)} and {list(kernel)}")
    loops = _channels(result[0], groups, kernel[0] // groups, kernel[1])
    o, i = ("o", "i") if groups == 1 else ("g", "g")
    whole = set[str]() if groups == 1 else {"o", "i"}
    strides = call.integers("strides", [1] * (len(image) - 2))
    read: list[str | None] = ["n", i]
    for number, (size, window, stride) in enumerate(zip(image[2:], kernel[2:], strides, strict=True)):
        x, k = f"x{number}", f"k{number}"
        loops[x], loops[k] = result[2 + number], window
        point = window == 1 and stride == 1 and size == loops[x]
        read.append(x if point else None)
        whole |= {k} if point else {x, k}
    multiply_adds = math.prod(loops.values())
    weight = (o, "i" if groups == 1 else None, *names("k", kernel[2:]))
    reads: list[Dims | None] = [tuple(read), weight, *_biases(call, o)]
    flops = 2 * multiply_adds + (count(result) if len(call.inputs) > 2 else 0)
    return Nest(loops, reads, [("n", o, *names("x", image[2:]))], flops, multiply_adds, frozenset(whole))


def deformable_convolution(call: Call) -> Nest:
    """A convolution with offsets of positions; groups of channels share offsets, so inputs are not split."""
    nest = convolution(call)
    reads = [*nest.reads[:2], *(None if x is None else ("n", None, None, None) for x in call.inputs[2:])]
    if len(call.inputs) > 3:
        reads[3] = None if call.inputs[3] is None else everything(call.inputs[3])
    return replace(nest, reads=reads, whole=frozenset(nest.loops) - {"n"})


def transposed_convolution(call: Call) -> Nest:
    """Every image element is multiplied with every kernel element of its channel; positions are not split."""
    image, kernel, result = call.shape(0), call.shape(1), call.result
    groups = int(call.attributes.get("group", 1))
    if not 2 < len(image) == len(kernel) == len(result) or groups < 1 or image[1] != kernel[0]:
        raise Unfit(f"expected equal numbers of channels in image and kernel, found {list(image)} and {list(kernel)}")
    loops = _channels(image[0], groups, kernel[1], kernel[0] // groups)
    o, i = ("o", "i") if groups == 1 else ("g", "g")
    positions = {**loops_of(image[2:], "x"), **loops_of(kernel[2:], "k")}
    loops |= positions
    whole = frozenset(positions) | (frozenset() if groups == 1 else {"o", "i"})
    multiply_adds = math.prod(loops.values())
    weight = (i, "o" if groups == 1 else None, *names("k", kernel[2:]))
    reads: list[Dims | None] = [("n", i, *names("x", image[2:])), weight, *_biases(call, o)]
    flops = 2 * multiply_adds + (count(result) if len(call.inputs) > 2 else 0)
    return Nest(loops, reads, [("n", o, *[None] * (len(image) - 2))], flops, multiply_adds, whole)


def _channels(batch: int, groups: int, outputs: int, inputs: int) -> dict[str, int]:
    return {"n": batch, **({"g": groups} if groups > 1 else {}), "o": outputs, "i": inputs}


def _biases(call: Call, o: str) -> Sequence[Dims | None]:
    """Loops over what a convolution reads after image and kernel: numbers per channel, or all of it."""
    return [None if shape is None else (o,) if len(shape) == 1 else everything(shape) for shape in call.inputs[2:]]


def factors_at(rule: Callable[[Call], Nest], *positions: int) -> Callable[[Call], Nest]:
    """The rule of a product whose factors are at other positions, between scales and zero points.

    A list of numbers after the second factor has one per output channel of a convolution, per column of a matrix.
    """

    def moved(call: Call) -> Nest:
        nest = rule(replace(call, inputs=[call.shape(position) for position in positions]))
        reads = list(map(everything, call.inputs))
        channel = 1 if rule is convolution else len(call.result) - 1
        for position, shape in enumerate(call.inputs):
            if shape == (call.result[channel],) and position > 1:
                reads[position] = ((nest.writes[0] or ())[channel],)
        for position, dims in zip(positions, nest.reads, strict=False):
            reads[position] = dims
        return Nest(nest.loops, reads, nest.writes, nest.flops, nest.multiply_adds, nest.whole)

    return moved


def einsum(call: Call) -> Nest:
    """A loop per letter, and per dimension that an ellipsis stands for."""
    equation = call.attributes["equation"].decode().replace(" ", "")
    terms, _, result = equation.partition("->")
    shapes = [call.shape(index) for index in range(len(call.inputs))]
    inputs = [_loop_names(term, len(shape)) for term, shape in zip(terms.split(","), shapes, strict=True)]
    letters = [letter for term in inputs for letter in term]
    if "->" in equation:
        output = _loop_names(result, len(call.result))
    else:
        output = sorted(x for x in set(letters) if x.startswith("e")) + sorted(
            x for x in letters if not x.startswith("e") and letters.count(x) == 1
        )
    loops = dict[str, int]()
    for term, shape in zip(inputs, shapes, strict=True):
        for letter, size in zip(term, shape, strict=True):
            if 1 not in (size, loops.get(letter, size)) and loops.get(letter, size) != size:
                raise Unfit(f"expected one size of {letter.removeprefix('l')} in {equation}")
            loops[letter] = max(size, loops.get(letter, size))
    reads: list[Dims | None] = [
        tuple(
            letter if loops[letter] == size and term.count(letter) == 1 else None
            for letter, size in zip(term, shape, strict=True)
        )
        for term, shape in zip(inputs, shapes, strict=True)
    ]
    work = math.prod(loops.values())
    multiply_adds = work * (len(inputs) - 1)
    repeated = frozenset(letter for term in inputs for letter in term if term.count(letter) > 1)
    flops = 2 * multiply_adds if multiply_adds else work if set(letters) - set(output) else 0
    return Nest(loops, reads, [tuple(output)], flops, multiply_adds, repeated)


def _loop_names(term: str, rank: int) -> list[str]:
    """Names of the loops of a term: ``l`` and the letter, or ``e`` and a number for what an ellipsis stands for."""
    before, dots, after = term.partition("...")
    middle = rank - len(before) - len(after) if dots else 0
    named = [f"l{x}" for x in before] + [f"e{middle - i}" for i in range(middle)] + [f"l{x}" for x in after]
    if middle < 0 or len(named) != rank:
        raise Unfit(f"expected {rank} dimensions in {term}")
    return named


def recurrence(gates: int) -> Callable[[Call], Nest]:
    """The rule of networks with a hidden state, which every step needs in full."""

    def rule(call: Call) -> Nest:
        given, weights, states = call.shape(0), call.shape(1), call.shape(2)
        if not len(given) == len(weights) == len(states) == 3 or weights[1] != states[1] or weights[2] != given[2]:
            raise Unfit(f"expected weights that fit, found {[list(shape) for shape in (given, weights, states)]}")
        first = bool(call.attributes.get("layout", 0))
        hidden = states[2]
        loops = {"t": given[int(first)], "b": given[int(not first)], "d": weights[0]}
        steps = math.prod(loops.values())
        loops |= {"o": gates * hidden, "i": weights[2] + hidden}
        read = ("b", "t", None) if first else ("t", "b", None)
        state = ("b", "d", None) if first else ("d", "b", None)
        result = ("b", "t", "d", None) if first else ("t", "d", "b", None)
        reads: list[Dims | None] = [read]
        for position, shape in enumerate(call.inputs[1:], 1):
            dims = {4: ("b",), 5: state, 6: state}.get(position, ("d", *[None] * (len(shape or ()) - 1)))
            reads.append(None if shape is None else dims)
        writes = [
            None if shape is None else dims for shape, dims in zip(call.outputs, (result, state, state), strict=False)
        ]
        multiply_adds = math.prod(loops.values())
        flops = 2 * multiply_adds + 3 * steps * gates * hidden
        return Nest(loops, reads, writes, flops, multiply_adds, frozenset({"t", "o", "i"}))

    return rule


def attention(call: Call) -> Nest:
    """Two products per head, with a softmax between them: queries, heads and the batch may be split.

    Heads that share a key are ``r``; they and what the softmax and the products sum over stay whole.
    """
    query, key, value = call.shape(0), call.shape(1), call.shape(2)
    flat = len(query) == 3
    if flat:
        heads, shared = int(call.attributes["q_num_heads"]), int(call.attributes["kv_num_heads"])
        b, m, k, v = query[0], query[1], query[2] // heads, value[2] // shared
    else:
        (b, heads, m, k), shared, v = query, key[1], value[3]
    past = call.inputs[4] if len(call.inputs) > 4 else None
    n = key[-2] + (past[2] if past else 0)
    if heads % shared:
        raise Unfit(f"expected a multiple of {shared} heads, found {heads}")
    loops = {"b": b, "h": shared, "r": heads // shared, "m": m, "n": n, "k": k, "v": v}
    moving, still = (("b", "m", "h"), ("b", None, "h")) if flat else (("b", "h", "m", None), ("b", "h", None, None))
    cached = ("b", "h", None, None)
    mask: Dims = ("b", "h", "m", None) if len(call.inputs) > 3 and len(call.inputs[3] or ()) == 4 else ("b", "m", None)
    full = {"b": b, "h": heads, "m": m}
    reads: list[Dims | None] = [moving, still, still]
    for position, shape in enumerate(call.inputs[3:], 3):
        if shape is None:
            reads.append(None)
        elif position == 3:  # broadcast from its end
            ends = mask[len(mask) - len(shape) :]
            reads.append(tuple(x if x and full[x] == size else None for x, size in zip(ends, shape, strict=True)))
        else:
            reads.append(cached if len(shape) == 4 else ("b",))
    made: Sequence[Dims] = (moving, cached, cached, ("b", "h", "m", None))
    writes = [None if shape is None else dims for shape, dims in zip(call.outputs, made, strict=False)]
    multiply_adds = b * heads * m * n * (k + v)
    flops = 2 * multiply_adds + 6 * b * heads * m * n
    return Nest(loops, reads, writes, flops, multiply_adds, frozenset("rnkv"))
