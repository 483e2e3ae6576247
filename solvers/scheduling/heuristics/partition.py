"""A partial partition: the devices that remain for a vertex and its colocation group."""

from __future__ import annotations

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.scheduling import Instance


class Partition:
    """Devices of vertices, assigned by colocation groups.

    ``device``  shape (n,), int64: -1 if not yet assigned
    ``used``    shape (k,): total size of the tensors read on a device; if it is below capacity, memory suffices for any
                schedule
    ``load``    shape (k,): computing time of a device
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.device: Ints = np.full(instance.nodes, -1, dtype=np.int64)
        self.used, self.load = np.zeros(instance.devices), np.zeros(instance.devices)
        units = len(instance.unit_choice)
        read = np.bincount(instance.graph.head, weights=instance.size, minlength=instance.nodes)
        self.need = np.bincount(instance.unit, weights=read, minlength=units)
        self.work = np.bincount(instance.unit, weights=instance.complexity, minlength=units)
        self._members = np.argsort(instance.unit, kind="stable")
        self._starts = np.searchsorted(instance.unit[self._members], np.arange(units + 1))
        self._all: Ints = np.arange(instance.devices)

    def choices(self, v: int) -> Ints:
        """Allowed devices of the vertex's group with room for all that it reads; else those with most room.

        Section 3.1 excludes devices "with insufficient spare capacity". Equation (2) limits the tensors that wait on a
        device at the same time, which depend on the schedule. In the worst case all tensors ever read there wait at
        once, so a device with room by this rule fits any schedule. If no device has such room, the tensors may still
        fit; the simulation of the schedule shows it.
        """
        unit = self.instance.unit[v]
        number = self.instance.unit_choice[unit]
        devices = self._all if number < 0 else self.instance.unit_choices[number]
        spare = self.instance.capacity[devices] - self.used[devices]
        roomy = spare > self.need[unit]
        return devices[roomy] if roomy.any() else devices[spare == spare.max()]

    def choices_of_all(self, vertices: list[int]) -> Ints:
        """Devices that the groups of all these unassigned vertices may use, with room for all that they read."""
        units = np.unique(self.instance.unit[vertices])
        devices = self._all
        for number in np.unique(self.instance.unit_choice[units]).tolist():
            if number >= 0:
                devices = np.intersect1d(devices, self.instance.unit_choices[number])
        return devices[self.instance.capacity[devices] - self.used[devices] > self.need[units].sum()]

    def assign(self, v: int, device: int) -> None:
        """Put a vertex and its colocation group on a device."""
        unit = self.instance.unit[v]
        self.device[self._members[self._starts[unit] : self._starts[unit + 1]]] = device
        self.used[device] += self.need[unit]
        self.load[device] += self.work[unit] / self.instance.speed[device]
