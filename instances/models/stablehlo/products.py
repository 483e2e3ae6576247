"""The loops of products: `dot_general` and `convolution`."""

from __future__ import annotations

import math

from shardmark.instances.models.model import Nest
from shardmark.instances.models.stablehlo.operation import Operation, names


def dot_general(operation: Operation) -> Nest:
    from jaxlib.mlir.dialects import stablehlo

    left, right = operation.operands
    if "dot_dimension_numbers" in operation.attributes:
        numbers = stablehlo.DotDimensionNumbers(operation.attributes["dot_dimension_numbers"])
        batch = list(zip(numbers.lhs_batching_dimensions, numbers.rhs_batching_dimensions, strict=True))
        pairs = list(zip(numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions, strict=True))
    else:  # the older operation dot: vectors and matrices only
        batch, pairs = [], [(len(left) - 1, 0)]
    first, second = names("m", left), names("n", right)
    for prefix, joined in (("b", batch), ("k", pairs)):
        for number, (i, j) in enumerate(joined):
            first[i] = second[j] = f"{prefix}{number}"
    loops = {**dict(zip(first, left, strict=True)), **dict(zip(second, right, strict=True))}
    taken = {*(i for i, _ in batch), *(i for i, _ in pairs)}, {*(j for _, j in batch), *(j for _, j in pairs)}
    written = [first[i] for i, _ in batch]
    written += [dim for i, dim in enumerate(first) if i not in taken[0]]
    written += [dim for j, dim in enumerate(second) if j not in taken[1]]
    multiply_adds = math.prod(loops.values())
    return Nest(loops, [tuple(first), tuple(second)], [tuple(written)], 2 * multiply_adds, multiply_adds)


def convolution(operation: Operation) -> Nest:
    """Positions are not split unless the kernel is a single point; zeros of a dilation cost nothing."""
    from jaxlib.mlir.dialects import stablehlo

    image, kernel = operation.operands
    (result,) = operation.results
    numbers = stablehlo.ConvDimensionNumbers(operation.attributes["dimension_numbers"])
    here, there, out = (
        list(dims)
        for dims in (
            numbers.input_spatial_dimensions,
            numbers.kernel_spatial_dimensions,
            numbers.output_spatial_dimensions,
        )
    )
    features, batches = operation.integer("feature_group_count"), operation.integer("batch_group_count")
    channels = (kernel[numbers.kernel_input_feature_dimension], kernel[numbers.kernel_output_feature_dimension])
    loops = {"n": result[numbers.output_batch_dimension], "o": channels[1], "i": channels[0]}
    whole = set[str]()
    read: list[str | None] = [None] * len(image)
    weight: list[str | None] = [None] * len(kernel)
    written: list[str | None] = [None] * len(result)
    for number, (i, k, x) in enumerate(zip(here, there, out, strict=True)):
        loops[f"x{number}"], loops[f"k{number}"] = result[x], kernel[k]
        written[x], weight[k] = f"x{number}", f"k{number}"
        if kernel[k] == 1 and image[i] == result[x]:
            read[i] = f"x{number}"
        elif result[x] == 1 and image[i] == kernel[k]:
            read[i] = f"k{number}"
        else:
            whole |= {f"x{number}", f"k{number}"}
    grouped = "o" if channels[0] == 1 and image[numbers.input_feature_dimension] == channels[1] else None
    read[numbers.input_feature_dimension] = "i" if features == 1 else grouped
    read[numbers.input_batch_dimension] = "n" if batches == 1 else None
    weight[numbers.kernel_input_feature_dimension] = "i"
    weight[numbers.kernel_output_feature_dimension] = written[numbers.output_feature_dimension] = "o"
    written[numbers.output_batch_dimension] = "n"
    if features > 1:
        whole |= {"i"} if grouped else {"i", "o"}
    if batches > 1:
        whole |= {"n", "o"}
    multiply_adds = math.prod(loops.values()) // math.prod(operation.integers("lhs_dilation") or [1])
    reads = [tuple(read), tuple(weight)]
    return Nest(loops, reads, [tuple(written)], 2 * multiply_adds, multiply_adds, frozenset(whole))
