"""HEFT, the baseline, with devices that colocation, restrictions and memory allow."""

from __future__ import annotations

import numpy as np

from instances.columns import Floats, Ints
from instances.scheduling import Instance
from solvers.native import Simulator, kahn
from solvers.scheduling._local import partitioner
from solvers.scheduling._ranks import longest_behind


@partitioner("heft", "Mayer et al. 2017, Section 5.1; Topcuoglu et al. 2002")
def heft(instance: Instance, rng: np.random.Generator) -> Ints:
    """Assign vertices by upward rank where each finishes earliest; colocated ones follow the first of their group."""
    order = kahn(instance.graph, upward_rank(instance))
    return Simulator(instance).heft(order).astype(np.int64)


def upward_rank(instance: Instance) -> Floats:
    """The longest time from the start of each vertex to the end, times being means over devices and over links."""
    between = instance.bandwidth[~np.eye(instance.devices, dtype=bool)]
    linked = between[between > 0]
    slowness = float((1 / linked).mean()) if len(linked) else 0.0
    return longest_behind(
        instance.graph, instance.complexity * float((1 / instance.speed).mean()), instance.size * slowness
    )
