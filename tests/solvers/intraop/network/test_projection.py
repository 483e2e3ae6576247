"""Pairs and the rest of a wide table add up to it, and a sum of pairs leaves no rest."""

from __future__ import annotations

import numpy as np
import pytest
from effort import some_of
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmark.solvers.intraop.network.projection import Wide, to_pairs

FORBIDDEN = 2**57


def total(pairs, rest, shape):
    """The sum of all tables, and where one of them forbids."""
    letters = "abcd"[: len(shape)]
    tables = [*pairs, *([] if rest is None else [rest])]
    assert all(cost.min() >= 0 for _, cost in tables)
    cost, out = np.zeros(shape, dtype=object), np.zeros(shape, dtype=bool)
    for scope, table in tables:
        place = "".join(letters[variable] for variable in scope)
        whole = np.einsum(f"{place},{letters}->{letters}", table.astype(object), np.ones(shape, dtype=object))
        out |= whole >= FORBIDDEN
        cost = cost + whole
    return cost, out


@settings(max_examples=some_of(300))
@given(st.integers(0, 2**32 - 1))
def test_pairs_and_rest_add_up(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 4, rng.integers(3, 5)).tolist())
    cost = rng.integers(0, [1, 5, 2**55][rng.integers(3)], shape, endpoint=True)
    cost[rng.random(shape) < rng.choice([0, 0.2, 0.9])] = FORBIDDEN
    got, out = total(*to_pairs(Wide((0, 1, 2, 3)[: len(shape)], cost), FORBIDDEN), shape)
    assert (out == (cost >= FORBIDDEN)).all()
    assert (got[~out] == cost[~out]).all()


@pytest.mark.parametrize("reader", [0, 1, 2])
def test_what_each_tensor_costs_with_its_reader_leaves_no_rest(reader):
    rng = np.random.default_rng(reader)
    first, second = rng.integers(0, 9, (4, 1, 4)), rng.integers(0, 9, (1, 4, 4))
    cost = np.moveaxis(first + second, 2, reader)  # before the move, the last axis is the reader's
    assert to_pairs(Wide((5, 6, 7), cost), FORBIDDEN)[1] is None


def test_what_pairs_cannot_express_is_the_rest():
    cost = np.zeros((2, 2, 2), dtype=np.int64)
    cost[0, 0, 0] = 7
    pairs, rest = to_pairs(Wide((0, 1, 2), cost), FORBIDDEN)
    assert not pairs
    assert (rest.cost == cost).all()


def test_what_pairs_forbid_is_no_rest():
    cost = np.zeros((2, 2, 2), dtype=np.int64)
    cost[0, :, 1] = FORBIDDEN
    (pair,), rest = to_pairs(Wide((0, 1, 2), cost), FORBIDDEN)
    assert rest is None
    assert pair.scope == (0, 2)
    assert (pair.cost == cost[:, 0]).all()
