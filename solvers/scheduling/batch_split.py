"""Batch split: batches of vertices, those on the longest paths on the fastest devices."""

from __future__ import annotations

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.scheduling import Instance
from shardmark.solvers.scheduling.heuristics.local import partitioner
from shardmark.solvers.scheduling.heuristics.partition import Partition
from shardmark.solvers.scheduling.heuristics.ranks import total_rank


@partitioner("batch-split", "Mayer et al. 2017, Section 3.2.1")
def batch_split(instance: Instance, rng: np.random.Generator) -> Ints:
    """Assign equal batches of vertices by decreasing total rank; the fastest device takes the first batch.

    Total rank is the sum of Equations (5) and (6). The paper assigns "batches" to "the fastest devices" and each vertex
    "independently to the fastest feasible device", without the size of a batch. Here it is a k-th of the vertices;
    otherwise a device with unlimited memory would take all of them. A vertex that may not use the device of its batch
    goes to the next slower one that it may use.
    """
    partition = Partition(instance)
    place = np.empty(instance.devices, dtype=np.int64)  # of each device among the fastest
    place[np.argsort(-instance.speed, kind="stable")] = np.arange(instance.devices)
    order = np.argsort(-total_rank(instance.graph, instance.complexity), kind="stable")
    for done, v in enumerate(order.tolist()):
        if partition.device[v] < 0:
            batch = done * instance.devices // max(1, instance.nodes)
            choices = partition.choices(v)
            partition.assign(v, int(choices[np.argmin((place[choices] - batch) % instance.devices)]))
    return partition.device
