"""Proofs that no schedule fits the memory: minimum cuts bound what all devices hold at some moment.

At any moment, the vertices that have finished and those that have started are sets closed under predecessors. Of all
such sets a minimum cut finds those for which least is held. If that is not below the sum of the capacities, no schedule
fits. The moment is the start of a vertex v, or the one at which a set reaches a given size.

``reserved``  When v starts, its ancestors have finished, and neither v nor its descendants have. Each tensor from the
    set F that has finished to any other vertex is held.
``waiting``   Just before v starts, its ancestors have started, and its descendants have not. Let S have started, and
    let F have finished at least the length T of the longest transfer ago. Each tensor from F to a vertex outside S has
    arrived and waits. The vertices in S and not in F ran within the last T, whole but for the first and the last on
    each device. So, without these two, their operations are at most T times the sum of the speeds. This limit is
    relaxed with a price per operation (a Lagrangian relaxation), which a vertex pays if it is in S and not in F. The
    operations that a vertex pays for are capped, which keeps the two per device cheap.

Times agree only up to a tolerance, e for the longest schedule. Vertices that last no longer than L = 2 (k + 2) e, on k
devices, are left out with the tensors that they make and read. Of the others, each device starts at most one in any
span of length L, and finishes at most one. So there is a part longer than 2 e, of the span before the start of v or
after the moment at which the set reaches its size, in which none starts or finishes, and there what is held does not
depend on the tolerance. Before that part fewer than k more start or finish, so sets with up to k - 1 more vertices are
searched as well.
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

#: Sizes are rounded down to integers, parts, of which all sizes together have so many.
PARTS = 2**40

#: More than any cut, in parts.
WHOLE = 4 * PARTS

#: Number of vertices, spread over the graph, whose starts are cut before sets of a size are searched.
FIRST = 24

#: Vertices x edges beyond which sets of a size are not searched: the choice of a vertex to branch on takes that long.
MOST_SIZED = 10**8

#: Most operations that a vertex pays for, in mean operations of a vertex.
CAPS = (1.0, 1.6)

#: Number of prices tried with each cap, and the quotient of one and the one before.
PRICES = 16
STEP = 0.7

#: Share of the time left that sets of a size may take.
SIZE_SHARE = 0.8

#: Sizes of sets, as shares of the lasting vertices. With prices, only the first size and these prices are tried.
SIZES = (0.4, 0.5, 0.3)
PRICED = slice(8, 14, 2)

#: Share of the time for sizes that the trial of each takes; the rest is for the most promising ones.
TRIAL = 0.05

#: Least share of the sets of a size that its trial must refute for the search to go on.
PROMISING = 0.01

#: Upper bound on the relative errors of all sums of floats here.
ROUNDING = 1e-9


def none_fits(instance: Instance, seconds: float) -> bool:
    """Say if it is proven, within so many seconds, that no schedule fits the memory."""
    end = time.monotonic() + seconds
    every = []
    for devices in limited_devices(instance):
        if time.monotonic() >= end:
            return False
        every.append(MemoryCuts(instance, devices, end))
    possible = [cuts for cuts in every if cuts.possible()]
    first, rest = _spread(instance)
    return (
        any(too_many_conflicts(instance, cuts.devices, cuts.confined, end) for cuts in every)
        or any(cuts.refuted(v) for cuts in possible for v in first)
        or any(cuts.one_size_refuted() for cuts in possible)
        or any(cuts.refuted(v) for cuts in possible for v in rest)
    )


def limited_devices(instance: Instance) -> Iterator[Ints]:
    """Sets of devices with limits of memory that some vertices are restricted to; all devices are the first."""
    for devices in (np.arange(instance.devices), *instance.unit_choices):
        if np.isfinite(instance.memory[devices]).all():
            yield devices


def _spread(instance: Instance) -> tuple[list[int], list[int]]:
    """At most `FIRST` vertices, spread evenly over a topological order, and all others."""
    order, n = instance.graph.topological_order, instance.nodes
    first = np.unique(np.linspace(0, n - 1, min(n, FIRST)).astype(np.int64))
    return order[first].tolist(), np.delete(order, first).tolist()


class MemoryCuts:
    """Minimum cuts between what has finished and what has not started, for tensors that only some ``devices`` read.

    ``size``        shape (m,): size of each tensor that counts, else 0
    ``parts``       shape (m,): the same as integers, rounded down
    ``room``        least number of parts that the devices cannot hold, rounded up
    ``operations``  most operations that all devices run whole within the longest transfer; infinite if unknown
    ``lasting``     shape (n,): whether a vertex lasts longer than L
    ``confined``    the lasting vertices that may use no other devices
    ``proofs``      indices of the cuts that can be proofs
    """

    def __init__(self, instance: Instance, devices: Ints, end: float) -> None:
        self.instance, self.devices, self.end, graph = instance, devices, end, instance.graph
        allowed = set(devices.tolist())
        sets = [allowed.issuperset(choice.tolist()) for choice in instance.unit_choices]
        confined = np.array([*sets, len(devices) == instance.devices])[instance.unit_choice[instance.unit]]
        span = 2 * (instance.devices + 2) * TOLERANCE * instance.horizon()
        self.lasting = instance.complexity / instance.fastest() > span
        self.confined = np.flatnonzero(self.lasting & confined)
        counted = self.lasting[graph.tail] & self.lasting[graph.head] & confined[graph.head]
        self.size = np.where(counted, instance.size, 0.0)
        self.part = (float(self.size.sum()) or 1.0) / PARTS
        self.parts = np.floor(self.size / self.part * (1 - 1e-15)).astype(np.int64)
        room = float(instance.capacity[devices].sum()) / self.part * (1 + ROUNDING)
        self.room = max(1, math.ceil(room)) if room < WHOLE else WHOLE  # something must be held
        self.reserved = instance.holding == "reserved"
        self.operations = 0.0 if self.reserved else self._most_operations()
        self._simulator = Simulator(instance)
        self._prices, self._enough = self._cuts()
        self.proofs = range(bool(len(self._prices)), len(self._enough))

    def _most_operations(self) -> float:
        """Operations within the longest transfer, rounded up; infinite if links are not independent."""
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
        """Say if memory would overflow if all tensors were held at once."""
        return math.isfinite(self.operations) and int(self.parts.sum()) >= self.room

    def refuted(self, v: int) -> bool:
        """Say if memory overflows at the start of a vertex, whatever else has started or finished.

        The first cut has prohibitive prices; other prices are tried only if it shows this.
        """
        if not self.lasting[v] or time.monotonic() >= self.end:
            return False
        fixed = np.zeros(self.instance.nodes, dtype=np.int8)
        fixed[self.instance.graph.predecessors(v) if self.reserved else self._lasting_before(v)] = 1
        fixed[v] = -1
        every = 0, self.instance.nodes
        shown = self._share(0, fixed, every) == 1
        return shown and any(cut == 0 or self._share(cut, fixed, every) == 1 for cut in self.proofs)

    def one_size_refuted(self) -> bool:
        """Say if memory overflows whichever set of some size has finished; if tensors wait, has started."""
        total, priced = int(self.lasting.sum()), len(self._prices) > 0
        seconds = (self.end - time.monotonic()) * SIZE_SHARE
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
        """Return the share of the sets of a size for which memory overflows; 1 proves that nothing fits.

        The size is the number of lasting vertices, at least 1. Sets with up to k - 1 more, on k devices, count as well.
        """
        sizes = size, size + self.instance.devices - 1
        return self._share(cut, np.zeros(self.instance.nodes, dtype=np.int8), sizes, seconds)

    def _share(self, cut: int, fixed: NDArray[np.int8], sizes: tuple[int, int], seconds: float = math.inf) -> float:
        """Return the share of the sets of these sizes, with some vertices ``fixed``, for which a cut is a proof."""
        prices = self._prices[cut] if len(self._prices) else None
        seconds = min(seconds, self.end - time.monotonic())
        if seconds <= 0:
            return 0.0
        return self._simulator.set_cuts(self.parts, prices, int(self._enough[cut]), fixed, self.lasting, sizes, seconds)

    def _cuts(self) -> tuple[Ints, Ints]:
        """Prices of each cut, shape (cuts, n), and the least cut that is a proof, shape (cuts,); no rows if none count.

        The prices of the first cut are prohibitive, so S is F, and no other cut is greater. Beyond the greatest price
        that is tried, the allowance for what the limits permit exceeds all parts.
        """
        n, total, complexity = self.instance.nodes, int(self.parts.sum()), self.instance.complexity
        if self.reserved or not math.isfinite(self.operations):
            return np.zeros((0, n), dtype=np.int64), np.array([self.room])
        rows, enough = [np.full(n, 2 * (total + 1))], [self.room]
        straddling = 2 * self.instance.devices if self.operations else self.instance.devices
        for cap in CAPS:
            paid = np.minimum(complexity, cap * float(complexity.sum()) / max(1, n))
            greatest = (total - self.room) / (self.operations + straddling * float(paid.max(initial=0.0)) or 1.0)
            for price in greatest * STEP ** np.arange(PRICES):
                with np.errstate(all="ignore"):
                    prices = np.floor(np.minimum(paid * price * (1 - 1e-15), 2 * total)).astype(np.int64)
                    allowance = self.operations * price * (1 + ROUNDING) + straddling * int(prices.max(initial=0))
                if allowance < WHOLE:
                    rows.append(prices)
                    enough.append(self.room + math.ceil(allowance))
        return np.array(rows), np.array(enough)

    def _lasting_before(self, v: int) -> list[int]:
        """The last lasting vertex of each path to a vertex, without the vertex itself."""
        seen, found, left = {v}, list[int](), [v]
        while left:
            for w in self.instance.graph.predecessors(left.pop()).tolist():
                if w not in seen:
                    seen.add(w)
                    (found if self.lasting[w] else left).append(w)
        return found
