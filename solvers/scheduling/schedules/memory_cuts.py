"""Proofs that no schedule fits the memory: what is made and not yet read at some moment.

Let a vertex v start. What has finished then, and what has started, are sets closed under predecessors, and a minimum
cut finds those for which least is held. What all devices hold together is below the sum of their capacities.

``reserved``  At the start of v all before it has finished, and neither v nor anything behind it has. Each tensor from
    the set that has finished, F, to any other vertex is held.
``waiting``   Just before the start of v all before it has started and nothing behind it has. Let S have started, and
    let F have finished before the longest transfer, of length T, began. Each tensor from F to a vertex outside S has
    arrived and waits. What is in S and not in F ran at some time of the last T; on each device it did so whole, all but
    the first and the last. So its operations are at most T times the speeds of all devices, but for two vertices a
    device. That is relaxed with a price per operation, at most a ``most`` per vertex, so that a vertex may be in S and
    not in F at its price (a Lagrangian relaxation; the cut in two layers and its prices are ours).

Times agree only up to a tolerance, e for the longest schedule. Vertices that last no longer than L = 2 (k + 2) e, on k
devices, are left out with what they make and read. Of the others, each device starts at most one in any span of length
L, and finishes at most one. So in the L before the start of v, and likewise behind the moment at which the set reaches
its size, there is a part longer than 2 e in which none starts or finishes, and there what is held does not depend on
the tolerance. Until that part fewer than k more start or finish: sets of so many more vertices are searched as well.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray

from instances.files.columns import Ints
from instances.scheduling import TOLERANCE, Instance
from solvers.scheduling._kernels import Simulator
from solvers.scheduling.schedules.memory_conflicts import too_many_conflicts

#: Sizes are rounded down to the parts of the sum of all sizes that are so many.
PARTS = 2**40

#: More than any cut.
WHOLE = 4 * PARTS

#: Vertices at whose start is cut in the first pass.
FIRST = 24

#: Vertices times edges beyond which sets of a size are not searched: to choose a vertex to branch on takes that long.
MOST_SIZED = 10**8

#: Most operations of a vertex that are priced, in mean operations of all vertices.
CAPS = (1.0, 1.6)

#: Prices tried for each of these, and each as a share of the one before.
PRICES = 16
STEP = 0.7

#: Share of the time left that sets of some sizes may take.
SIZE_SHARE = 0.8

#: Sizes of sets, as shares of the vertices that last. With prices, the first size and some of the prices are tried.
SIZES = (0.4, 0.5, 0.3)
PRICED = slice(8, 14, 2)

#: Share of the time for sizes that a trial of each takes; the rest is for the most promising ones.
TRIAL = 0.05

#: Share of the sets of a size that its trial must refute.
PROMISING = 0.01

#: Relative errors of all sums of floats here are below.
ROUNDING = 1e-9


def none_fits(instance: Instance, seconds: float) -> bool:
    """Say if it is proven, within so many seconds, that no schedule fits the memory."""
    end = time.monotonic() + seconds
    every = [_Cuts(instance, devices, end) for devices in _confined(instance)]
    found = [cuts for cuts in every if cuts.possible()]
    first, rest = _spread(instance)
    return (
        any(too_many_conflicts(instance, cuts.devices, cuts.lasting, end) for cuts in every)
        or any(cuts.refuted(v) for cuts in found for v in first)
        or any(cuts.one_size_refuted(SIZE_SHARE) for cuts in found)
        or any(cuts.refuted(v) for cuts in found for v in rest)
    )


def _confined(instance: Instance) -> Iterator[Ints]:
    """Sets of devices with limits that some vertices may not leave: all devices, and what choices allow."""
    for devices in (np.arange(instance.devices), *instance.unit_choices):
        if np.isfinite(instance.memory[devices]).all():
            yield devices


def _spread(instance: Instance) -> tuple[list[int], list[int]]:
    """A few vertices that are spread over the whole of a topological order, and the others."""
    order, n = instance.graph.topological_order, instance.nodes
    first = np.unique(np.linspace(0, n - 1, min(n, FIRST)).astype(np.int64))
    return order[first].tolist(), np.delete(order, first).tolist()


class _Cuts:
    """Minimum cuts between what has finished and what has not started, of tensors that are read on some devices only.

    ``size``   shape (m,): sizes that count, the others 0
    ``parts``  shape (m,): the same in whole parts, rounded down
    ``room``   parts that are too many to hold, rounded up
    ``lasts``  shape (n,): vertices that last longer than the span
    ``lasting``  those of them that are confined to the devices
    ``proofs``  numbers of the cuts that are proofs
    """

    def __init__(self, instance: Instance, devices: Ints, end: float) -> None:
        self.instance, self.devices, self.end, graph = instance, devices, end, instance.graph
        allowed = set(devices.tolist())
        sets = [allowed.issuperset(choice.tolist()) for choice in instance.unit_choices]
        confined = np.array([*sets, len(devices) == instance.devices])[instance.unit_choice[instance.unit]]
        self.lasts = instance.complexity / instance.fastest() > 2 * (instance.devices + 2) * TOLERANCE * (
            instance.horizon()
        )
        self.lasting = np.flatnonzero(self.lasts & confined)
        counted = self.lasts[graph.tail] & self.lasts[graph.head] & confined[graph.head]
        self.size = np.where(counted, instance.size, 0.0)
        self.part = (float(self.size.sum()) or 1.0) / PARTS
        self.parts = np.floor(self.size / self.part * (1 - 1e-15)).astype(np.int64)
        room = float(instance.capacity[devices].sum()) / self.part * (1 + ROUNDING)
        self.room = max(1, math.ceil(room)) if room < WHOLE else WHOLE  # something must be held
        self.reserved = instance.holding == "reserved"
        self.window = 0.0 if self.reserved else self._operations()
        self._simulator = Simulator(instance)
        self._prices, self._enough = self._cuts()
        self.proofs = range(bool(len(self._prices)), len(self._enough))

    def _operations(self) -> float:
        """The most operations that run whole within the longest transfer, rounded up; infinite if unknown."""
        instance = self.instance
        if instance.devices == 1:
            return 0.0
        if instance.links != "independent":
            return math.inf
        links = instance.bandwidth[~np.eye(instance.devices, dtype=bool)]
        slowest = links[links > 0].min(initial=np.inf)
        with np.errstate(all="ignore"):
            found = float(self.size.max(initial=0.0) / slowest * instance.speed.sum() * (1 + ROUNDING))
        return math.inf if math.isnan(found) else found

    def possible(self) -> bool:
        """Say if a cut of all tensors would be a proof."""
        return math.isfinite(self.window) and int(self.parts.sum()) >= self.room

    def refuted(self, v: int) -> bool:
        """Say if the start of a vertex would overfill memory, whatever else may have started or finished.

        Cuts with prices are tried only if the one that sells nothing shows that.
        """
        if not self.lasts[v] or time.monotonic() >= self.end:
            return False
        fixed = np.zeros(self.instance.nodes, dtype=np.int8)
        fixed[self.instance.graph.predecessors(v) if self.reserved else self._last_that_last(v)] = 1
        fixed[v] = -1
        every = 0, self.instance.nodes
        shown = self._share(0, fixed, every) == 1
        return shown and any(cut == 0 or self._share(cut, fixed, every) == 1 for cut in self.proofs)

    def one_size_refuted(self, share: float) -> bool:
        """Say if all sets of some size that may have finished overfill memory, within a share of the time left.

        With ``waiting``, the size counts what may have started.
        """
        seconds, total, priced = (self.end - time.monotonic()) * share, int(self.lasts.sum()), len(self._prices) > 0
        if self.instance.nodes * self.instance.edges > MOST_SIZED:
            return False
        sizes = [max(1, round(size * total)) for size in (SIZES[:1] if priced else SIZES)]
        choices = list(product(sizes, self.proofs[PRICED] if priced else self.proofs))
        end, shares = time.monotonic() + seconds, dict[tuple[int, int], float]()
        for choice in choices:
            shares[choice] = self.share_refuted(*choice, seconds * TRIAL)
            if shares[choice] == 1:
                return True
        ranked = sorted(
            (choice for choice in choices if shares[choice] > PROMISING), key=lambda choice: -shares[choice]
        )
        return any(self.share_refuted(*choice, end - time.monotonic()) == 1 for choice in ranked)

    def share_refuted(self, size: int, cut: int, seconds: float) -> float:
        """Return the share of sets of a size that overfill memory; 1 proves that nothing fits.

        The size counts vertices that last, and lies between 1 and their number. Sets with up to one vertex less than
        there are devices beyond that count as well, as devices may start or finish vertices at once.
        """
        sizes = size, size + self.instance.devices - 1
        return self._share(cut, np.zeros(self.instance.nodes, dtype=np.int8), sizes, seconds)

    def _share(self, cut: int, fixed: NDArray[np.int8], sizes: tuple[int, int], seconds: float = math.inf) -> float:
        """Return the share of sets, with some vertices fixed and of some sizes, that overfill memory in a cut."""
        prices = self._prices[cut] if len(self._prices) else None
        counted, seconds = self.lasts, min(seconds, self.end - time.monotonic())
        if seconds <= 0:
            return 0.0
        return self._simulator.set_cuts(self.parts, prices, int(self._enough[cut]), fixed, counted, sizes, seconds)

    def _cuts(self) -> tuple[Ints, Ints]:
        """Prices, shape (cuts, n), and what proves that nothing fits in each cut, shape (cuts,).

        The first cut sells nothing, so that no other one finds more. Beyond the greatest price, the allowance alone is
        more than all parts.
        """
        n, total, complexity = self.instance.nodes, int(self.parts.sum()), self.instance.complexity
        if self.reserved or not math.isfinite(self.window):
            return np.zeros((0, n), dtype=np.int64), np.array([self.room])
        rows, enough = [np.full(n, 2 * (total + 1))], [self.room]
        straddling = 2 * self.instance.devices if self.window else self.instance.devices
        for cap in CAPS:
            bought = np.minimum(complexity, cap * float(complexity.sum()) / max(1, n))
            greatest = (total - self.room) / (self.window + straddling * float(bought.max(initial=0.0)) or 1.0)
            for price in greatest * STEP ** np.arange(PRICES):
                with np.errstate(all="ignore"):
                    prices = np.floor(np.minimum(bought * price * (1 - 1e-15), 2 * total)).astype(np.int64)
                    allowance = self.window * price * (1 + ROUNDING) + straddling * int(prices.max(initial=0))
                if allowance < WHOLE:
                    rows.append(prices)
                    enough.append(self.room + math.ceil(allowance))
        return np.array(rows), np.array(enough)

    def _last_that_last(self, v: int) -> list[int]:
        """The last vertices that last on each path to a vertex."""
        seen, found, left = {v}, list[int](), [v]
        while left:
            for w in self.instance.graph.predecessors(left.pop()).tolist():
                if w not in seen:
                    seen.add(w)
                    (found if self.lasts[w] else left).append(w)
        return found
