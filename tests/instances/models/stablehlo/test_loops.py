"""Splitting a loop is right: JAX computes the halves of an operation, which together are the whole result."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from effort import Deferred
from read_models import read_stablehlo

from shardmark.instances.models.reshape import groups
from shardmark.instances.models.stablehlo.loops import nest_of
from shardmark.instances.models.stablehlo.operation import Operation

jax, jnp, lax = Deferred("jax"), Deferred("jax.numpy"), Deferred("jax.lax")


def draw(*shape, seed=0):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype("float32")


def dot(x, y, contract, batch):
    return lax.dot_general(x, y, (contract, batch))


def conv(x, w, *, stride=1, padding="SAME", **options):
    numbers = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, w, (stride, stride), padding, dimension_numbers=numbers, **options)


def pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def rows(table, indices):
    return lax.gather(
        table,
        indices,
        lax.GatherDimensionNumbers(offset_dims=(2,), collapsed_slice_dims=(0,), start_index_map=(0,)),
        (1, table.shape[1]),
        mode="promise_in_bounds",
    )


def added(indices, updates):
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=(2,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
    )
    zeros = jnp.zeros((6, updates.shape[-1]))
    return lax.scatter_add(zeros, indices, updates, numbers, mode="promise_in_bounds")


HEADS = draw(2, 4, 6, 2), draw(2, 8, 6, 2)
INDICES = np.array([[[0], [3]], [[5], [2]], [[2], [2]], [[1], [0]]], dtype="int32")
#: Name, function, its arguments, and how many of the loops can be split.
CASES = [
    ("add", lambda x, y: x + y, (draw(4, 6), draw(4, 6)), 2),
    ("scalar", lambda x, y: x * lax.broadcast_in_dim(y, x.shape, ()), (draw(4, 6), draw()), 2),
    ("broadcast", lambda x, y: x + lax.broadcast_in_dim(y, x.shape, (1,)), (draw(4, 6), draw(6)), 2),
    ("outer", lambda x, y: x + lax.broadcast_in_dim(y, x.shape, (0, 1)), (draw(4, 6), draw(4, 1)), 2),
    ("matmul", functools.partial(dot, contract=((1,), (0,)), batch=((), ())), (draw(4, 6), draw(6, 8)), 3),
    ("batched", functools.partial(dot, contract=((3,), (3,)), batch=((0, 2), (0, 2))), HEADS, 5),
    ("vector", functools.partial(dot, contract=((0,), (1,)), batch=((), ())), (draw(6), draw(4, 6)), 2),
    ("reduce", lambda x: jnp.sum(x, axis=(0, 2)), (draw(4, 6, 2),), 3),
    ("transpose", lambda x: jnp.transpose(x, (2, 0, 1)), (draw(4, 6, 2),), 3),
    ("concatenate", lambda x, y: jnp.concatenate([x, y], axis=1), (draw(4, 6), draw(4, 2)), 1),
    ("slice", lambda x: x[:, 1:3], (draw(4, 6),), 1),
    ("pad", lambda x: lax.pad(x, 0.0, ((0, 0, 0), (1, 1, 0))), (draw(4, 6),), 1),
    ("reverse", lambda x: lax.rev(x, (1,)), (draw(4, 6),), 1),
    ("sort", lambda x: lax.sort(x, dimension=1), (draw(4, 6),), 1),
    ("top_k", lambda x: lax.top_k(x, 3)[0], (draw(4, 6),), 1),
    ("cumsum", lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 6), (1, 1), ((0, 0), (5, 0))), (draw(4, 6),), 1),
    ("pool", pool, (draw(4, 6, 6, 2),), 2),
    ("convolution", conv, (draw(4, 6, 6, 2), draw(3, 3, 2, 8)), 3),
    ("pointwise", conv, (draw(4, 6, 6, 2), draw(1, 1, 2, 8)), 5),
    ("strided", functools.partial(conv, stride=2), (draw(4, 6, 6, 2), draw(3, 3, 2, 8)), 3),
    ("rows", rows, (draw(6, 8), INDICES), 3),
    ("added", added, (INDICES, draw(4, 2, 8)), 3),
    ("merge", lambda x: x.reshape(-1, *x.shape[2:]), (draw(4, 6, 8),), 2),
    ("divide", lambda x: x.reshape(-1, 3, *x.shape[1:]), (draw(12, 8),), 2),
]  # fmt: skip


@pytest.fixture
def operator_of(tmp_path):
    """The model of a function, and its only operator that is not a reversal."""

    def read(function, arguments):
        path = tmp_path / "operator.mlir"
        path.write_text(jax.jit(function).lower(*arguments).as_text(debug_info=True))
        model = read_stablehlo(path)
        (operator,) = [operator for operator in model.operators if operator.kind != "reverse"] or model.operators
        return model, operator

    return read


@pytest.mark.thorough(cases=6)
@pytest.mark.parametrize(("name", "function", "arguments", "count"), CASES, ids=[case[0] for case in CASES])
def test_halves_of_a_loop_make_the_whole(operator_of, name, function, arguments, count):
    model, operator = operator_of(function, arguments)
    assert operator.known
    (write,) = operator.writes[:1]
    expected, split = np.asarray(function(*arguments)), 0
    shape = model.tensors[write.tensor].shape
    uses = [a.dims for a in operator.reads]
    assert len(uses) == len(arguments)
    for loop, trips in operator.loops.items():
        if loop in operator.whole or trips % 2 or loop.startswith("v"):
            continue
        moved = [axis_of(dims, loop, np.shape(x), trips) for dims, x in zip(uses, arguments, strict=True)]
        out = axis_of(write.dims, loop, shape, trips)
        if all(axis is None for axis in moved):
            assert out is not None  # every device computes its part from whole operands
            continue
        halves = [function(*halved(arguments, moved, half)) for half in range(2)]
        whole = np.concatenate(halves, axis=out) if out is not None else halves[0] + halves[1]
        np.testing.assert_allclose(whole, expected)
        split += 1
    assert split == count


def axis_of(dims, loop, shape, trips):
    """The dimension that a loop splits, as plans take it."""
    return next((i for i, dim in enumerate(dims) if dim == loop and shape[i] % trips == 0), None)


def halved(arguments, axes, half):
    return [x if axis is None else np.split(x, 2, axis)[half] for x, axis in zip(arguments, axes, strict=True)]


def test_a_table_is_split_by_rows_and_leaves_partial_sums(operator_of):
    _, operator = operator_of(rows, (draw(12, 8), INDICES))
    assert operator.loops["v0"] == 12
    assert all("v0" not in access.dims for access in operator.writes)
    assert operator.reads[0].dims == ("v0", "d2")
    assert operator.reads[0].numbers == 4 * 2 * 8


def test_arithmetic_of_convolutions(operator_of):
    """A strided convolution, its two gradients, and groups of channels: by hand."""
    image, kernel = draw(4, 8, 8, 2), draw(3, 3, 2, 6)
    strided = functools.partial(conv, stride=2)
    assert operator_of(strided, (image, kernel))[1].multiply_adds == 4 * 4 * 4 * 6 * 2 * 9
    out = strided(image, kernel)

    def of_kernel(g, x):
        return jax.linear_transpose(lambda w: strided(x, w), kernel)(g)[0]

    def of_image(g, w):
        return jax.linear_transpose(lambda x: strided(x, w), image)(g)[0]

    assert operator_of(of_kernel, (np.asarray(out), image))[1].multiply_adds == 4 * 4 * 4 * 6 * 2 * 9
    assert operator_of(of_image, (np.asarray(out), kernel))[1].multiply_adds == 4 * 4 * 4 * 6 * 2 * 9
    depthwise = functools.partial(conv, feature_group_count=2)
    _, operator = operator_of(depthwise, (image, draw(3, 3, 1, 2)))
    assert operator.multiply_adds == 4 * 8 * 8 * 2 * 9
    assert operator.reads[0].dims[3] == operator.writes[0].dims[3] == "o"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((4, 6), (24,), [([0, 1], [0])]),
        ((24,), (4, 6), [([0], [0, 1])]),
        ((4, 1, 6), (4, 6, 1), [([0], [0]), ([2], [1])]),
        ((2, 6, 5), (4, 3, 5), [([0, 1], [0, 1]), ([2], [2])]),
        ((0, 4), (4, 0), []),
        ((), (1,), []),
    ],
)
def test_dimensions_of_a_reshape_are_grouped(before, after, expected):
    assert groups(before, after) == expected
    assert all(math.prod(before[i] for i in a) == math.prod(after[i] for i in b) for a, b in expected)


def test_an_operation_without_a_rule_is_unknown():
    nest = nest_of(Operation("frobnicate", ((2, 3),), ((3,),)))
    assert (nest.known, nest.reads, nest.writes) == (False, [(None, None)], [(None,)])
