"""The shared graph against plain definitions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmark.instances import InputError
from shardmark.instances.graph import Graph, find_cycle, strong_components

PAIRS = st.integers(1, 7).flatmap(
    lambda n: st.tuples(
        st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=12, unique=True)
    )
)


def columns(pairs):
    table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def reachable(pairs, start):
    found, ahead = set(), [start]
    while ahead:
        node = ahead.pop()
        fresh = {v for u, v in pairs if u == node} - found
        found |= fresh
        ahead += fresh
    return found


@given(PAIRS)
def test_find_cycle_returns_one_exactly_if_there_is_one(case):
    n, pairs = case
    cycle = find_cycle(n, *columns(pairs))
    assert bool(cycle) == any(v in reachable(pairs, v) for v in range(n))
    if cycle:
        assert cycle[0] == cycle[-1]
        assert len(set(cycle)) == len(cycle) - 1
        assert set(itertools.pairwise(cycle)) <= set(pairs)


@given(PAIRS)
def test_adjacency_and_order_match_the_edges(case):
    n, pairs = case
    if find_cycle(n, *columns(pairs)):
        with pytest.raises(InputError, match="expected a graph without cycles"):
            Graph(n, *columns(pairs))
        return
    graph = Graph(n, *columns(pairs))
    assert (graph.nodes, graph.edges) == (n, len(pairs))
    for node in range(n):
        assert graph.successors(node).tolist() == [v for u, v in pairs if u == node]
        assert graph.predecessors(node).tolist() == [u for u, v in pairs if v == node]
    left, order = set(range(n)), []
    while left:  # always the smallest node whose producers are done
        order.append(min(v for v in left if not left & set(graph.predecessors(v).tolist())))
        left.remove(order[-1])
    assert graph.topological_order.tolist() == order
    assert sorted(zip(graph.reversed.tail.tolist(), graph.reversed.head.tolist(), strict=True)) == sorted(
        (v, u) for u, v in pairs
    )
    before = {v: {v} for v in range(n)}
    for v in order:
        before[v].update(*(before[u] for u, w in pairs if w == v))
    assert [{u for u in range(n) if bits >> u & 1} for bits in graph.ancestors()] == list(before.values())


def test_arrays_are_read_only_and_small():
    graph = Graph(2, *columns([(0, 1)]))
    assert graph.tail.dtype == graph.head.dtype == np.int32
    with pytest.raises(ValueError, match="read-only"):
        graph.tail[0] = 1


def test_a_long_cycle_is_shortened_in_the_sentence():
    ring = [(v, (v + 1) % 20) for v in range(20)]
    with pytest.raises(InputError, match=r"edges\[0\]: .* found 0 -> 1 -> 2 -> 3 -> 4 -> 5 -> 6 -> 7 -> \.\.\."):
        Graph(20, *columns(ring))


def test_nodes_of_a_cycle_without_a_name_have_their_number():
    with pytest.raises(InputError, match=r"found node 0 -> b -> node 0$"):
        Graph(2, np.array([0, 1]), np.array([1, 0]), names=("", "b"))


def test_strong_components_are_those_that_reach_one_another() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        n, m = int(rng.integers(1, 9)), int(rng.integers(0, 16))
        tail, head = rng.integers(0, n, (2, m))
        reach = np.eye(n, dtype=bool)
        reach[tail, head] = True
        for _ in range(n):
            reach = reach | reach @ reach
        component = strong_components(n, tail, head)
        assert np.array_equal(component[:, None] == component, reach & reach.T)
        assert set(component.tolist()) == set(range(component.max() + 1))
