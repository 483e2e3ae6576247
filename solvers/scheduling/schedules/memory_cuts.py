"""Proofs that no schedule fits the memory: minimum cuts bound the memory that all devices need at some moment.

At any moment, the set of finished vertices and the set of started vertices are closed under predecessors. A minimum cut
finds, among all such sets, those for which the devices hold least. If even that is not below the sum of the capacities,
no schedule fits. The moment is the start of a vertex v, or the moment at which a set reaches a given size.

``reserved``  When v starts, its ancestors have finished; v and its descendants have not. Every tensor from the set F of
    finished vertices to a vertex outside F is held.
``waiting``   Just before v starts, its ancestors have started; its descendants have not. Let S be the set of started
    vertices, and F the set of those that finished at least T ago, where T is the longest transfer time. Every tensor
    from F to a vertex outside S has arrived and waits. The vertices of S outside F ran within the last T, entirely
    except for at most the first and the last on each device. Without these two, their operations are at most T times
    the sum of all speeds. The cut relaxes this limit by a price per operation (a Lagrangian relaxation), paid by every
    vertex of S outside F. The operations that a vertex pays for are capped, so that the two exceptions per device cost
    little.

Times agree only up to a tolerance, e for the longest schedule. On k devices, vertices that last no longer than
L = 2 (k + 2) e are left out, together with the tensors that they make and read. In any interval of length L, each
device starts at most one of the other vertices, and finishes at most one. So the interval of length L before the start
of v, or after the moment at which the set reaches its size, contains a part longer than 2 e in which none starts or
finishes; there, the memory in use does not depend on the tolerance. Before that part, fewer than k further vertices
start or finish, so sets with up to k - 1 more vertices are searched as well.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.files.columns import Ints
from shardmark.instances.scheduling import TOLERANCE, Instance
from shardmark.solvers.scheduling._kernels import Simulator
from shardmark.solvers.scheduling.schedules.memory_conflicts import too_many_conflicts
from shardmark.solvers.scheduling.schedules.memory_orders import no_order_fits

#: Sizes are rounded down to integer parts; all sizes together have this many.
PARTS = 2**40

#: A number of parts greater than any cut.
WHOLE = 4 * PARTS

#: Number of vertices, evenly spread over the graph, whose starts are tried before sets of a given size.
FIRST = 24

#: Greatest vertices x edges for a search of sets of a given size, in which every choice of a branching vertex takes
#: that long.
MOST_SIZED = 10**8

#: Caps on the operations that a vertex pays for, in mean operations of a vertex.
CAPS = (1.0, 1.6)

#: Number of prices tried with each cap, and the quotient of successive prices.
PRICES = 16
STEP = 0.7

#: Share of the remaining time for orders, which are often exhausted soon or never.
ORDER_SHARE = 0.1

#: Share of the remaining time for sets of a given size.
SIZE_SHARE = 0.8

#: Sizes of sets, as shares of the lasting vertices. If there are prices, only the first size and these prices are
#: tried.
SIZES = (0.4, 0.5, 0.3)
PRICED = slice(8, 14, 2)

#: Share of that time for the trial of each size; the rest is for the most promising sizes.
TRIAL = 0.05

#: Least share of the sets of a size that its trial must refute for the search to continue.
PROMISING = 0.01

#: Upper bound on the relative errors of all sums of floats here.
ROUNDING = 1e-9


def none_fits(instance: Instance, seconds: float) -> bool:
    """True if it is proved within ``seconds`` that no schedule fits the memory."""
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
        or any(cuts.no_order_fits() for cuts in possible)
        or any(cuts.refuted(v) for cuts in possible for v in first)
        or any(cuts.one_size_refuted() for cuts in possible)
        or any(cuts.refuted(v) for cuts in possible for v in rest)
    )


def limited_devices(instance: Instance) -> Iterator[Ints]:
    """Sets of devices with limited memory: all devices, then every set to which vertices are restricted."""
    for devices in (np.arange(instance.devices), *instance.unit_choices):
        if np.isfinite(instance.memory[devices]).all():
            yield devices


def _spread(instance: Instance) -> tuple[list[int], list[int]]:
    """At most `FIRST` vertices, evenly spread over a topological order, and all others."""
    order, n = instance.graph.topological_order, instance.nodes
    first = np.unique(np.linspace(0, n - 1, min(n, FIRST)).astype(np.int64))
    return order[first].tolist(), np.delete(order, first).tolist()


class MemoryCuts:
    """Minimum cuts between finished and unstarted vertices, for the tensors that only ``devices`` can read.

    ``size``        shape (m,): size of each tensor, 0 if it does not count
    ``parts``       shape (m,): these sizes in integer parts, rounded down
    ``room``        least number of parts that the devices cannot hold, rounded up
    ``operations``  most operations of vertices that run entirely within the longest transfer time; infinite if unknown
    ``lasting``     shape (n,): True if a vertex lasts longer than L
    ``confined``    the lasting vertices that may use no other devices
    ``proofs``      indices of the usable cuts
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
        self.room = max(1, math.ceil(room)) if room < WHOLE else WHOLE  # at least 1: holding nothing always fits
        self.reserved = instance.holding == "reserved"
        self.operations = 0.0 if self.reserved else self._most_operations()
        self._simulator = Simulator(instance)
        self._prices, self._enough = self._cuts()
        self.proofs = range(bool(len(self._prices)), len(self._enough))

    def _most_operations(self) -> float:
        """Operations within the longest transfer time, rounded up; infinite if links are not independent."""
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
        """True if all tensors together would exceed the memory, so that a proof is possible."""
        return math.isfinite(self.operations) and int(self.parts.sum()) >= self.room

    def no_order_fits(self) -> bool:
        """True if every order of the vertices exceeds the memory."""
        if not self.reserved:
            return False
        n, graph, now = self.instance.nodes, self.instance.graph, time.monotonic()
        change = np.zeros(n, dtype=np.int64)
        np.add.at(change, graph.tail, self.parts)
        np.subtract.at(change, graph.head, self.parts)
        return no_order_fits(graph, change, self.room, now + ORDER_SHARE * (self.end - now))

    def refuted(self, v: int) -> bool:
        """True if memory is exceeded at the start of a vertex, whatever else has started or finished.

        The first cut has prohibitive prices; other prices are tried only if it succeeds.
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
        """True if for some size, every set of finished (``waiting``: started) vertices exceeds the memory."""
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
        """Share of the sets of a size that exceed the memory; 1 proves that no schedule fits.

        The size is the number of lasting vertices, at least 1. On k devices, sets with up to k - 1 more count as well.
        """
        sizes = size, size + self.instance.devices - 1
        return self._share(cut, np.zeros(self.instance.nodes, dtype=np.int8), sizes, seconds)

    def _share(self, cut: int, fixed: NDArray[np.int8], sizes: tuple[int, int], seconds: float = math.inf) -> float:
        """Share of the sets in a range of sizes, with some vertices ``fixed``, for which a cut is a proof."""
        prices = self._prices[cut] if len(self._prices) else None
        seconds = min(seconds, self.end - time.monotonic())
        if seconds <= 0:
            return 0.0
        return self._simulator.set_cuts(self.parts, prices, int(self._enough[cut]), fixed, self.lasting, sizes, seconds)

    def _cuts(self) -> tuple[Ints, Ints]:
        """Prices of each cut, shape (cuts, n), and the least value that is a proof, shape (cuts,).

        There are no prices if tensors do not wait or the operations are unknown. The prices of the first cut are
        prohibitive, so S = F, and no other cut is greater. At prices beyond the greatest one tried, the allowance for
        permitted operations exceeds all parts.
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
        """The last lasting vertex on each path to a vertex, without the vertex itself."""
        seen, found, left = {v}, list[int](), [v]
        while left:
            for w in self.instance.graph.predecessors(left.pop()).tolist():
                if w not in seen:
                    seen.add(w)
                    (found if self.lasting[w] else left).append(w)
        return found
