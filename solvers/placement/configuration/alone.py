"""The least load of a set with each item, by shortest paths through a decision diagram."""

from __future__ import annotations

import numpy as np

from shardmark.solvers.native import Longs
from shardmark.solvers.placement.kernels.sets import SetDiagram

#: Above all loads; loads of impossible choices exceed it only a few times.
NONE = 2**45


def least_loads(diagram: SetDiagram, items: int) -> Longs:
    """Shape (items,): the least load of any set with each item; `NONE` or more if no set has it."""
    layers = [slice(*diagram.layer[at : at + 2].tolist()) for at in range(len(diagram.order))]
    gain = np.where(diagram.work < 0, NONE, diagram.work)
    rest = np.zeros(len(diagram.next), dtype=np.int64)
    for at in reversed(range(len(layers))):
        here = layers[at]
        ways = diagram.pay[here] + rest[diagram.next[here]]
        ways[:, 1] += gain[at]
        rest[here] = ways.min(axis=1)
    least = np.full(items + 1, NONE)
    reached = np.full(len(diagram.next), NONE)
    reached[0] = 0
    for at, here in enumerate(layers):
        ways = reached[here, np.newaxis] + diagram.pay[here]
        ways[:, 1] += gain[at]
        target = diagram.next[here]
        np.minimum.at(reached, target, ways)
        least[diagram.order[at]] = (ways[:, 1] + rest[target[:, 1]]).min()
    return least[:items]
