"""Loops of operators that move elements: views, transpositions, selections and copies."""

from __future__ import annotations

import math
from collections.abc import Iterable

from shardmark.instances.models.model import Dims, Nest, Shape
from shardmark.instances.models.onnx_graph.call import Call, Unfit, count, everything, loops_of
from shardmark.instances.models.reshape import reshaped


def view(call: Call) -> Nest:
    """Kept dimensions keep their loops; if dimensions merge or split, the outermost one does."""
    before, after = call.shape(0), call.result
    if math.prod(before) != math.prod(after):
        raise Unfit(f"expected {math.prod(before)} numbers in the result, found {math.prod(after)}")
    found = reshaped(before, after)
    reads: list[Dims | None] = [tuple(found.read), *[None] * (len(call.inputs) - 1)]
    writes: list[Dims | None] = [None if shape is None else tuple(found.written) for shape in call.outputs]
    return Nest(found.loops, reads, writes, whole=frozenset(found.whole), view=True)


def transpose(call: Call) -> Nest:
    shape = call.shape(0)
    order = call.integers("perm", range(len(shape))[::-1])
    loops = loops_of(call.result)
    if sorted(order) != list(range(len(shape))) or call.result != tuple(shape[i] for i in order):
        raise Unfit(f"expected {list(shape)} in the order {order}, found {list(call.result)}")
    dims = tuple(loops)
    return Nest(loops, [tuple(dims[order.index(i)] for i in range(len(dims)))], [dims])


def concatenate(call: Call) -> Nest:
    loops = loops_of(call.result)
    axis = call.axis(1, len(loops))
    read = tuple(None if i == axis else dim for i, dim in enumerate(loops))
    for shape in call.inputs:
        if shape is not None and [*shape[:axis], *shape[axis + 1 :]] != [*call.result[:axis], *call.result[axis + 1 :]]:
            raise Unfit(f"expected shapes that differ in dimension {axis} only, found {list(shape)}")
    return Nest(loops, [None if shape is None else read for shape in call.inputs], [tuple(loops)])


def split(call: Call) -> Nest:
    shape = call.shape(0)
    loops = loops_of(shape)
    axis = call.axis(0, len(shape))
    loops.pop(f"d{axis}", None)
    dims = tuple(None if i == axis else f"d{i}" for i in range(len(shape)))
    reads: list[Dims | None] = [dims, *[None] * (len(call.inputs) - 1)]
    return Nest(loops, reads, [None if other is None else dims for other in call.outputs])


def part(call: Call) -> Nest:
    """Slices, pads, tiles: dimensions of the same size before and after keep their loop, unless one is reversed."""
    shape, result = call.shape(0), call.result
    loops = loops_of(result)
    read: Dims = (None,) * len(shape)
    if len(shape) == len(result) and not _reverses(call):
        read = tuple(dim if a == b else None for dim, a, b in zip(loops, shape, result, strict=True))
    reads: list[Dims | None] = [read, *[None] * (len(call.inputs) - 1)]
    writes: list[Dims | None] = [None if other is None else tuple(loops) for other in call.outputs]
    return Nest(loops, reads, writes, numbers={0: min(count(shape), count(result))})


def _reverses(call: Call) -> bool:
    """True if a slice may go backwards, or a pad cut off what it adds elsewhere."""
    if call.kind == "Slice" and len(call.inputs) > 4 and call.inputs[4] is not None:
        return min(call.value(4) or [-1]) < 0
    if call.kind == "Pad":
        pads = call.attributes["pads"] if "pads" in call.attributes else call.value(1)
        return min(pads or [-1]) < 0
    return False


def resize(call: Call) -> Nest:
    """Resized dimensions are not split; linear interpolation mixes two elements per dimension, cubic four."""
    nest = part(call)
    changed = sum(dim is None for dim in nest.reads[0] or ())
    mode = call.attributes.get("mode", b"nearest")
    flops = {b"linear": 3, b"bilinear": 3, b"cubic": 7, b"bicubic": 7}.get(mode, 0) * changed * count(call.result)
    whole = frozenset(dim for dim, read in zip(nest.loops, nest.reads[0] or (), strict=False) if read is None)
    return Nest(nest.loops, nest.reads, nest.writes, flops, whole=whole)


def sampled(call: Call) -> Nest:
    """Every grid position mixes elements around a point of the image: two per dimension, or four."""
    image, grid = call.shape(0), call.shape(1)
    loops = loops_of(call.result)
    dims = tuple(loops)
    mode = call.attributes.get("mode", b"linear")
    flops = {b"nearest": 0, b"cubic": 7, b"bicubic": 7}.get(mode, 3) * (len(image) - 2) * count(call.result)
    read = (*dims[:2], *[None] * (len(image) - 2))
    if len(grid) != len(dims):
        raise Unfit(f"expected a grid of {len(dims)} dimensions, found {list(grid)}")
    return Nest(loops, [read, (dims[0], *dims[2:], None)], [dims], flops)


def reversed_sequences(call: Call) -> Nest:
    """Each sequence of a batch is reversed up to its own length."""
    shape = call.shape(0)
    loops = loops_of(shape)
    batch, steps = int(call.attributes.get("batch_axis", 1)), int(call.attributes.get("time_axis", 0))
    dims = tuple(loops)
    return Nest(loops, [dims, (dims[batch],)], [dims], whole=frozenset({dims[steps]}))


def blocks(call: Call) -> Nest:
    """Moves channels to positions or back: only the batch keeps its loop."""
    loops = {"d0": call.result[0]}
    dims: Dims = ("d0", None, None, None)
    return Nest(loops, [dims], [dims])


def gather(call: Call) -> Nest:
    """Dimensions taken in full keep their loops; of looked-up dimensions, only the selected rows are read.

    Splitting the loop ``v`` leaves partial sums, as a device contributes zeros for rows of other devices.
    """
    table, indices, result = call.shape(0), call.shape(1), call.result
    axis = call.axis(0, len(table))
    if result != (*table[:axis], *indices, *table[axis + 1 :]):
        raise Unfit(f"expected a result that fits {list(table)} and {list(indices)}, found {list(result)}")
    loops = loops_of(result)
    dims = tuple(loops)
    loops["v"] = table[axis]
    read = (*dims[:axis], "v", *dims[axis + len(indices) :])
    found = dims[axis : axis + len(indices)]
    return Nest(loops, [read, found], [dims], numbers={0: min(count(table), count(result))})


def gather_elements(call: Call) -> Nest:
    """Every index selects one element along an axis, which is not split."""
    table, indices = call.shape(0), call.shape(1)
    axis = call.axis(0, len(table))
    loops = loops_of(indices)
    read = _common(loops, table, indices, axis)
    numbers = {0: min(count(table), count(indices))}
    return Nest(loops, [read, tuple(loops)], [tuple(loops)], whole=frozenset({f"d{axis}"}), numbers=numbers)


def _common(loops: Iterable[str], a: Shape, b: Shape, axis: int) -> Dims:
    """The loops over dimensions of equal length, except along an axis."""
    dims = enumerate(zip(loops, a, b, strict=True))
    return tuple(dim if i != axis and x == y else None for i, (dim, x, y) in dims)


def gather_blocks(call: Call) -> Nest:
    """Every row of indices selects a block of the table."""
    table, indices, result = call.shape(0), call.shape(1), call.result
    loops = loops_of(result)
    dims = tuple(loops)
    batch = int(call.attributes.get("batch_dims", 0))
    tail = len(table) - batch - indices[-1]
    read = (*dims[:batch], *[None] * indices[-1], *dims[len(dims) - tail :])
    listed = (*dims[: len(indices) - 1], None)
    return Nest(loops, [read, listed], [dims], numbers={0: min(count(table), count(result))})


def scatter_elements(call: Call) -> Nest:
    """Every update goes to one place along an axis, which is not split."""
    table, updates = call.shape(0), call.shape(2)
    axis = call.axis(0, len(table))
    loops = loops_of(table)
    read = _common(loops, table, updates, axis)
    return Nest(loops, [tuple(loops), read, read], [tuple(loops)], _combined(call), whole=frozenset({f"d{axis}"}))


def scatter_blocks(call: Call) -> Nest:
    """Every row of indices is the target of a block of updates; the dimensions of a block may be split."""
    table, indices, updates = call.shape(0), call.shape(1), call.shape(2)
    loops = loops_of(table)
    dims = tuple(loops)
    fixed = indices[-1]
    block = dims[fixed:]
    read = (*[None] * (len(updates) - len(block)), *block)
    reads: list[Dims | None] = [dims, everything(indices), read]
    return Nest(loops, reads, [dims], _combined(call), whole=frozenset(dims[:fixed]))


def cache_update(call: Call) -> Nest:
    """Writes new entries into a cache of keys or values, along one dimension."""
    table, updates = call.shape(0), call.shape(1)
    axis = call.axis(-2, len(table))
    loops = loops_of(table)
    read = tuple(None if i == axis else dim for i, dim in enumerate(loops))
    reads: list[Dims | None] = [tuple(loops), read, *(None if x is None else ("d0",) for x in call.inputs[2:])]
    if len(updates) != len(table):
        raise Unfit("expected an update with the dimensions of the cache")
    return Nest(loops, reads, [tuple(loops)], whole=frozenset({f"d{axis}"}))


def _combined(call: Call) -> int:
    """An operation per update, unless it only replaces what was there."""
    return 0 if call.attributes.get("reduction", b"none") == b"none" else count(call.shape(2))


def one_hot(call: Call) -> Nest:
    """Adds a dimension in which one element of each row has the other value."""
    indices, result = call.shape(0), call.result
    loops = loops_of(result)
    axis = call.axis(-1, len(result))
    read = tuple(dim for i, dim in enumerate(loops) if i != axis)
    if len(read) != len(indices):
        raise Unfit("expected one dimension more in the result")
    return Nest(loops, [read, None, everything(call.inputs[2])], [tuple(loops)])
