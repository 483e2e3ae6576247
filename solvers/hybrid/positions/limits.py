"""Limits on the objective that the dynamic program over positions refutes."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from shardmark.instances.graph import Index
from shardmark.instances.hybrid import Instance
from shardmark.instances.rounding import safely
from shardmark.solvers.hybrid._thresholds import largest
from shardmark.solvers.hybrid.positions.cells import Cells
from shardmark.solvers.hybrid.positions.order import Order
from shardmark.solvers.hybrid.positions.pipeline import Pipeline, Stopped, most_devices
from shardmark.solvers.hybrid.positions.types import LEAST_LIMIT, Reaches, StageTypes
from shardmark.solvers.registry import Declined

#: Cells in blocks of many ideals, together, at most, and of these times nodes, for their memory.
CELLS, OPEN = 1500, 2**23
#: Distances of cells for which transfers are told apart, in shares of a device.
SPANS = (0.25, 1.0, 3.0)
#: Worth of the limit on time, as a share of that of both limits.
SHARES = np.unique(np.concatenate([[0.0, 1.0], 1 / (1 + np.geomspace(1 / 16, 64, 13))]))
#: First growth of the limit, and the quotient of the last limits.
FIRST, LAST = 1.4, 1.0001
#: The least limit that is tried, as a share of an upper bound on the time of all stages.
LEAST = 1e-9
#: Most pairs of devices and sums of data-parallel degrees.
PAIRS = 2**22
#: Relative error of limits.
CLAIM = 1e-11


def refute(instance: Instance, high: float, stop: Index, refuted: Callable[[float], None]) -> None:
    """Search for the greatest limit on the objective that no plan keeps.

    ``high``     cost of a plan, or infinite: no greater limit is tried
    ``stop``     shape (1,), int32: ends the search once it is 1
    ``refuted``  called with each greater lower bound

    Raises Declined if there are too many devices and replicas.
    """
    if most_devices(instance) * min(instance.devices, instance.batch) > PAIRS:
        raise Declined(f"expected at most {PAIRS} pairs of numbers of devices and replicas")
    low, growth = instance.simple_bound(), FIRST
    with suppress(Stopped), np.errstate(over="ignore"):
        most = largest(instance) * (2 * instance.batch if instance.objective == "step" else 1)
        least = max(most * LEAST, LEAST_LIMIT)
        reaches = _reaches(instance)
        while high > low * LAST:
            if math.isfinite(high):
                limit = max(math.sqrt(low) * math.sqrt(high), least)
            else:
                limit = max(min(low * growth, most), least)
                growth **= 1.5
            if not low < limit < high:
                break
            if Pipeline(reaches, limit, stop).refuted:
                low = limit
                refuted(safely(low * (1 - CLAIM), 0))
            else:
                high = limit


def _reaches(instance: Instance) -> Reaches:
    """The relaxation, at prices of the least device-seconds."""
    types = StageTypes(instance, Order.along(instance.graph))
    count = min(CELLS, OPEN // instance.nodes)
    cells = Cells.of(types.order, types.device_seconds, count, np.array(SPANS) / instance.devices)
    return Reaches(types, cells, SHARES, wide=cells.widest * instance.devices > 1)
