"""Heads and tails: the earliest start of a vertex on a device, and the least time after its end, in any schedule."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shardmark.instances.files.columns import Floats
from shardmark.instances.graph import Graph, Index
from shardmark.instances.scheduling import Instance
from shardmark.solvers.registry import Run
from shardmark.solvers.scheduling._kernels import Simulator
from shardmark.solvers.scheduling.heuristics.ranks import longest_before
from shardmark.solvers.scheduling.schedules.merged_devices import least_of_merged, merged

#: Number of ancestors of a vertex considered together, to find those that must share its device.
ANCESTORS = 24

#: Edges x pairs of devices per second in the first pass, a low estimate.
PACE = 8_000_000

#: Vertices of a subproblem of lags, including its first, that suffice for most paths that part and meet again.
NEAR = 14

#: Most vertices of such a subproblem.
REACH = 24

#: Least number of devices for lags.
FEW = 4

#: Number of devices beyond which lags gain little.
ENOUGH = 12

#: Edges x triples of devices x pairs of vertices of a subproblem per second in the second pass, a low estimate.
PACE_BEHIND = 1_000_000_000

#: The same in the third pass.
PACE_SEARCHED = 100_000_000

#: Most branches of the third pass per vertex and device (of 4, 16 and 64, 64 gives the best bounds).
BRANCHES = 64

#: Share of the remaining time that a pass may take, by estimate.
SHARE = 0.3

#: Vertices x pairs of devices x vertices of a subproblem whose lags take 256 MiB.
ROOM = 2**24


@dataclass(frozen=True)
class HeadsTails:
    """Heads and tails of the vertices of an instance.

    ``instance``  whose devices may be merged
    ``start``     shape (n, k): least start of a vertex on a device in any schedule; infinite if not allowed there
    ``behind``    shape (n, k): least time from its end there to the end of the schedule, likewise
    """

    instance: Instance
    start: Floats
    behind: Floats

    @cached_property
    def time(self) -> Floats:
        """Running time of each vertex on each device, shape (n, k)."""
        return self.instance.complexity[:, None] / self.instance.speed

    @property
    def head(self) -> Floats:
        """Least start of each vertex on any device, shape (n,)."""
        return self.start.min(axis=1)

    @property
    def tail(self) -> Floats:
        """Least time from the end of each vertex to the end of the schedule, shape (n,)."""
        return self.behind.min(axis=1)

    def longest(self) -> float:
        """Lower bound on the makespan: the greatest sum of head, time and tail of a vertex on its best device."""
        return float((self.start + self.time + self.behind).min(axis=1).max(initial=0.0))


def heads_and_tails(instance: Instance, seconds: float) -> HeadsTails:
    """Heads and tails by the first pass, on as many devices as ``seconds`` allow."""
    most = math.isqrt(int(1 + PACE * seconds / max(1, instance.edges)))
    few = merged(instance, max(2, most))
    nothing = np.zeros((few.nodes, few.devices))
    return raise_ends(few, 0, 0, nothing, nothing.copy())


def heads_tails_passes(instance: Instance, run: Run) -> Iterator[HeadsTails]:
    """Yield heads and tails after each of three passes (``docs/methods/scheduling.md``), within the time left."""
    known = heads_and_tails(instance, run.remaining() * SHARE)
    yield known
    known = paired_heads_and_tails(instance, known, run.remaining() * SHARE)
    yield known
    yield paired_heads_and_tails(instance, known, run.remaining() * SHARE, BRANCHES)


def paired_heads_and_tails(instance: Instance, known: HeadsTails, seconds: float, branches: int = 0) -> HeadsTails:
    """Raise known heads and tails by lags between near vertices, on as many devices as ``seconds`` allow.

    Let x be an ancestor of v, and let the lag L(d, e) be a lower bound on the time from the end of x on device d to the
    start of v on e. Then v starts on e no earlier than the minimum over d of the end of x on d plus L(d, e). A lag is
    the head of v in a subproblem in which x has run on d (``pair_lags.c``). If several paths lead from x to v, all of
    them begin on d: either their vertices run there in sequence, or some tensors are transferred. With ``branches``,
    heads follow from a search over the devices of earlier vertices (``head_bounds.c``); if there is no time for that,
    the known heads and tails are returned.
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
    """Raise known heads and tails, shape (n, k) each, in place: ``heads_tails.h``."""
    orders = early_first(few, few.graph), early_first(few, few.graph.reversed)
    Simulator(few).heads_tails(*orders, ANCESTORS, reach, branches, start, behind)
    return HeadsTails(few, start, behind)


def early_first(instance: Instance, graph: Graph) -> Index:
    """A topological order, shape (n,), by earliest start on the fastest devices without transfers."""
    time = instance.complexity / instance.fastest()
    place = np.empty(instance.nodes, dtype=np.int64)
    place[graph.topological_order] = np.arange(instance.nodes)
    return np.lexsort((place, longest_before(graph, time))).astype(np.int32)


def proved(value: float, instance: Instance) -> float:
    """Lower a bound by more than the errors of its sums; 0 if it is infinite, as no schedule exists.

    No number is negative, so relative errors accumulate with the additions along a path. From one vertex of a path to
    the next there are fewer than `ANCESTORS` + 8 additions, also within a lag. If the work of many vertices replaces a
    part of a path, there are at most as many additions as vertices, and the greater error of the two ends counts;
    speeds are summed over devices.
    """
    sums = (ANCESTORS + 8) * instance.nodes + instance.devices
    return 0.0 if math.isinf(value) else value * (1 - 1e-12 - sums * float(np.finfo(np.float64).eps))
