"""Factors of the scores by which vertices choose devices, computed for all devices at once."""

from __future__ import annotations

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.scheduling import Instance
from shardmark.solvers.scheduling.heuristics.partition import Partition

#: Least value of a factor of a score; for traffic, which is a time, as a share of the mean transfer time, so that the
#: unit does not matter. Without it, one factor of zero would make the whole score zero: the traffic of a vertex whose
#: inputs have no device yet, or are all on the same device; the memory of an empty device; the importance of the most
#: important vertex on the fastest device. The paper does not mention this case. With the floor, the other factors still
#: decide between such devices.
FLOOR = 0.01


#: For functions that compute scores: a missing link means an infinite time, and products may over- or underflow.
any_magnitude = np.errstate(divide="ignore", over="ignore", under="ignore")


class Scores:
    """Scores of devices for a vertex of a partial partition, to be computed under `any_magnitude`.

    ``execution_time``  shape (devices,), Section 3.3.1: time on a device as a share of that on the slowest, the same
                        for every vertex; at least the least normal float, so that no share is 0
    """

    def __init__(self, instance: Instance, partition: Partition) -> None:
        self.instance, self.partition = instance, partition
        self.start, self.tail = (column.tolist() for column in instance.graph.in_csr)
        self.size = instance.size[np.argsort(instance.graph.head, kind="stable")].tolist()
        transfer = instance.slowness() * float(instance.size.sum()) / max(1, instance.edges)
        self.least = FLOOR * (transfer or 1.0)
        self.execution_time = np.maximum(instance.speed.min() / instance.speed, np.finfo(np.float64).tiny)

    def traffic(self, v: int, devices: Ints) -> Floats:
        """Equation (10): transfer time of the inputs of a vertex, from the devices of their makers.

        The equation's t_i is the size of the tensor of (v_j, v_i); makers not yet assigned do not count.
        """
        time = np.zeros(len(devices))
        for e in range(self.start[v], self.start[v + 1]):
            source = int(self.partition.device[self.tail[e]])
            if source >= 0 and self.size[e] > 0:
                time += self.size[e] / self.instance.bandwidth[source, devices]
        return np.maximum(time, self.least)
