"""Kernels for sets of items, the candidates for one device: the set of greatest profit within a load."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instances.graph import Index
from solvers.native import Longs, array_in, array_out, check, ffi, lib, shaped


@dataclass(frozen=True, eq=False)
class SetDiagram:
    """A decision diagram of all sets of items; in layer i, every state decides on the item ``order[i]``.

    ``order``  shape (items,), int64
    ``layer``  shape (items + 2,), int64: the states of layer i are ``layer[i]`` to ``layer[i + 1] - 1``
    ``next``   shape (states, 2), int32: the state of the next layer, without the item and with it
    ``pay``    shape (states, 2), int64: what either adds to the load besides the item's work, at least 0
    ``work``   shape (items,), int64, by layer: what the item adds; -1 if no set may have it

    The work and pay of any path are at most 2^40 together. See ``dearest_set.h``.
    """

    order: Longs
    layer: Longs
    next: Index
    pay: Longs
    work: Longs

    @cached_property
    def _struct(self) -> tuple[Any, list[Any]]:
        """The diagram as a C struct, and the pointers that must live as long."""
        count, states = len(self.order), int(self.layer[-1])
        target = shaped(self.next, (states, 2)).reshape(-1)[: 2 * int(self.layer[-2])]
        start = np.zeros(states + 1, dtype=np.int64)
        np.cumsum(np.bincount(target, minlength=states), out=start[1:])
        of = np.argsort(target, kind="stable").astype(np.int32)
        pay, work = shaped(self.pay, (states, 2)), shaped(self.work, (count,))
        columns: list[NDArray[Any]] = [self.layer, self.next, pay, start, of, work]
        pointers = [array_in(column) for column in columns]
        return ffi.new("struct shard_set_diagram *", (count, *pointers)), pointers

    def dearest(
        self, profit: Longs, limit: int, floor: int, most: int, stop: Index, *, relaxed: bool
    ) -> tuple[int, NDArray[np.bool_]]:
        """The bound on the profit of sets within a load, and the set found, shape (items,), by item.

        ``profit`` has shape (items,), by item, its absolute values together at most 2^30. Sets of at most ``floor`` do
        not count. With ``relaxed`` the bound is one on all sets, and the set may exceed the load; without, it is the
        profit of the set. The bound is -1 after ``stop``, shape (1,), int32.
        """
        given = np.ascontiguousarray(shaped(profit, (len(self.order),))[self.order])
        chosen = np.zeros(len(self.order), dtype=np.int8)
        bound, limits = ffi.new("int64_t *"), (limit, floor, most, relaxed, array_in(stop))
        check(lib.shard_dearest_set(self._struct[0], array_in(given), *limits, array_out(chosen), bound))
        found = np.zeros(len(chosen), dtype=np.bool_)
        found[self.order] = chosen > 0
        return int(bound[0]), found
