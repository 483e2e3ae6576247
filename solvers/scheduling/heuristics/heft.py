"""The partition of HEFT: each vertex where it finishes earliest."""

from __future__ import annotations

import numpy as np

from instances.files.columns import Floats, Ints
from instances.scheduling import Instance
from solvers.native import kahn
from solvers.scheduling._kernels import Simulator
from solvers.scheduling.heuristics.ranks import longest_behind


def earliest_finish(instance: Instance) -> Ints:
    """Devices of vertices, shape (n,), taken by upward rank; colocated ones follow the first of their group."""
    return Simulator(instance).heft(kahn(instance.graph, upward_rank(instance))).astype(np.int64)


def upward_rank(instance: Instance) -> Floats:
    """The longest time from the start of each vertex to the end, shape (n,), by means over devices and over links.

    Means are of times, as in the original, there also that of running a vertex; for tensors it has the size over the
    mean bandwidth, which hardly counts a link that is very slow.
    """
    time = instance.complexity * float((1 / instance.speed).mean())
    return longest_behind(instance.graph, time, instance.size * instance.slowness())
