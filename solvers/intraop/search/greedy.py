"""The constructive heuristic under several prices of memory, each result improved by single moves."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.solvers.intraop.network.memory import Footprint
from shardmark.solvers.intraop.search.construction import construct

#: Memory prices, as fractions of the cost per unit of memory in the solution built without a price.
PRICES = (0.001, 0.01, 0.1, 1.0, 10.0)


def assignments(footprint: Footprint, until: float) -> Iterator[Ints]:
    """Yield the assignment, shape (v,), of each price until a deadline; an assignment need not fit."""
    timeline, model = footprint.timeline, footprint.model
    memory = model.fold((timeline.usage - timeline.least()[timeline.owner]).astype(np.float64))
    unit = 0.0
    for price in (0.0, *PRICES):
        if time.monotonic() >= until or (price and not unit):
            return
        search = construct(footprint, memory * unit * price, until)
        if not price:  # cost per unit of memory above the least
            used = memory[model.start[:-1] + search.value].sum()
            unit = model.cost(search.value) / used if used else 0.0
        if search.repair(until):
            search.descend(until)
        yield search.value
