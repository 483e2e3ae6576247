"""Heads and tails: the earliest start of a vertex on a device, and the least time after its end, in any schedule."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from instances.files.columns import Floats, Ints
from instances.graph import Graph, Index
from instances.scheduling import Instance
from solvers.registry import Run
from solvers.scheduling._kernels import Simulator
from solvers.scheduling.heuristics.ranks import longest_before

#: Vertices before one that are looked at together for whether they share its device.
WINDOW = 24

#: Edges times pairs of devices that a second suffices for, by far.
PACE = 8_000_000

#: Vertices of a pair lag problem, the first included, that suffice for most paths that part and meet again.
NEAR = 14

#: Vertices of a pair lag problem at most.
REACH = 24

#: Devices for pair lags at least.
FEW = 4

#: Devices beyond which pair lags gain little.
ENOUGH = 12

#: Edges times triples of devices times pairs of vertices looked at together that a second suffices for, by far.
PACE_BEHIND = 1_000_000_000

#: The same with branches.
PACE_SEARCHED = 100_000_000

#: Devices of earlier vertices that are searched for each vertex on each device (of 4, 16 and 64, 64 closes most).
BRANCHES = 64

#: Share of the time left that each pass may take, by estimate.
SHARE = 0.3

#: Vertices times pairs of devices times vertices looked at together whose lags take 256 MiB.
ROOM = 2**24


@dataclass(frozen=True)
class HeadsTails:
    """Heads and tails of the vertices of an instance.

    ``instance``  the devices; few may stand for many, each as fast, and linked as well, as the best of those
    ``start``     shape (n, k): no schedule starts a vertex on a device before; infinite where it may not go
    ``time``      shape (n, k): what it takes there
    ``behind``    shape (n, k): no schedule ends sooner after it has finished there
    ``several``   shape (k,): whether a device stands for several
    """

    instance: Instance
    start: Floats
    time: Floats
    behind: Floats
    several: NDArray[np.bool_]

    @classmethod
    def of(cls, instance: Instance, start: Floats, behind: Floats) -> Self:
        """Heads and tails on the devices of an instance, which may be merged ones."""
        time = instance.complexity[:, None] / instance.speed
        return cls(instance, start, time, behind, np.isfinite(np.diagonal(instance.bandwidth)))

    @property
    def head(self) -> Floats:
        """No schedule starts each vertex before, shape (n,)."""
        return self.start.min(axis=1)

    @property
    def tail(self) -> Floats:
        """No schedule ends sooner after each vertex has finished, shape (n,)."""
        return self.behind.min(axis=1)

    def longest(self) -> float:
        """No makespan is below the longest of all vertices, each on its best device."""
        return float((self.start + self.time + self.behind).min(axis=1).max(initial=0.0))


def heads_and_tails(instance: Instance, seconds: float) -> HeadsTails:
    """Heads and tails with as many different devices as so many seconds suffice for."""
    most = math.isqrt(int(1 + PACE * seconds / max(1, instance.edges)))
    few = merged(instance, max(2, most))
    nothing = np.zeros((few.nodes, few.devices))
    return raise_ends(few, 0, 0, nothing, nothing.copy())


def ever_closer(instance: Instance, run: Run) -> Iterator[HeadsTails]:
    """Heads and tails in three passes (``docs/methods/scheduling.md``); each may take a share of the time left."""
    known = heads_and_tails(instance, run.remaining() * SHARE)
    yield known
    known = paired_heads_and_tails(instance, known, run.remaining() * SHARE)
    yield known
    yield paired_heads_and_tails(instance, known, run.remaining() * SHARE, BRANCHES)


def paired_heads_and_tails(instance: Instance, known: HeadsTails, seconds: float, branches: int = 0) -> HeadsTails:
    """Raise known heads and tails, on fewer devices, by the lags between vertices near each other.

    Let x come before v, and L(d, e) bound the time from the end of x on device d to the start of v on e. Then v starts
    on e no earlier than the least sum, over d, of the end of x there and L(d, e). For L all that is between the two
    counts, and x has a single device: if paths part at x and meet at v, they cannot each begin on a device of their
    own without a transfer, and on one device they run one after another (``pair_lags.c``). With ``branches``, so many
    devices of earlier vertices are searched for each vertex on each device (``head_bounds.c``), unless the seconds are
    too few for that: then what is known comes back.
    """
    work = (PACE_SEARCHED if branches else PACE_BEHIND) * seconds / max(1, instance.edges)
    most = max(FEW, min(ENOUGH, int((work / NEAR**2) ** (1 / 3))), int((work / REACH**2) ** (1 / 3)))
    most = min(most, max(FEW, math.isqrt(ROOM // max(1, instance.nodes * NEAR))))
    few = merged(instance, most)
    start, behind = (least_of_merged(end, instance, few.devices) for end in (known.start, known.behind))
    room = ROOM // max(1, few.nodes * few.devices**2)
    reach = min(REACH, math.isqrt(int(work / few.devices**3)), room)
    return raise_ends(few, reach, branches, start, behind) if reach >= NEAR or not branches else known


def raise_ends(few: Instance, reach: int, branches: int, start: Floats, behind: Floats) -> HeadsTails:
    """Raise known heads and tails in place."""
    orders = early_first(few, few.graph), early_first(few, few.graph.reversed)
    Simulator(few).heads_tails(*orders, WINDOW, reach, branches, start, behind)
    return HeadsTails.of(few, start, behind)


def least_of_merged(known: Floats, instance: Instance, most: int) -> Floats:
    """The least of bounds on some devices, shape (n, any), for each of ``most`` that they are merged into."""
    before, after = _labels(instance, known.shape[1]), _labels(instance, most)
    columns = [known[:, np.unique(before[after == d])].min(axis=1) for d in range(most)]
    return np.stack(columns, axis=1)


def early_first(instance: Instance, graph: Graph) -> Index:
    """A topological order, those first that may start early on the fastest devices."""
    time = instance.complexity / instance.fastest()
    place = np.empty(instance.nodes, dtype=np.int64)
    place[graph.topological_order] = np.arange(instance.nodes)
    return np.lexsort((place, longest_before(graph, time))).astype(np.int32)


def merged(instance: Instance, most: int) -> Instance:
    """The instance without limits of memory, on at most so many devices; schedules only get shorter.

    Devices of like speed become one that is as fast and as well linked as the best of them; on the diagonal of the
    bandwidths stands what they have among each other. Three quarters, the fastest, stay themselves.
    """
    k = instance.devices
    free = replace(instance, memory=np.full(k, np.inf), links="independent", holding="waiting")
    if k <= most:
        return free
    order, first, label = np.argsort(-instance.speed, kind="stable"), _first(k, most), _labels(instance, most)
    return replace(
        free,
        choices=tuple(np.unique(label[choice]) for choice in instance.choices),
        device_names=tuple(map(str, range(most))),
        speed=instance.speed[order[first]],
        bandwidth=_merged_links(instance.bandwidth[np.ix_(order, order)], first),
        memory=np.full(most, np.inf),
    )


def _first(k: int, most: int) -> Ints:
    """The places, of devices from the fastest on, at which each of ``most`` merged ones begins."""
    rest = max(1, most // 4)
    alone = most - rest
    return np.r_[np.arange(alone), alone + np.arange(rest) * (k - alone) // rest]


def _labels(instance: Instance, most: int) -> Ints:
    """Of at most so many devices the one that each is merged into, shape (k,)."""
    k = instance.devices
    label = np.arange(k)
    if k > most:
        place = np.searchsorted(_first(k, most), np.arange(k), side="right") - 1
        label[np.argsort(-instance.speed, kind="stable")] = place
    return label


def _merged_links(bandwidth: Floats, first: Ints) -> Floats:
    """The greatest bandwidth between any of some devices and any of others; infinite within a single one.

    Several without links among them count as linked by a slow one: what is sent can still stay on one of them.
    """
    np.fill_diagonal(bandwidth, 0.0)
    slowest = bandwidth.min(initial=1.0, where=bandwidth > 0)
    links: Floats = np.maximum.reduceat(np.maximum.reduceat(bandwidth, first, axis=0), first, axis=1)
    np.fill_diagonal(links, np.where(np.diagonal(links) > 0, np.diagonal(links), slowest))
    single = np.diff(np.append(first, len(bandwidth))) == 1
    links[single, single] = np.inf
    return links


def proved(value: float, instance: Instance) -> float:
    """A bound that sums of floats along a path, or over vertices, give, rounded down by more than all of their errors.

    Numbers are added up or compared, none is negative, so relative errors add up with the sums along a path. From one
    vertex of it to the next there are fewer than `WINDOW` + 8 of them, also within what passes between two vertices.
    Where the work of many vertices stands for a part of a path it has at most as many sums as vertices, and the greater
    error of ends counts; speeds are summed up over devices. Without any schedule a bound may be infinite: 0.
    """
    sums = (WINDOW + 8) * instance.nodes + instance.devices
    return 0.0 if math.isinf(value) else value * (1 - 1e-12 - sums * float(np.finfo(np.float64).eps))
