"""A bound on throughput from minimum cuts: all accelerators together as one device, and all CPUs as another."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.placement import Instance
from shardmark.instances.rounding import safely
from shardmark.solvers.placement.kernels.loads import Nets, cheapest_pool
from shardmark.solvers.placement.throughput.moves import spaces
from shardmark.solvers.placement.throughput.simple_bounds import SAFE, within_memory

Marks = NDArray[np.bool_]

#: All work and transfers of a cut become integers that sum to less than 2 to this power.
BITS = 48
#: Maximum number of cuts; of a hundred thousand nodes, eight are enough.
CUTS = 30
#: The search ends if no share can raise the bound by more than this fraction.
ENOUGH = 1e-5


@dataclass(frozen=True, eq=False)
class Pooled:
    """A bound, and what gives it: the units on accelerators, shape (units,), bool, the share and the memory price."""

    bound: float
    inside: Marks
    share: float
    price: float


def pooled_bound(instance: Instance, nets: Nets | None = None, end: float = math.inf) -> Pooled:
    """Lower bound by work and by the tensors between accelerators and CPUs.

    An accelerator pays for each tensor with a unit on it and a unit on a CPU. So if S is the set of units on
    accelerators, the accelerators together take A(S): the work of S plus every tensor with some, but not all, units in
    S. The CPUs take C(S), the work of the rest. Of k accelerators and l CPUs, one has a load of at least s A(S) / k +
    (1 - s) C(S) / l, for any share s in [0, 1]. A minimum cut gives the least such sum over all S (Stone 1977), here
    with capacities rounded down. It remains a bound if units also pay a price for accelerator memory, and the price of
    all that memory is subtracted.

    The price is that of `within_memory`. The next share is the one at which a division that favours accelerators and
    one that favours CPUs cost the same. No cut begins after ``end``, on `time.monotonic`. The bound is 0 for overlaps
    and replicas, whose loads are not sums, and without CPUs or accelerators. ``nets`` are those of units, built if not
    given. Our own: the search for shares, and memory prices.
    """
    if instance.overlap != "none" or instance.allreduce is not None or not (instance.accelerators and instance.cpus):
        return Pooled(0.0, np.zeros(0, dtype=np.bool_), 0.0, 0.0)
    _, share, price = within_memory(instance)
    pools = _Pools(instance, nets or spaces(replace(instance, contiguity="free"))[0].devices.nets, price)
    found, most = pools.cut(share), pools.costs(pools.supported)
    least = pools.costs(np.zeros_like(pools.supported))
    best = found
    for _ in range(CUTS - 1):
        costs = pools.costs(found.inside)
        most, least = (costs, least) if costs[1] > costs[0] else (most, costs)
        low, high = least[0] - most[0], most[1] - least[1]
        if not (low > 0 and high > 0) or time.monotonic() >= end:
            break
        share = low / (low + high)
        if best.bound >= (1 - ENOUGH) * ((1 - share) * most[0] + share * most[1] - price * pools.room):
            break
        found = pools.cut(share)
        best = max(best, found, key=lambda pooled: pooled.bound)
    return best


class _Pools:
    """Divisions of units between accelerators and CPUs, at a ``price`` of memory; ``room`` is the total memory."""

    def __init__(self, instance: Instance, nets: Nets, price: float) -> None:
        self.accelerator, self.cpu = instance.unit_times()
        self.supported = np.isfinite(self.accelerator)
        self.accelerator = np.where(self.supported, self.accelerator, 0.0) / instance.accelerators
        self.cpu = self.cpu / instance.cpus
        self.transfer = nets.cost / instance.accelerators
        self.rent = np.where(self.supported, instance.of_units(instance.size), 0.0) * price
        self.price, self.room = price, instance.accelerators * instance.capacity
        self._nets, self._terms = nets, instance.nodes + instance.edges
        self._pin = np.repeat(np.arange(len(self.cpu)), np.diff(nets.start))

    def costs(self, inside: Marks) -> tuple[float, float]:
        """The cost of a division at the shares 0 and 1; it is linear in the share."""
        members = np.bincount(self._nets.of, inside[self._pin], len(self.transfer))
        shared = (members > 0) & (members < self._nets.members)
        rent = float(self.rent[inside].sum())
        accelerator = float(self.accelerator[inside].sum() + self.transfer[shared].sum())
        return float(self.cpu[~inside].sum()) + rent, accelerator + rent

    def cut(self, share: float) -> Pooled:
        """The bound at a share. Work above the sum of all other costs is capped: no cheapest division pays it."""
        transfer, apart = share * self.transfer, (1 - share) * self.cpu
        total = float(transfer.sum() + apart.sum())
        scale = 2.0 ** min(BITS - math.frexp(total)[1], 1000)
        work = np.minimum(share * self.accelerator + self.rent, total)
        whole = [(column * scale).astype(np.int64) for column in (transfer, work, apart)]
        whole[1][~self.supported] = -1
        value, inside = cheapest_pool(self._nets, *whole)
        bound = safely(value / scale, self._terms) - self.price * self.room * SAFE
        return Pooled(bound, inside, share, self.price)
