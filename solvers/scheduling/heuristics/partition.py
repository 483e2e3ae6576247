"""A partition in the making: which devices a vertex may still go to, with what shares its device."""

from __future__ import annotations

import numpy as np

from instances.files.columns import Ints
from instances.scheduling import Instance


class Partition:
    """Devices of vertices, assigned one colocation group after another.

    ``device``  shape (n,), int64: -1 where a vertex has none yet
    ``used``    shape (k,): sizes of all tensors that vertices on a device read; as they never wait there all at once,
                memory suffices for sure while this is below capacity
    ``load``    shape (k,): time that a device computes
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
        """Devices that the vertex's group may use and that have room for all it reads; else those with most room.

        Section 3.1 excludes devices "with insufficient spare capacity". What will wait on a device at a time, which
        Equation (2) limits, is not known before the schedule is; that all tensors that are ever read there wait at once
        is the worst case, so what has room by this rule fits whatever the schedule. Where no device has, what waits at
        a time may still fit: whether it does is seen when the schedule is run.
        """
        unit = self.instance.unit[v]
        number = self.instance.unit_choice[unit]
        devices = self._all if number < 0 else self.instance.unit_choices[number]
        spare = self.instance.capacity[devices] - self.used[devices]
        roomy = spare > self.need[unit]
        return devices[roomy] if roomy.any() else devices[spare == spare.max()]

    def choices_of_all(self, vertices: list[int]) -> Ints:
        """Devices that the groups of all these vertices may use, none assigned yet, with room for all they read."""
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
