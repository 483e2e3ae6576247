"""Batch split: the vertices of the longest paths, in batches, on the fastest devices."""

from __future__ import annotations

import numpy as np

from instances.files.columns import Ints
from instances.scheduling import Instance
from solvers.scheduling.heuristics.local import partitioner
from solvers.scheduling.heuristics.partition import Partition
from solvers.scheduling.heuristics.ranks import total_rank


@partitioner("batch-split", "Mayer et al. 2017, Section 3.2.1")
def batch_split(instance: Instance, rng: np.random.Generator) -> Ints:
    """Give each device an equal batch of vertices, those of greatest total rank to the fastest one.

    Total rank adds up Equations (5) and (6). The paper assigns "batches" to "the fastest devices" and each vertex
    "independently to the fastest feasible device", but does not say how large a batch is: here it is a k-th part of the
    vertices, as a device whose memory has no limit would else take all, and nothing would be split. A vertex that may
    not go to its batch's device goes to the next one that it may use.
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
