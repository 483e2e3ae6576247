"""Check of Equation (2): devices stay within their memory."""

from __future__ import annotations

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.graph import Index
from shardmark.instances.scheduling import TOLERANCE, Instance
from shardmark.solvers.scheduling._kernels import Execution


def fits(instance: Instance, device: Ints | Index, execution: Execution) -> bool:
    """True if the tensors on each device are below its capacity at all times; ``device`` has shape (n,).

    Then the errors of all partial sums are far below the tolerance of the capacity.
    """
    tail, head = instance.graph.tail, instance.graph.head
    held = np.isfinite(instance.memory[device[head]]) & (instance.size > 0)
    waits = instance.holding == "waiting"
    begin = execution.arrival if waits else execution.finish[tail]
    end = (execution.start[head] if waits else execution.finish[head]) * (1 - TOLERANCE)
    held &= begin < end
    size, capacity = instance.size[held], instance.capacity[device[head[held]]]
    if (size >= capacity).any():
        return False
    time, place = np.concatenate([begin[held], end[held]]), np.tile(device[head[held]], 2)
    order = np.lexsort((time, place))
    time, place = time[order], place[order]
    used = (np.concatenate([size, -size]) / np.tile(capacity, 2))[order].cumsum()  # each device frees all its memory
    tensors = np.repeat([1, -1], len(size))[order].cumsum()
    last = np.append((np.diff(time) > 0) | (np.diff(place) > 0), True)[: len(used)]
    return bool(((tensors == 0) | (used < 1))[last].all())
