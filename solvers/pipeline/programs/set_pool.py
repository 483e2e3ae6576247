"""Cheap sets of nodes found by searches, and the places of a partition where they can be stages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shardmark.solvers.native import Longs
from shardmark.solvers.pipeline._set_kernels import SetList


@dataclass(frozen=True, eq=False)
class Place:
    """Stages of a partition about which the same facts are known.

    ``closure``  FIRST, MIDDLE or LAST, see `stage_search`
    ``count``    number of these stages
    ``fixed``    shape (n,), int8: 1 for nodes that each of them holds, -1 for nodes that none does; None if unknown
    """

    closure: int
    count: int
    fixed: NDArray[np.int8] | None = None

    def allows(self, member: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Mask, shape (sets,), of the sets of this closure, shape (sets, n), that can be a stage of this place."""
        if self.fixed is None:
            return np.ones(len(member), dtype=bool)
        return np.asarray(member[:, self.fixed > 0].all(axis=1) & ~member[:, self.fixed < 0].any(axis=1))


class SetPool:
    """All sets found, without duplicates.

    ``member``   shape (sets, n), bool
    ``cost``     shape (sets,), int64, in the units of `StageSearch`
    ``closure``  shape (sets,), int8: of the search that found the set
    """

    def __init__(self, nodes: int) -> None:
        self.member = np.zeros((0, nodes), dtype=bool)
        self.cost: Longs = np.zeros(0, dtype=np.int64)
        self.closure = np.zeros(0, dtype=np.int8)
        self._known: set[tuple[int, bytes]] = set()

    def __len__(self) -> int:
        return len(self.cost)

    def add(self, found: SetList, closure: int) -> int:
        """Add the sets found by a search with a closure; return the number of new ones."""
        keys = {(closure, row.tobytes()): at for at, row in enumerate(np.packbits(found.member, axis=1))}
        fresh = [at for key, at in keys.items() if key not in self._known]
        self._known.update(keys)
        self.member = np.concatenate([self.member, found.member[fresh]])
        self.cost = np.concatenate([self.cost, found.cost[fresh]])
        self.closure = np.concatenate([self.closure, np.full(len(fresh), closure, dtype=np.int8)])
        return len(fresh)

    def fitting(self, place: Place, target: int, since: int = 0) -> Longs:
        """Indices, from ``since`` on, of the sets that cost less than a target and that a place allows."""
        fits = (self.closure[since:] == place.closure) & (self.cost[since:] < target)
        at = since + np.flatnonzero(fits)
        return at[place.allows(self.member[at])]
