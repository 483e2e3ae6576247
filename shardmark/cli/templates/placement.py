"""NAME: say in one line what the method is."""

from __future__ import annotations

import numpy as np

from shardmark import Declined, Run, solver
from shardmark.instances.placement import OPTIONS, Instance
from shardmark.solvers.placement.ideals.blocks import blocks


@solver(track="placement", source="where the method is described")
def name(instance: Instance, run: Run) -> None:
    """Say in one line what it does; tables show it."""
    for option in sorted(OPTIONS.keys() - {"contiguity"}):  # its splits satisfy every contiguity
        if getattr(instance, option) != OPTIONS[option].default:
            raise Declined(f"does not know {option} {getattr(instance, option)}")
    block = blocks(instance)  # nodes that must share a device, or wait for each other: 0, 1, ... in topological order
    device = np.array(next_fit(instance, block), dtype=int)[block]  # accelerators are 0 to k - 1, then come the CPUs
    run.report(device)  # report every better solution, as it is found, until run.remaining() is 0


def next_fit(instance: Instance, block: np.ndarray) -> list[int]:
    """Fill accelerators in turn, each up to an even share of the work; CPUs take what accelerators cannot run."""
    supported = (np.bincount(block, ~instance.supported) == 0).tolist()
    size = np.bincount(block, instance.size).tolist()
    time = np.bincount(block, instance.accelerator_time).tolist()
    share = sum(time) / max(instance.accelerators, 1)
    used = cpus = 0
    room = left = 0.0  # memory and share of work left on the current accelerator
    device: list[int] = []
    for b in range(len(size)):
        on_accelerator = bool(device) and device[-1] < instance.accelerators
        fits = supported[b] and size[b] <= instance.capacity
        if on_accelerator and supported[b] and size[b] <= room and (left > 0 or used == instance.accelerators):
            device.append(device[-1])
        elif fits and used < instance.accelerators:
            device.append(used)
            used, room, left = used + 1, instance.capacity, share
        elif device and not on_accelerator:
            device.append(device[-1])
        elif cpus < instance.cpus:
            device.append(instance.accelerators + cpus)
            cpus += 1
        else:
            raise Declined("the devices are used up before all nodes are placed")
        room, left = room - size[b], left - time[b]
    return device
