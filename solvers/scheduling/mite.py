"""MITE: memory, importance, traffic and execution time in one product."""

from __future__ import annotations

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.scheduling import Instance
from shardmark.solvers.scheduling.heuristics.local import partitioner
from shardmark.solvers.scheduling.heuristics.partition import Partition
from shardmark.solvers.scheduling.heuristics.ranks import total_rank
from shardmark.solvers.scheduling.heuristics.scores import FLOOR, Scores, any_magnitude


@partitioner("mite", "Mayer et al. 2017, Section 3.3.1")
@any_magnitude
def mite(instance: Instance, rng: np.random.Generator) -> Ints:
    """Assign vertices to the device with the least memory x importance x traffic x time: Equations (8) to (10).

    Vertices of greatest total rank come first, as Section 3.3 wants "vertices on critical paths to be assigned first".
    The memory score is the share of a device's memory in use before the vertex is assigned, as in the paper it depends
    on what is "already assigned". Memory, importance and traffic count at least ``FLOOR``.
    """
    partition = Partition(instance)
    scores, capacity = Scores(instance, partition), _capacity(instance)
    rank = total_rank(instance.graph, instance.complexity)
    share = rank / (rank.max(initial=0.0) or 1.0)
    speed = instance.speed / instance.speed.max()
    for v in np.argsort(-rank, kind="stable").tolist():
        if partition.device[v] < 0:
            devices = partition.choices(v)
            memory = np.maximum(partition.used[devices] / capacity[devices], FLOOR)
            importance = np.maximum(1 - share[v] * speed[devices], FLOOR)  # Equation (9)
            score = memory * importance * scores.traffic(v, devices) * scores.execution_time[devices]
            partition.assign(v, int(devices[np.argmin(score)]))
    return partition.device


def _capacity(instance: Instance) -> Floats:
    """Memory of each device; if unlimited, the size of all tensors."""
    everything = float(instance.size.sum()) or 1.0
    return np.where(np.isfinite(instance.memory), np.maximum(instance.memory, everything * 1e-9), everything)
