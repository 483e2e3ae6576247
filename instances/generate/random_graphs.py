"""Random graphs for ``pipeline`` in the manner of REGAL: classic models, oriented along a random order.

A partial reconstruction of the data set of Paliwal et al. (ICLR 2020, Appendix A.1.4) as "Practical Performance
Guarantees for Pipelined DNN Inference" uses it (Appendix C.2): families, sizes and costs follow the descriptions;
the original's filter for hard graphs is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shardmark.instances.errors import InputError
from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.generate.portable_random import Draws
from shardmark.instances.graph import Graph
from shardmark.instances.pipeline import Instance

Pairs = Sequence[tuple[int, int]] | Ints  # shape (edges, 2)


def erdos_renyi(draws: Draws, *, nodes: int, probability: float, **costs: Any) -> Instance:
    """Random graph in which every pair is connected with the same probability."""
    pairs = _bernoulli(draws, nodes, lambda u: probability)
    return _instance(draws, nodes, pairs, **costs)


def barabasi_albert(draws: Draws, *, nodes: int, attached: int, **costs: Any) -> Instance:
    """Preferential attachment: every new node attaches to a few earlier ones, more likely to those of high degree."""
    if attached >= nodes:
        raise InputError("generate", "attached", f"expected fewer than the {nodes} nodes, found {attached}")
    pairs: list[tuple[int, int]] = []
    ends = list(range(attached))  # every node once per neighbour; the first ones once
    for node in range(attached, nodes):
        chosen: set[int] = set()
        while len(chosen) < attached:
            chosen.add(ends[int(draws.integers(0, len(ends), 1)[0])])
        pairs += [(other, node) for other in sorted(chosen)]
        ends += [*sorted(chosen), *[node] * attached]
    return _instance(draws, nodes, pairs, **costs)


def watts_strogatz(draws: Draws, *, nodes: int, neighbours: int, rewiring: float, **costs: Any) -> Instance:
    """Small world: a ring in which every node is connected to its nearest ones, with some edges rewired."""
    if neighbours % 2:
        raise InputError("generate", "neighbours", f"expected an even number, half on each side, found {neighbours}")
    if neighbours >= nodes:
        raise InputError("generate", "neighbours", f"expected fewer than the {nodes} nodes, found {neighbours}")
    ring = [(u, (u + step) % nodes) for step in range(1, neighbours // 2 + 1) for u in range(nodes)]
    linked: list[set[int]] = [set() for _ in range(nodes)]
    for u, v in ring:
        linked[u].add(v)
        linked[v].add(u)
    for (u, v), chance in zip(ring, draws.uniform(len(ring)).tolist(), strict=True):
        if chance < rewiring and len(linked[u]) < nodes - 1:
            while (w := int(draws.integers(0, nodes, 1)[0])) == u or w in linked[u]:
                pass
            linked[u].remove(v)
            linked[v].remove(u)
            linked[u].add(w)
            linked[w].add(u)
    pairs = [(u, v) for u in range(nodes) for v in sorted(linked[u]) if u < v]
    return _instance(draws, nodes, pairs, **costs)


def block_model(draws: Draws, *, nodes: int, blocks: int, inside: float, between: float, **costs: Any) -> Instance:
    """Stochastic block model: groups of equal size, dense inside, sparsely connected to each other."""
    group = np.arange(nodes) * blocks // nodes
    pairs = _bernoulli(draws, nodes, lambda u: np.where(group[u + 1 :] == group[u], inside, between))
    return _instance(draws, nodes, pairs, **costs)


def _bernoulli(draws: Draws, nodes: int, probability: Callable[[int], float | Floats]) -> Ints:
    """Pairs (u, v), u < v, shape (pairs, 2); ``probability(u)`` has the probabilities of v = u + 1, u + 2, ...

    Needs memory in proportion to the number of pairs returned.
    """
    later = [u + 1 + np.flatnonzero(draws.uniform(nodes - u - 1) < probability(u)) for u in range(nodes)]
    return np.column_stack([np.repeat(np.arange(nodes), list(map(len, later))), np.concatenate(later)])


def _instance(
    draws: Draws,
    nodes: int,
    pairs: Pairs,
    *,
    stages: int,
    costs_from: str,
    size_mean: float,
    size_spread: float,
    cost_spread: float,
) -> Instance:
    """Orient the pairs along a random order and draw sizes and costs; all numbers are multiples of 0.01.

    A tensor has a normal size, at least 1. A node costs the sum of its input and output tensors, and a fraction |r|,
    r normal with mean 0 and deviation ``cost_spread``, of the sum of all tensors (``costs_from="all"``) or of its own
    (``"own"``): descriptions of REGAL differ.
    """
    if costs_from not in ("all", "own"):
        raise InputError("generate", "costs_from", f"expected 'all' or 'own', found {costs_from!r}")
    rank = draws.permutation(nodes)
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    forward = rank[ends[:, 0]] < rank[ends[:, 1]]
    tail, head = np.where(forward, ends[:, 0], ends[:, 1]), np.where(forward, ends[:, 1], ends[:, 0])
    size = np.maximum(draws.normal(size_mean, size_spread, nodes), 1.0).round(2)
    own = size.copy()
    np.add.at(own, head, size[tail])
    fraction = np.abs(draws.normal(0, cost_spread, nodes))
    return Instance(
        name="random graph",
        graph=Graph(nodes, tail, head),
        node_names=tuple(map(str, range(nodes))),
        work=(own + fraction * (size.sum() if costs_from == "all" else own)).round(2),
        output_size=size,
        param_size=np.zeros(nodes),
        stages=stages,
        bandwidth=1.0,
    )
