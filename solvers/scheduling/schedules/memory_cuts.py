"""Proofs that no schedule fits the memory: what is made and not yet read about the start of some vertex.

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

Vertices that may finish within the tolerance of a time are left out with what they make and read. The others last
longer than a span of L = 2 (k + 2) times the tolerance of the longest schedule, so on each of k devices at most one of
them starts in the L before v, or finishes in the L behind its start. Some part of L is free of both, and releases that
are a tolerance early do not count in it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from instances.files.columns import Ints
from instances.graph import Graph
from instances.scheduling import TOLERANCE, Instance

#: Sizes are rounded down to the parts of the sum of all sizes that are so many.
PARTS = 2**40

#: More than any cut.
WHOLE = 4 * PARTS

#: Vertices at whose start is cut in the first pass.
FIRST = 24

#: Numbers of vertices whose orders are searched together, one after another.
MILESTONES = (3, 6, 10, 16, 32, 64, 128)

#: Vertices beyond which they are not chosen: what is before each takes a bit per vertex.
MOST_NODES = 20_000

#: Most operations of a vertex that are priced, in mean operations of all vertices.
CAPS = (1.0, 1.6)

#: Prices tried at a vertex at most, for each of these.
PRICES = 6

#: Relative errors of all sums of floats here are below.
ROUNDING = 1e-9


def none_fits(instance: Instance, seconds: float) -> bool:
    """Say if it is proven, within so many seconds, that no schedule fits the memory."""
    end = time.monotonic() + seconds
    found = [cuts for devices in _confined(instance) if (cuts := _Cuts(instance, devices, end)).possible()]
    first, rest = _spread(instance)
    return (
        any(cuts.refuted([v]) for cuts in found for v in first)
        or any(cuts.refuted(chosen) for cuts in found for chosen in _milestones(cuts))
        or any(cuts.refuted([v]) for cuts in found for v in rest)
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


def _milestones(cuts: _Cuts) -> Iterator[list[int]]:
    """Ever larger sets of vertices that last, with many others before and behind them that few of them share."""
    graph, n = cuts.instance.graph, cuts.instance.nodes
    if n > MOST_NODES:
        return
    before, behind = _closures(graph), _closures(Graph(n, graph.head, graph.tail))
    lasting = np.flatnonzero(cuts.lasts).tolist()
    chosen, near, far = list[int](), 0, 0
    for count in MILESTONES:
        while len(chosen) < min(count, len(lasting)):
            v = max(
                (v for v in lasting if v not in chosen),
                key=lambda v: min((before[v] & ~near).bit_count(), (behind[v] & ~far).bit_count()),
            )
            chosen.append(v)
            near, far = near | before[v], far | behind[v]
        yield list(chosen)


def _closures(graph: Graph) -> list[int]:
    """All that is before each vertex, and itself, as the bits of a number."""
    before = [0] * graph.nodes
    for v in graph.topological_order.tolist():
        before[v] = 1 << v
        for u in graph.predecessors(v).tolist():
            before[v] |= before[u]
    return before


class _Cuts:
    """Minimum cuts between what has finished and what has not started, of tensors that are read on some devices only.

    ``size``   shape (m,): sizes that count, the others 0
    ``parts``  shape (m,): the same in whole parts, rounded down
    ``room``   parts that are too many to hold, rounded up
    """

    def __init__(self, instance: Instance, devices: Ints, end: float) -> None:
        self.instance, self.end, graph = instance, end, instance.graph
        allowed = set(devices.tolist())
        sets = [allowed.issuperset(choice.tolist()) for choice in instance.unit_choices]
        confined = np.array([*sets, len(devices) == instance.devices])[instance.unit_choice[instance.unit]]
        self.lasts = instance.complexity / instance.fastest() > 2 * (instance.devices + 2) * TOLERANCE * (
            instance.horizon()
        )
        counted = self.lasts[graph.tail] & self.lasts[graph.head] & confined[graph.head]
        self.size = np.where(counted, instance.size, 0.0)
        self.part = (float(self.size.sum()) or 1.0) / PARTS
        self.parts = np.floor(self.size / self.part * (1 - 1e-15)).astype(np.int64)
        room = float(instance.capacity[devices].sum()) / self.part * (1 + ROUNDING)
        self.room = max(1, math.ceil(room)) if room < WHOLE else WHOLE  # something must be held
        self.reserved = instance.holding == "reserved"
        self.window = 0.0 if self.reserved else self._operations()
        self.price: dict[float, float] = {}

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

    def refuted(self, chosen: list[int]) -> bool:
        """Say if some vertices cannot start in any order without exceeding all memory at the start of one of them.

        Depth first through the sets of them that have started; the order is a path from none to all.
        """
        ready = [self._ready(v) for v in chosen]
        known, left, everything = {0}, [0], (1 << len(chosen)) - 1
        while left:
            started = left.pop()
            if started == everything:
                return False
            for i in range(len(chosen)):
                then = started | 1 << i
                if then in known:
                    continue
                if time.monotonic() >= self.end:
                    return False
                before = set().union(*(ready[j] for j in range(len(chosen)) if then >> j & 1))
                waits = [v for j, v in enumerate(chosen) if not started >> j & 1]
                if not self._overfull(before, waits):
                    known.add(then)
                    left.append(then)
        return True

    def _ready(self, v: int) -> set[int]:
        """Vertices that have finished at the start of v, or have started before, such that all before these have."""
        graph = self.instance.graph
        return set(graph.predecessors(v).tolist() if self.reserved else self._last_that_last(v))

    def _overfull(self, ready: set[int], waits: list[int]) -> bool:
        """Say if what is held surely exceeds all memory when some vertices are ready and others have not started."""
        if not ready or not self.lasts[waits].all():
            return False
        every = None if self.reserved else np.full(len(self.lasts), WHOLE)
        if self._least(ready, waits, every)[0] < self.room:
            return False
        return self.reserved or any(self._priced(ready, waits, cap) for cap in CAPS)

    def _priced(self, ready: set[int], waits: list[int], cap: float) -> bool:
        """Say if some price proves it, with prices of at most ``cap`` times that of a mean vertex.

        What a price proves is concave in it: a price goes up while more than the window's operations are bought.
        """
        complexity = self.instance.complexity
        most = cap * float(complexity.mean())
        straddling = 2 * self.instance.devices if self.window else self.instance.devices
        bought = np.minimum(complexity, most)
        low, high = 0.0, math.inf
        price = self.price.get(cap) or PARTS / (float(bought.sum()) or 1.0)
        for _ in range(PRICES):
            with np.errstate(all="ignore"):
                prices = np.floor(np.minimum(bought * price * (1 - 1e-15), WHOLE)).astype(np.int64)
            allowance = self.window * price * (1 + ROUNDING) + straddling * int(prices.max(initial=0))
            if not allowance < WHOLE:
                high = price
                price /= 4
                continue
            cut, between = self._least(ready, waits, prices)
            self.price[cap] = price
            if cut - math.ceil(allowance) >= self.room:
                return True
            if cut < self.room or float(bought[between].sum()) > self.window + straddling * most:
                low = price
            else:
                high = price
            if low >= high:
                break
            price = math.sqrt(low * high) if low and math.isfinite(high) else (price * 3 if low else price / 3)
        return False

    def _least(self, ready: set[int], waits: list[int], prices: Ints | None) -> tuple[int, NDArray[np.bool_]]:
        """The least cut, and which vertices are between its sets: two with prices, shape (n,), for these; else one."""
        from ortools.graph.python import max_flow

        graph, n, flow = self.instance.graph, self.instance.nodes, max_flow.SimpleMaxFlow()
        finished, started = np.arange(n), np.arange(n) + (n if prices is not None else 0)
        source, sink = 2 * n, 2 * n + 1
        some = self.parts > 0
        flow.add_arcs_with_capacity(finished[graph.tail[some]], started[graph.head[some]], self.parts[some])
        flow.add_arcs_with_capacity(finished[graph.head], finished[graph.tail], np.full(graph.edges, WHOLE))
        if prices is not None:
            flow.add_arcs_with_capacity(started[graph.head], started[graph.tail], np.full(graph.edges, WHOLE))
            flow.add_arcs_with_capacity(finished, started, np.full(n, WHOLE))
            flow.add_arcs_with_capacity(started, finished, prices)
        inside = started[list(ready)]
        flow.add_arcs_with_capacity(np.full(len(inside), source), inside, np.full(len(inside), WHOLE))
        flow.add_arcs_with_capacity(started[waits], np.full(len(waits), sink), np.full(len(waits), WHOLE))
        flow.solve(source, sink)
        side = np.zeros(2 * n + 2, dtype=bool)
        side[flow.get_source_side_min_cut()] = True
        return flow.optimal_flow(), side[started] & ~side[finished]

    def _last_that_last(self, v: int) -> list[int]:
        """The last vertices that last on each path to a vertex."""
        seen, found, left = {v}, list[int](), [v]
        while left:
            for w in self.instance.graph.predecessors(left.pop()).tolist():
                if w not in seen:
                    seen.add(w)
                    (found if self.lasts[w] else left).append(w)
        return found
