"""Critical path: the longest path on the fastest device, all other vertices where they finish earliest."""

from __future__ import annotations

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.scheduling import Instance
from shardmark.solvers.scheduling.heuristics.local import partitioner
from shardmark.solvers.scheduling.heuristics.path import around_the_path


@partitioner("critical-path", "Mayer et al. 2017, Section 3.2.2")
def critical_path(instance: Instance, rng: np.random.Generator) -> Ints:
    """Assign the critical path to the fastest device, others to the device that finishes first: Equation (7)."""
    return around_the_path(instance)
