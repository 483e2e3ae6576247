"""Collectives and changes of layouts on a mesh take the times of their formulas."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmark.instances.errors import InputError
from shardmark.instances.models.sharding.mesh import Mesh, mesh_sizes

MESH = Mesh((2, 4), (25.0, 100.0), 5000.0)
LAYOUTS = [list(layout) for layout in itertools.product([-1, 0, 1, 2], repeat=2)]


def reshard(source, target, size, mesh=MESH):
    latency, transfer = mesh.reshard(np.array(source), np.array(target), size)
    return float(latency), float(transfer)


def test_resharding_moves_what_it_has_to():
    size = 8000
    assert reshard((-1, -1), (0, 1), size) == (0, 0)
    assert reshard((0, 1), (0, 1), size) == (0, 0)
    assert reshard((-1, 0), (-1, -1), size) == (5000, 3 * size / 4 / 100)  # gather three parts of four
    assert reshard((-1, 0), (-1, 1), size) == (5000, size / 4 * 3 / 4 / 100)  # keep a quarter of a part
    assert reshard((0, 0), (-1, 0), size) == (5000, size / 8 / 25)  # along the slow axis


@given(source=st.sampled_from(LAYOUTS), target=st.sampled_from(LAYOUTS), size=st.integers(0, 2**50))
def test_only_axes_that_lose_their_dimension_move_anything(source, target, size):
    latency, transfer = reshard(source, target, size)
    lost = any(before >= 0 and before != after for before, after in zip(source, target, strict=True))
    assert (latency > 0) == lost
    assert (transfer > 0) == (lost and size > 0)
    gathered = reshard(source, (-1, -1), size)
    assert transfer <= gathered[1]  # nothing moves more than all parts to all devices


def test_times_of_arrays_are_those_of_their_pairs():
    layouts = np.array(LAYOUTS)
    table = np.array(MESH.reshard(layouts[:, None], layouts, 4096))
    for i, j in itertools.product(range(len(LAYOUTS)), repeat=2):
        assert tuple(table[:, i, j]) == reshard(LAYOUTS[i], LAYOUTS[j], 4096)


def test_parts_and_sums():
    assert MESH.parts(np.array([[-1, -1], [0, -1], [-1, 0], [1, 0]])).tolist() == [1, 2, 4, 8]
    assert MESH.all_reduce(0, np.array([1000.0])).tolist() == [5000 + 2 * 1 / 2 * 1000 / 25]
    assert MESH.all_reduce(1, np.array([1000.0])).tolist() == [5000 + 2 * 3 / 4 * 1000 / 100]


def test_mesh_texts():
    assert mesh_sizes("2x4", "m") == (2, 4)
    for text in ("", "x", "2x", "1x4", "2*4", "0", "2x70000", "²x2"):
        with pytest.raises(InputError, match="expected axis sizes of at least 2"):
            mesh_sizes(text, "m")
