"""The machine and the devices of every replica of a layout.

Tensor-parallel degrees are powers of two, and divide the devices of a machine if there are several machines. So stages
placed in the order of their degrees, the largest first, always find room: before a stage of degree t is placed, t
divides the free devices of every machine, and as long as t devices are free in all, one machine has t of them.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """The devices of a replica: their numbers in a machine, from 0."""

    machine: int
    devices: tuple[int, ...]


def placed(data: Sequence[int], tensor: Sequence[int], machines: int, devices: int) -> list[tuple[Place, ...]]:
    """The places of the replicas of every stage, whose numbers and degrees are ``data`` and ``tensor``.

    A stage that fits one machine is in one if the stages before it leave room.
    """
    free = [devices] * machines
    found: list[tuple[Place, ...]] = [()] * len(data)
    small = [d * t <= devices for d, t in zip(data, tensor, strict=True)]
    for i in sorted(range(len(data)), key=lambda i: (-tensor[i], not small[i], -data[i])):
        whole = [m for m in range(machines) if free[m] >= data[i] * tensor[i]] if small[i] else []
        counts = {min(whole, key=free.__getitem__): data[i]} if whole else _spread(data[i], tensor[i], free)
        places = list[Place]()
        for machine, count in counts.items():
            for _ in range(count):
                first = devices - free[machine]
                places.append(Place(machine, tuple(range(first, first + tensor[i]))))
                free[machine] -= tensor[i]
        found[i] = tuple(sorted(places, key=lambda place: (place.machine, place.devices)))
    return found


def _spread(replicas: int, degree: int, free: Sequence[int]) -> dict[int, int]:
    """Return how many replicas each machine gets; the emptiest machines come first."""
    emptiest = [(-count, machine) for machine, count in enumerate(free)]
    heapq.heapify(emptiest)
    found = dict[int, int]()
    while replicas:
        count, machine = heapq.heappop(emptiest)
        found[machine] = min(-count // degree, replicas)
        replicas -= found[machine]
    return found
