"""Lower bounds on throughput from work and memory, and from the neighbours of a unit."""

from __future__ import annotations

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.placement import Instance, greatest
from shardmark.instances.rounding import safely

#: Upper bound on the price of all memory, and of the memory of a unit, so that sums are finite.
HIGHEST_PRICE = 1e290
#: Factor on the price of all memory, against rounding.
SAFE = 1 + 1e-12


def load_bound(instance: Instance) -> float:
    """Least load if all work is balanced, within the accelerators' total memory."""
    if instance.accelerators and instance.cpus and instance.allreduce is None:
        return max(instance.load_bound(), within_memory(instance)[0])
    return instance.load_bound()


def node_bound(instance: Instance) -> float:
    """Least load of the device of some unit, which does a neighbour's work or pays for their tensors."""
    accelerator, cpu = instance.unit_times()
    busy = accelerator + _unavoidable(instance, accelerator)
    on_accelerators = _as_load(instance, accelerator, busy, instance.accelerators)
    on_cpus = _as_load(instance, cpu, cpu, instance.cpus)
    least = float(np.minimum(on_accelerators, on_cpus).max())
    return safely(least, instance.nodes + 2 * instance.edges)


def within_memory(instance: Instance) -> tuple[float, float, float]:
    """Solve the dual of the relaxation; return the bound, the share s of accelerator time and the memory price p.

    For min T subject to sum a x <= k T, sum c (1 - x) <= l T, sum m x <= k M, 0 <= x <= 1, a share s of accelerator
    time and a memory price p give the bound sum min(s a / k + p m, (1 - s) c / l) - p k M, concave in both. Prices
    above the greatest CPU time per size are not needed: they only send everything to the CPUs. Both sums are rounded to
    the safe side before they are subtracted.
    """
    accelerator, cpu = instance.unit_times()
    size = instance.of_units(instance.size)
    room = instance.accelerators * instance.capacity
    accelerator, cpu = accelerator / instance.accelerators, cpu / instance.cpus
    smallest = float(size[size > 0].min(initial=np.inf))
    highest = min(float(cpu.max(initial=0.0)) / smallest, HIGHEST_PRICE / max(1.0, float(size.max(initial=0.0)), room))
    best = (-np.inf, 0.0, 0.0)

    def priced(share: float, price: float) -> float:
        nonlocal best
        least = float(np.minimum(share * accelerator + price * size, (1 - share) * cpu).sum())
        bound = safely(least, instance.nodes) - price * room * SAFE
        best = max(best, (bound, share, price), key=lambda found: found[0])
        return bound

    if float(size.sum()) <= room:
        greatest(lambda share: priced(share, 0.0))
    else:
        greatest(lambda share: max(priced(share, 0.0), greatest(lambda part: priced(share, part**4 * highest))))
    return best


def _unavoidable(instance: Instance, accelerator: Floats) -> Floats:
    """Shape (units,): least time that a unit's accelerator spends on the unit's neighbours.

    A neighbour on another device costs the tensors that the unit reads from it, and the unit's tensors whose slowest
    reader it is. A neighbour on the same accelerator costs its own time.
    """
    unit, real = instance.unit, ~instance.artificial
    tail, head = instance.graph.tail[real].astype(np.int64), instance.graph.head[real].astype(np.int64)
    outside = unit[tail] != unit[head]
    tail, head = tail[outside], head[outside]
    slowest = _last_of_each(tail, accelerator[unit[head]])
    owner = np.concatenate([unit[head], unit[tail[slowest]]])
    other = np.concatenate([unit[tail], unit[head[slowest]]])
    tensor = np.concatenate([tail, tail[slowest]])
    each = np.unique(np.column_stack([owner, other, tensor]), axis=0)
    pairs, which = np.unique(each[:, :2], axis=0, return_inverse=True)
    moved = np.bincount(which.reshape(-1), weights=instance.transfer[each[:, 2]], minlength=len(pairs))
    cheaper = np.minimum(moved, accelerator[pairs[:, 1]])
    return np.bincount(pairs[:, 0], weights=cheaper, minlength=len(accelerator)).astype(np.float64)


def _last_of_each(key: Ints, value: Floats) -> Ints:
    """Index of the greatest value of each key."""
    order = np.lexsort((value, key))
    return order[np.append(np.diff(key[order]) > 0, True)] if len(order) else order


def _as_load(instance: Instance, computing: Floats, busy: Floats, devices: int) -> Floats:
    """Least load of a device with given times for computation and transfers, under overlap and replication.

    The minimum is at one replica, at ``devices`` replicas, or near the number at which computation and synchronisation
    take equally long.
    """
    load = np.maximum(computing, busy / {"none": 1, "half": 2, "full": 3}[instance.overlap])
    if instance.allreduce is None or devices < 2:
        return load
    whole = instance.of_units(instance.size) / instance.allreduce
    with np.errstate(over="ignore"):
        even = np.divide(load, whole, out=np.full(len(load), np.inf), where=whole > 0) + 1
    least = load
    for count in (devices, np.clip(np.floor(even), 1, devices), np.clip(np.ceil(even), 1, devices)):
        share, together = load / count, (1 - 1 / count) * whole
        least = np.minimum(least, share + together if instance.overlap == "none" else np.maximum(share, together))
    return least
