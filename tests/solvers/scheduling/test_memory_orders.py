"""Proofs that no order of the vertices fits the memory, against every order and every schedule."""

from __future__ import annotations

import math
import random
import time
from itertools import combinations, permutations

import numpy as np
import pytest
from effort import some_of
from schedules import proofs_held, without_order

from shardmark.instances.generate.dataflows import tight_memory
from shardmark.instances.graph import Graph
from shardmark.solvers.scheduling.schedules import memory_orders
from shardmark.solvers.scheduling.schedules.memory_orders import no_order_fits

pytestmark = pytest.mark.gate(cases=2)


def draw_changes(draw: random.Random) -> tuple[Graph, list[int], list[tuple[int, int]]]:
    """Return a graph of up to seven vertices in a random order, what each changes, and the edges."""
    n, share = draw.randint(1, 7), draw.random()
    number = draw.sample(range(n), n)
    edges = [(number[u], number[v]) for u, v in combinations(range(n), 2) if draw.random() < share]
    tail, head = (np.array([edge[end] for edge in edges], dtype=np.int64) for end in (0, 1))
    change = [0] * n
    for u, v in edges:
        size = draw.choice([0, 1, 1, 2, 5, 2**40])
        change[u] += size
        change[v] -= size
    return Graph(n, tail, head), change, edges


def least_peak(change: list[int], edges: list[tuple[int, int]]) -> int:
    """Return the least maximum of what is held, over all topological orders."""
    orders = [
        order for order in permutations(range(len(change))) if all(order.index(u) < order.index(v) for u, v in edges)
    ]
    return min(max(0, *np.cumsum([change[v] for v in order]).tolist()) for order in orders)


def test_the_least_room_for_some_order_is_found_exactly() -> None:
    draw, positive = random.Random(1), 0
    for seed in range(some_of(300)):
        graph, change, edges = draw_changes(draw)
        peak = least_peak(change, edges)
        assert not no_order_fits(graph, np.array(change), peak + 1, math.inf), seed
        assert not peak or no_order_fits(graph, np.array(change), peak, math.inf), seed
        positive += peak > 0
    assert positive > some_of(100)


def test_no_schedule_fits_if_no_order_does() -> None:
    assert proofs_held(without_order, random.Random(29), some_of(600)) > some_of(5)


@pytest.mark.parametrize("number", [113, 184])
def test_orders_prove_what_single_moments_do_not(number: int) -> None:
    assert without_order(tight_memory(number))


#: Two tensors of 1 that wait for the last vertex.
JOIN = Graph(3, np.array([0, 1]), np.array([2, 2])), np.array([1, 1, -2])


def test_nothing_is_proven_after_the_time() -> None:
    assert no_order_fits(*JOIN, room=2, end=math.inf)
    assert not no_order_fits(*JOIN, room=2, end=time.monotonic())


@pytest.mark.parametrize("limit", ["MOST_SETS", "MOST_NODES"])
def test_nothing_is_proven_beyond_limits(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_orders, limit, 0)
    assert not no_order_fits(*JOIN, room=2, end=math.inf)
