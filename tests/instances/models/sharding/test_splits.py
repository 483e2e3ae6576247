"""Splits of operators and the layouts that follow from them."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shardmark.instances.models.model import Access, Model
from shardmark.instances.models.sharding.mesh import Mesh
from shardmark.instances.models.sharding.splits import menu, nest

MESH = Mesh((2, 4), (1.0, 1.0), 0.0)


def product(m=16, n=8, k=24):
    model = Model()
    x = model.tensor("x", (m, k), "float32")
    w = model.tensor("w", (k, n), "float32", parameter=True)
    y = model.tensor("y", (m, n), "float32")
    loops = {"m": m, "n": n, "k": k}
    model.operator("y", "MatMul", [Access(x, ("m", "k")), Access(w, ("k", "n"))], [Access(y, ("m", "n"))], loops)
    return model


@given(
    trips=st.lists(st.integers(1, 48), max_size=4),
    whole=st.sets(st.integers(0, 3)),
    sizes=st.lists(st.integers(2, 6), min_size=1, max_size=3),
)
def test_menus_have_every_split_that_divides(trips, whole, sizes):
    splittable = [loop for loop in range(len(trips)) if loop not in whole]

    def divides(split):
        parts = [np.prod([s for s, x in zip(sizes, split, strict=True) if x == i]) for i in splittable]
        return all(trips[i] % part == 0 for i, part in zip(splittable, parts, strict=True))

    expected = [list(s) for s in itertools.product([-1, *splittable], repeat=len(sizes)) if divides(s)]
    mesh = Mesh(tuple(sizes), (1.0,) * len(sizes), 0.0)
    assert menu(np.array(trips, dtype=np.int64), splittable, mesh).tolist() == expected


def test_layouts_follow_from_splits():
    model = product()
    loops = nest(model, model.operators[0])
    (x, w), (y,) = loops.reads, loops.writes
    splits = np.array([[0, -1], [2, 1], [1, 1]])  # m; k and n; n twice
    assert x.layouts(splits).tolist() == [[0, -1], [1, -1], [-1, -1]]
    assert w.layouts(splits).tolist() == [[-1, -1], [0, 1], [1, 1]]
    assert y.layouts(splits).tolist() == [[0, -1], [-1, 1], [1, 1]]


def test_a_loop_over_blocks_splits_the_dimension_and_a_longer_one_does_not():
    model = Model()
    merged = model.tensor("merged", (64,), "float32")
    strided = model.tensor("strided", (10,), "float32")
    out = model.tensor("out", (16, 4), "float32")
    reads = [Access(merged, ("a",)), Access(strided, ("a",))]
    model.operator("out", "x", reads, [Access(out, ("a", "b"))], {"a": 16, "b": 4})
    loops = nest(model, model.operators[0])
    assert [use.loop_of.tolist() for use in loops.uses] == [[0], [-1], [0, 1]]


def test_an_operator_follows_a_layout_as_far_as_its_loops_divide():
    model = product(m=6)
    loops = nest(model, model.operators[0])
    x = loops.reads[0]
    layouts = np.array([[0, -1], [0, 0], [-1, 1], [1, 0]])
    assert loops.followed(x, layouts, MESH).tolist() == [[0, -1], [-1, -1], [-1, 2], [2, -1]]
