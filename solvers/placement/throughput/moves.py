"""The search space for throughput: the items that move between devices, and the model of their loads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.files.columns import Floats
from shardmark.instances.graph import Graph, Index, csr, strong_components
from shardmark.instances.placement import Instance
from shardmark.solvers.placement.ideals.blocks import edges_between, orders
from shardmark.solvers.placement.kernels.loads import Devices, LoadModel, Nets

#: Overlaps by their numbers in the core.
OVERLAPS = ("none", "half", "full")


@dataclass(frozen=True, eq=False)
class Space:
    """Placements of items on devices.

    ``item``     shape (n,), int32: the item of each node of the instance, 0, 1, ...
    ``devices``  costs of items; devices that could only stay idle are left out
    ``rules``    the model of loads, and the order of devices, if any
    """

    item: Index
    devices: Devices
    rules: LoadModel

    @cached_property
    def first(self) -> Index:
        """A node of each item."""
        return np.unique(self.item, return_index=True)[1].astype(np.int32)

    @cached_property
    def grain(self) -> float:
        """Mean work of an item, on CPUs if accelerators have none."""
        work = np.where(np.isfinite(self.devices.accelerator_time), self.devices.accelerator_time, 0.0)
        return float(work.mean() or self.devices.cpu_time.mean() or 1.0)


def spaces(instance: Instance) -> list[Space]:
    """The spaces of placements: one for free sets of units, or one for each way to order devices.

    Contiguous placements are restricted to those with an order of devices.
    """
    unit = instance.unit.astype(np.int32)
    if instance.contiguity == "free":
        return [_space(instance, unit, None)]
    found = []
    for tail, head in orders(instance):
        component = strong_components(int(unit.max(initial=-1)) + 1, tail, head)
        order = Graph(int(component.max(initial=-1)) + 1, *edges_between(component, tail, head))
        found.append(_space(instance, component[unit], order))
    return found


def _space(instance: Instance, item: Index, order: Graph | None) -> Space:
    items, apart = int(item.max(initial=-1)) + 1, instance.schedule == "gpipe"

    def sums(column: NDArray[Any]) -> Floats:
        return np.bincount(item, column, items).astype(np.float64)

    nets, maker, passed = _nets(instance, item, items)
    times, back = (instance.accelerator_time, instance.cpu_time), instance.backward
    devices = Devices(
        accelerators=min(instance.accelerators, items * (instance.cluster or 1)),  # one item per cluster may be best
        cpus=min(instance.cpus, items),
        memory=instance.capacity,
        accelerator_time=np.where(sums(~instance.supported) == 0, sums(times[0]), np.inf),
        cpu_time=sums(times[1]),
        size=sums(instance.size),
        nets=nets,
    )
    rules = LoadModel(
        overlap=OVERLAPS.index(instance.overlap),
        cluster=min(instance.cluster or 0, max(devices.accelerators, 1)),
        slowdown=instance.slowdown,
        maker=maker,
        passed=passed if apart else None,
        backward=(sums(times[0] * back), sums(times[1] * back)) if apart else None,
        order=order,
    )
    return Space(item, devices, rules)


def _nets(instance: Instance, item: Index, items: int) -> tuple[Nets, Index, Index]:
    """Return a net per tensor that leaves its item, its maker (-1 if irrelevant), and its pass.

    Tensors of the same items, maker and pass are merged.
    """
    tail, head = instance.graph.tail, instance.graph.head
    sent = ~instance.artificial & (instance.transfer[tail] > 0) & (item[tail] != item[head])
    tail, head = tail[sent].astype(np.int64), head[sent]
    pairs = np.unique(np.concatenate([tail, tail]) * items + np.concatenate([item[tail], item[head]]))
    made, pin = pairs // max(items, 1), pairs % max(items, 1)
    cuts = np.flatnonzero(np.diff(made, prepend=-1))
    directed = instance.overlap == "full" or instance.cluster is not None
    maker = item[made[cuts]] if directed else np.full(len(cuts), -1, dtype=np.int32)
    passed = instance.backward[made[cuts]] & (instance.schedule == "gpipe")
    costs: dict[tuple[int, bool, bytes], float] = {}
    for *kind, cost, members in zip(
        maker.tolist(), passed.tolist(), instance.transfer[made[cuts]].tolist(), np.split(pin, cuts[1:]), strict=False
    ):
        key = (*kind, members.tobytes())
        costs[key] = costs.get(key, 0.0) + cost
    of = [np.frombuffer(key[2], dtype=np.int64) for key in costs]
    sizes = np.array([len(members) for members in of], dtype=np.int32)
    pins = np.concatenate([*of, np.zeros(0, dtype=np.int64)])
    numbers = np.repeat(np.arange(len(of), dtype=np.int32), sizes)
    nets = Nets(*csr(items, pins, numbers), np.array(list(costs.values()), dtype=np.float64), sizes)
    kinds = np.array([key[:2] for key in costs], dtype=np.int32).reshape(-1, 2)
    return nets, kinds[:, 0].copy(), kinds[:, 1].copy()
