"""Moves costs of wide tables to tables of pairs, as far as pairs can express them.

Bounds use pairs only. The cost of a collective that moves several tensors is nearly a sum of costs, one per tensor and
its reader, so most of its table is a sum of tables of pairs.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np

from shardmark.instances.files.columns import Ints


class Wide(NamedTuple):
    """A cost table over the variables of ``scope``; ``cost`` has one axis per variable."""

    scope: tuple[int, ...]
    cost: Ints


def to_pairs(table: Wide, forbidden: int) -> tuple[list[Wide], Wide | None]:
    """Split a wide table into tables of pairs and a remaining table, None if that is zero; return both.

    Each pair of axes in turn takes the minimum of the remaining cost over the values of all other axes, so nothing
    becomes negative. Entries from ``forbidden`` on stay forbidden. Pairs that share one axis come first; that axis is
    the one that leaves the least cost. Our own; soft arc consistency projects to single variables in the same way
    (Cooper and Schiex, *Arc consistency for soft constraints*, 2004).
    """
    best: tuple[float, list[Wide], Wide | None] | None = None
    for center in reversed(range(len(table.scope))):  # an operator comes after the tensors that it reads
        left, pairs, rest = _taken(table, forbidden, center)
        if best is None or left < best[0]:
            best = left, pairs, rest
        if not left:
            break
    assert best is not None
    return best[1:]


def _taken(table: Wide, forbidden: int, center: int) -> tuple[float, list[Wide], Wide | None]:
    """Return the sum of the costs that pairs leave, the tables of pairs, those of ``center`` first, and the rest."""
    rest, allowed, pairs = table.cost, table.cost < forbidden, []
    known = allowed  # entries that are allowed, or that some pair forbids
    for axes in sorted(combinations(range(rest.ndim), 2), key=lambda axes: center not in axes):
        others = tuple(set(range(rest.ndim)) - set(axes))
        least = rest.min(axis=others, keepdims=True)
        if least.any():
            rest, known = np.where(allowed, rest - least, forbidden), known | (least >= forbidden)
            pairs.append(Wide((table.scope[axes[0]], table.scope[axes[1]]), least.squeeze(others)))
    left = float(np.where(allowed, rest, 0).sum(dtype=np.float64))
    return left, pairs, Wide(table.scope, rest) if left or not known.all() else None
