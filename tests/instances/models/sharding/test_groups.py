"""Menus of groups are short, and hold the splits that a plan may need."""

from __future__ import annotations

import math

import numpy as np
import pytest

from shardmark.instances.models.model import Access, Model
from shardmark.instances.models.sharding.groups import MOST_STRATEGIES, grouped
from shardmark.instances.models.sharding.mesh import Mesh
from shardmark.instances.models.sharding.splits import nest


def mesh(*sizes):
    return Mesh(sizes, (1.0,) * len(sizes), 0.0)


def product(loops, reads, written, kind="product"):
    """A model of one operator; letters are loops."""
    model = Model()
    tensors = [model.tensor(dims, [loops[d] for d in dims], "float32") for dims in (*reads, written)]
    accesses = [Access(tensor, tuple(dims)) for tensor, dims in zip(tensors, (*reads, written), strict=True)]
    points = math.prod(loops.values()) if kind == "product" else 0
    model.operator("y", kind, accesses[:-1], accesses[-1:], loops, multiply_adds=points)
    return model


def groups_of(model, grid, price):
    return grouped(model, [nest(model, operator) for operator in model.operators], grid, price)


@pytest.mark.parametrize(("axes", "most"), [(1, 7), (2, 49), (3, MOST_STRATEGIES + 1)])
def test_of_many_strategies_the_fastest_are_kept_and_nothing_split(axes, most):
    grid = mesh(*[2] * axes)
    model = product(dict.fromkeys("abcdef", 64), ("abc", "cde"), "abdef")
    menu = groups_of(model, grid, lambda _, splits: 1.0 / grid.parts(splits))[-1].splits[0]
    assert len(menu) == most
    assert menu[0].tolist() == [-1] * axes
    every = nest(model, model.operators[0]).menu(grid)
    if axes == 3:
        assert len(every) == 7**3
        assert set(grid.parts(menu).tolist()) == {1, 8}


def test_of_strategies_that_look_alike_from_outside_the_fastest_is_kept():
    grid = mesh(2)
    model = product({"m": 4, "k": 4, "z": 4}, ("m", "k"), "m")  # no tensor tells if z is split
    for better in (-1, 2):
        groups = groups_of(model, grid, lambda _, splits, better=better: np.where(splits[:, 0] == better, 1.0, 2.0))
        menu = groups[-1].splits[0][:, 0].tolist()
        assert sorted(menu) == sorted([better, 0, 1])


def test_no_two_strategies_of_a_grid_look_alike_from_outside():
    grid, model = mesh(2, 2), product({"m": 4, "k": 4, "z": 4}, ("m", "k"), "m")
    menu = groups_of(model, grid, lambda _, splits: np.zeros(len(splits)))[-1].splits[0]
    looks = np.hstack([use.layouts(menu) for use in nest(model, model.operators[0]).uses])
    assert len(np.unique(looks, axis=0)) == len(menu) > 4


def test_tensors_are_split_as_their_readers_can_be():
    model = product({"m": 4, "k": 6, "n": 4}, ("mk", "kn"), "mn")
    first, second, _ = groups_of(model, mesh(2, 2), lambda _, splits: np.zeros(len(splits)))
    assert sorted(first.layouts[0].tolist()) == [[-1, -1], [-1, 0], [-1, 1], [0, -1], [0, 0], [0, 1], [1, -1], [1, 0]]
    assert [1, 1] in second.layouts[1].tolist()
    assert [0, 0] not in second.layouts[1].tolist()  # four parts of six rows
