"""Whether what waits on devices stays within their memory: Equation (2)."""

from __future__ import annotations

import numpy as np

from instances.files.columns import Ints
from instances.graph import Index
from instances.scheduling import Instance
from solvers.scheduling._kernels import Execution

#: Sums here are not exact: what comes so near to a limit, as a share of it, counts as above.
NEAR = 1e-9


def fits(instance: Instance, device: Ints | Index, execution: Execution) -> bool:
    """Whether the tensors on each device are below its memory at every moment; device has shape (n,)."""
    tail, head = instance.graph.tail, instance.graph.head
    held = np.isfinite(instance.memory[device[head]]) & (instance.size > 0)
    waits = instance.holding == "waiting"
    begin = execution.arrival if waits else execution.finish[tail]
    end = execution.start[head] if waits else execution.finish[head]
    held &= begin < end
    size, memory = instance.size[held], instance.memory[device[head[held]]]
    if (size >= memory).any():
        return False
    time, place = np.concatenate([begin[held], end[held]]), np.tile(device[head[held]], 2)
    order = np.lexsort((time, place))
    time, place = time[order], place[order]
    used = (np.concatenate([size, -size]) / np.tile(memory, 2))[order].cumsum()  # of a device all is freed in the end
    tensors = np.repeat([1, -1], len(size))[order].cumsum()
    last = np.append((np.diff(time) > 0) | (np.diff(place) > 0), True)[: len(used)]
    return bool(((tensors == 0) | (used < 1 - NEAR))[last].all())
