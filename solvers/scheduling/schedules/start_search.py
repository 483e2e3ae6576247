"""Search of all schedules from their beginning: it ends with one that fits, or proves that there is none."""

from __future__ import annotations

import numpy as np

from instances.files.columns import Floats
from instances.scheduling import Instance
from solvers.scheduling.schedules.annealing import Best

#: Least time of a vertex, as a share of the longest schedule: four times `SLACK` of the core.
LASTS = 4e-8

#: Sizes are rounded down to the parts of the sum of all sizes that are so many, so that sums are exact.
PARTS = 2**52

#: Share by which a memory is exceeded at least where it counts as full.
MARGIN = 5e-10

#: Bytes that schedules that are left to try may take.
MOST_BYTES = 2**28


def search_starts(best: Best, seconds: float) -> bool:
    """Hand over a schedule that fits if one is found; say if it is proven in so many seconds that none does."""
    simulator = best.simulator
    if seconds <= 0 or not every_vertex_lasts(simulator.instance):
        return False
    held = in_parts(simulator.instance)
    schedule, none_is_left = simulator.start_search(*held, seconds, MOST_BYTES)
    if schedule:
        best.take(schedule[0].astype(np.int64), simulator.in_sequence(*schedule))
    return none_is_left


def every_vertex_lasts(instance: Instance) -> bool:
    """Say if each vertex takes so long that its start and its finish are never taken for one moment."""
    return bool((instance.complexity / instance.fastest() > LASTS * instance.horizon()).all())


def in_parts(instance: Instance) -> tuple[Floats, Floats]:
    """Whole weights of tensors, shape (m,), and what is too much for each device, shape (k,)."""
    with np.errstate(over="ignore"):
        part = (float(instance.size.sum()) or 1.0) / PARTS
        limit = np.ceil(instance.capacity / part * (1 + MARGIN))
    return np.floor(instance.size / part * (1 - 1e-15)), np.maximum(limit, 1.0)  # something must be held
