"""Hashing: devices by chance, in proportion to their memory."""

from __future__ import annotations

import numpy as np

from instances.files.columns import Floats, Ints
from instances.scheduling import Instance
from solvers.scheduling.heuristics.local import partitioner
from solvers.scheduling.heuristics.partition import Partition


@partitioner("hash", "Mayer et al. 2017, Section 3.1")
def hash_partition(instance: Instance, rng: np.random.Generator) -> Ints:
    """Draw a device for each colocation group, the likelier the more memory it has.

    "Proportionally to the capacity of the devices": Section 2 calls memory a capacity and speed a speed. Where no
    memory has a limit all devices are alike.
    """
    partition, capacity = Partition(instance), _capacity(instance)
    _, first = np.unique(instance.unit, return_index=True)
    for v, chance in zip(first.tolist(), rng.random(len(first)).tolist(), strict=True):
        choices = partition.choices(v)
        shares = np.cumsum(capacity[choices])
        partition.assign(v, int(choices[np.searchsorted(shares, chance * shares[-1], side="right")]))
    return partition.device


def _capacity(instance: Instance) -> Floats:
    """Memory of each device, as a share of the largest limit; what has no limit counts as much as that."""
    limited = instance.memory[np.isfinite(instance.memory)]
    largest = float(limited.max(initial=0.0)) or 1.0
    return np.clip(instance.memory / largest, 1e-9, 1.0)
