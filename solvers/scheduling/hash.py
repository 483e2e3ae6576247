"""Hashing: random devices, with probabilities proportional to their memory."""

from __future__ import annotations

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.scheduling import Instance
from shardmark.solvers.scheduling.heuristics.local import partitioner
from shardmark.solvers.scheduling.heuristics.partition import Partition


@partitioner("hash", "Mayer et al. 2017, Section 3.1")
def hash_partition(instance: Instance, rng: np.random.Generator) -> Ints:
    """Draw a device for each colocation group with probability proportional to its memory.

    "Proportionally to the capacity of the devices": in Section 2, capacity means memory. If no memory is limited, all
    devices are equally likely.
    """
    partition, capacity = Partition(instance), _capacity(instance)
    _, first = np.unique(instance.unit, return_index=True)
    for v, chance in zip(first.tolist(), rng.random(len(first)).tolist(), strict=True):
        choices = partition.choices(v)
        shares = np.cumsum(capacity[choices])
        partition.assign(v, int(choices[np.searchsorted(shares, chance * shares[-1], side="right")]))
    return partition.device


def _capacity(instance: Instance) -> Floats:
    """Memory of each device as a share of the largest limit; unlimited memory counts as the largest limit."""
    limited = instance.memory[np.isfinite(instance.memory)]
    largest = float(limited.max(initial=0.0)) or 1.0
    return np.clip(instance.memory / largest, 1e-9, 1.0)
