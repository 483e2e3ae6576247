"""Factors of the scores by which vertices choose devices, for all devices at once."""

from __future__ import annotations

import numpy as np

from instances.files.columns import Floats, Ints
from instances.scheduling import Instance
from solvers.scheduling.heuristics.partition import Partition

#: The least that a factor of a score counts; of traffic, which is a time, as a share of what tensors take in the mean,
#: so that it is the same in any unit. As a product a score would be zero wherever one factor is, whatever the others
#: say: the traffic of a vertex none of whose inputs has a device yet, or that would be where they all are; the memory
#: of an empty device; the importance of the most important vertex on the fastest device. The paper does not mention
#: it. With a floor the other factors still decide between such devices.
FLOOR = 0.01


class Scores:
    """Scores of devices for one vertex of a partition in the making."""

    def __init__(self, instance: Instance, partition: Partition) -> None:
        self.instance, self.partition = instance, partition
        self.start, self.tail = (column.tolist() for column in instance.graph.in_csr)
        self.size = instance.size[np.argsort(instance.graph.head, kind="stable")].tolist()
        transfer = instance.slowness() * float(instance.size.sum()) / max(1, instance.edges)
        self.least = FLOOR * (transfer or 1.0)

    def traffic(self, v: int, devices: Ints) -> Floats:
        """Equation (10): time that the inputs of a vertex travel from the devices that their makers have already.

        The equation's t_i is the size of the tensor of (v_j, v_i); makers without a device yet count nothing.
        """
        time = np.zeros(len(devices))
        for e in range(self.start[v], self.start[v + 1]):
            source = int(self.partition.device[self.tail[e]])
            if source >= 0 and self.size[e] > 0:
                with np.errstate(divide="ignore"):  # no link: never
                    time += self.size[e] / self.instance.bandwidth[source, devices]
        return np.maximum(time, self.least)

    def execution_time(self, devices: Ints) -> Floats:
        """Time on a device as a share of that on the slowest of all, Section 3.3.1: of any vertex the same.

        At least the least float that has all its digits: no share is 0, whatever the speeds.
        """
        with np.errstate(under="ignore"):
            return np.maximum(self.instance.speed.min() / self.instance.speed[devices], np.finfo(np.float64).tiny)

    def best(self, devices: Ints, *factors: Floats) -> int:
        """The device of the least product of factors, the first if there are several."""
        with np.errstate(over="ignore", under="ignore"):
            return int(devices[np.argmin(np.prod(factors, axis=0))])
