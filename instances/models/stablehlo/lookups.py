"""The loops of operations on rows that indices name: `gather` and `scatter`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from shardmark.instances.models.model import Dims, Nest, Shape
from shardmark.instances.models.stablehlo.operation import Operation, names


def gather(operation: Operation) -> Nest:
    """Dimensions taken in full keep their loops; of looked-up dimensions, only the selected rows are read.

    Splitting a loop ``v`` leaves partial sums, as a device contributes zeros for rows of other devices.
    """
    from jaxlib.mlir.dialects import stablehlo

    table, indices = operation.operands[:2]
    result = operation.results[0]
    numbers = stablehlo.GatherDimensionNumbers(operation.attributes["dimension_numbers"])
    sizes = operation.integers("slice_sizes") or [1] * len(table)
    dims = names("d", result)
    offsets = set(numbers.offset_dims)
    listed = [dim for i, dim in enumerate(dims) if i not in offsets]
    second = spread(indices, numbers.index_vector_dim, listed)
    loops = dict(zip(dims, result, strict=True))
    first: list[str | None] = [None] * len(table)
    inner = iter(sorted(offsets))
    paired = dict(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True))
    for i, size in enumerate(table):
        if i in paired:
            first[i] = second[paired[i]]
        elif i not in numbers.collapsed_slice_dims:
            dim = dims[next(inner)]
            first[i] = dim if sizes[i] == size else None
        elif i in numbers.start_index_map:
            first[i] = f"v{i}"
            loops[f"v{i}"] = size
    return Nest(loops, [tuple(first), second], [tuple(dims)], numbers={0: min(math.prod(table), math.prod(result))})


def scatter(operation: Operation) -> Nest:
    """Splitting an updated dimension is free, as a device skips the rows of other devices.

    Updates may be split if they are added to a constant, so that no other value is added more than once.
    """
    from jaxlib.mlir.dialects import stablehlo

    count = len(operation.results)
    target, indices, updates = operation.operands[0], operation.operands[count], operation.operands[count + 1]
    numbers = stablehlo.ScatterDimensionNumbers(operation.attributes["scatter_dimension_numbers"])
    window = set(numbers.update_window_dims)
    dims, third = names("d", target), names("u", updates)
    second = spread(indices, numbers.index_vector_dim, [dim for i, dim in enumerate(third) if i not in window])
    inner = iter(sorted(window))
    paired = dict(zip(numbers.input_batching_dims, numbers.scatter_indices_batching_dims, strict=True))
    renamed: dict[str | None, str | None] = {}
    for i, size in enumerate(target):
        if i in paired:
            renamed[second[paired[i]]] = dims[i]
        elif i not in numbers.inserted_window_dims:
            at = next(inner)
            renamed[third[at]] = dims[i] if updates[at] == size else None
    update = tuple(renamed.get(dim, dim) for dim in third)
    loops = dict(zip(dims, target, strict=True))
    summed = {dim: size for dim, size in zip(third, updates, strict=True) if dim in update}
    sums = operation.body <= 1 and all(operation.generated[:count])
    reads: list[Dims] = [tuple(dims)] * count
    reads += [tuple(renamed.get(dim, dim) for dim in second), *[update] * count]
    whole = frozenset() if sums else frozenset(summed)
    flops = math.prod(updates) * count * operation.body
    return Nest({**loops, **summed}, reads, [tuple(dims)] * count, flops, whole=whole)


def spread(indices: Shape, vector: int, listed: Sequence[str]) -> Dims:
    """Loops over an array of indices: ``listed`` in their order, none over the dimension of a single index's parts."""
    ahead = iter(listed)
    return tuple(None if i == vector else next(ahead) for i in range(len(indices)))
