"""The partition of HEFT: each vertex on the device of earliest finish."""

from __future__ import annotations

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.scheduling import Instance
from shardmark.solvers.native import kahn
from shardmark.solvers.scheduling._kernels import Simulator
from shardmark.solvers.scheduling.heuristics.ranks import longest_behind


def earliest_finish(instance: Instance) -> Ints:
    """Devices of vertices, shape (n,), chosen by upward rank; colocated vertices follow the first of their group."""
    return Simulator(instance).heft(kahn(instance.graph, upward_rank(instance))).astype(np.int64)


def upward_rank(instance: Instance) -> Floats:
    """The longest time from the start of each vertex to the end, shape (n,), by means over devices and over links.

    As in the original, the mean of a running time is over devices. For transfers the original divides the size by the
    mean bandwidth, which nearly ignores very slow links; here the mean is over transfer times.
    """
    time = instance.complexity * float((1 / instance.speed).mean())
    return longest_behind(instance.graph, time, instance.size * instance.slowness())
