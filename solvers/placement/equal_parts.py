"""Equal numbers of consecutive nodes of a topological order for all accelerators."""

from __future__ import annotations

import numpy as np

from shardmark.instances.placement import Instance
from shardmark.solvers.placement.ideals.blocks import blocks
from shardmark.solvers.registry import Declined, Run, solver


@solver(
    track="placement",
    source="the splits by hand of convolutional networks in Tarnawski et al. 2020, Section 6",
    proves_bounds=False,
)
def equal_parts(instance: Instance, run: Run) -> None:
    """Assign equally long runs of consecutive nodes; declines if one is unsupported or exceeds memory."""
    if not instance.accelerators or not instance.supported.all():
        raise Declined("accelerators do not support every node")
    block = blocks(instance)
    before = np.concatenate([[0], np.cumsum(np.bincount(block))])[block]
    device = before * instance.accelerators // max(instance.nodes, 1)
    if np.bincount(device, weights=instance.size).max(initial=0.0) > instance.capacity:
        raise Declined("as many nodes for each accelerator do not fit the memory")
    run.report(device)
