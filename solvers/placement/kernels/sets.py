"""Kernels for sets of items on one device: the most profitable set within a load."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.graph import Index
from shardmark.solvers.native import Longs, array_in, array_out, check, ffi, lib, shaped


@dataclass(frozen=True, eq=False)
class SetDiagram:
    """A decision diagram of sets of items; in layer i, every state decides on the item ``order[i]``.

    ``order``  shape (layers,), int64; the number of items in layers that decide on none
    ``layer``  shape (layers + 2,), int64: the states of layer i are ``layer[i]`` to ``layer[i + 1] - 1``
    ``next``   shape (states, 2), int32: the state of the next layer, without the item and with it
    ``pay``    shape (states, 2), int64: load added by either choice, without the item's work; at least 0
    ``work``   shape (layers,), int64: work of the item; -1 if no set may contain it

    Along any path, work and pay add up to at most 2^40. See ``best_set.h``.
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

    def best_set(
        self, profit: Longs, limit: int, floor: int, most: int, stop: Index, *, relaxed: bool
    ) -> tuple[int, NDArray[np.bool_]]:
        """A bound on the profit of all sets within a load, and the set found, shape (items,), by item.

        ``profit`` has shape (items,), by item; its absolute values add up to at most 2^30. Sets of profit ``floor`` or
        less do not count. If ``relaxed``, the bound holds for all sets, and the set found may exceed the load; else the
        bound is the profit of that set. After ``stop``, shape (1,), int32, the bound is -1.
        """
        items = len(profit)
        given = np.ascontiguousarray(np.append(profit, 0)[self.order])
        chosen = np.zeros(len(self.order), dtype=np.int8)
        bound, limits = ffi.new("int64_t *"), (limit, floor, most, relaxed, array_in(stop))
        check(lib.shard_best_set(self._struct[0], array_in(given), *limits, array_out(chosen), bound))
        found = np.zeros(items + 1, dtype=np.bool_)
        found[self.order] = chosen > 0
        return int(bound[0]), found[:items]
