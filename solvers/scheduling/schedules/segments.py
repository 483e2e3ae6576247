"""Segments of the critical path: heads and tails raised by searches for the shortest schedule of each segment."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.graph import Graph, members
from shardmark.instances.scheduling import Instance
from shardmark.solvers.registry import Run
from shardmark.solvers.scheduling._kernels import Simulator
from shardmark.solvers.scheduling.schedules.heads_tails import NEAR, HeadsTails, early_first, raise_ends
from shardmark.solvers.scheduling.schedules.merged_devices import least_of_merged, merged

#: Most vertices of a segment, both ends included.
MOST = 70

#: Most vertices of a graph: the descendants of all take n^2 bits.
LARGEST = 20_000

#: A segment ends at a vertex whose longest path is at most this share shorter than the longest of all.
NEARLY = 1e-2

#: Near-critical: vertices whose longest path is at most this share shorter. A segment should end where few of them run
#: in parallel.
NEAR_CRITICAL = 0.02

#: Least size of a segment, as a share of the largest possible one there.
LEAST = 0.5

#: First and least step above the known length of a segment, as shares of that length.
FIRST_LIFT, LEAST_LIFT = 8e-3, 1e-4

#: Most nodes of the search tree of a refutation, and first estimate of nodes per second, a low one.
NODES = 6_000
PACE = 1_500

#: Least number of nodes of a refutation that measures the nodes per second.
MEASURED = 100

#: Number of ancestors of a vertex considered together at a node (of 0, 4, 8 and 24, 4 is fastest).
CLOSE = 4

#: A device of the last vertex is tried if its path exceeds the best by at most this share of the length.
SPREAD = 0.03

#: Most devices, merged ones included.
DEVICES = 20

#: Seconds between two bounds.
PAUSE = 1.0

#: Relative error of differences of times, far above that of floats.
ERROR = 1e-12


@dataclass(frozen=True)
class Segment:
    """The ``vertices``, ascending, on all paths from the first to the last; from all sources if the first is -1."""

    first: int
    last: int
    vertices: Ints


def segments(ends: HeadsTails) -> list[Segment]:
    """Successive segments, each from the last vertex of the one before, as far along the graph as possible."""
    graph, found, first = ends.instance.graph, list[Segment](), -1
    if graph.nodes > LARGEST:
        return found
    length = (ends.start + ends.time + ends.behind).min(axis=1)
    if not np.isfinite(length).all():
        return found
    near, cut = (
        np.flatnonzero(length >= length.max(initial=0.0) * (1 - short)).tolist() for short in (NEARLY, NEAR_CRITICAL)
    )
    before, behind = graph.ancestors(), graph.reversed.ancestors()
    near_critical = sum(1 << v for v in cut)
    parallel = {v: (near_critical & ~before[v] & ~behind[v]).bit_count() for v in near}
    while True:
        within = behind[first] if first >= 0 else -1
        sizes = {v: (before[v] & within).bit_count() for v in near if within >> v & 1 and v != first}
        largest = max((size for size in sizes.values() if size <= MOST), default=0)
        if not largest:
            return found
        suited = [v for v, size in sizes.items() if LEAST * largest <= size <= MOST]
        last = min(suited, key=lambda v: (parallel[v], sizes[v]))
        found.append(Segment(first, last, members(before[last] & within, graph.nodes)))
        first = last


def raised_by_segments(instance: Instance, known: HeadsTails, run: Run, seconds: float) -> Iterator[float]:
    """Raise heads and tails along the critical path segment by segment; yield bounds on the makespan, unrounded.

    The vertices of a segment start no earlier than the heads of its first vertex allow. If every schedule of the
    segment with the last vertex v on device d takes longer than T (``refute.c``), v does not end there before T. The
    next segment begins with the new heads of v. On several cores, a second thread raises tails from the last segment
    backwards.
    """
    ends = _on_few(instance, known)
    parts = segments(ends)
    if not parts:
        return
    half = -(-len(parts) // 2) if run.cores > 1 else len(parts)
    sweeps = [(ends, parts[:half])]
    if parts[half:]:
        sweeps.append((_reversed(ends), [Segment(p.last, p.first, p.vertices) for p in reversed(parts[half:])]))
    deadline = time.monotonic() + seconds
    with ThreadPoolExecutor(len(sweeps)) as pool:
        running = {pool.submit(_sweep, *sweep, deadline) for sweep in sweeps}
        while running:
            ended, running = wait(running, timeout=PAUSE)
            for done in ended:
                done.result()
            yield ends.longest()


def _on_few(instance: Instance, known: HeadsTails) -> HeadsTails:
    """Known heads and tails, copied, on at most `DEVICES` devices."""
    most = min(DEVICES, instance.devices)
    if most == known.instance.devices:
        return replace(known, start=known.start.copy(), behind=known.behind.copy())
    few = merged(instance, most)
    start, behind = (least_of_merged(end, instance, most) for end in (known.start, known.behind))
    return HeadsTails(few, start, behind)


def _reversed(ends: HeadsTails) -> HeadsTails:
    """Heads and tails of the reversed graph; the arrays are shared, so its heads are the tails of the graph."""
    instance = replace(ends.instance, graph=ends.instance.graph.reversed, bandwidth=ends.instance.bandwidth.T)
    return replace(ends, instance=instance, start=ends.behind, behind=ends.start)


def _sweep(ends: HeadsTails, parts: list[Segment], deadline: float) -> None:
    """Raise the heads of the last vertex of each segment in turn, each in an equal share of the remaining time."""
    for i, segment in enumerate(parts):
        now = time.monotonic()
        if now >= deadline or (segment.first >= 0 and np.isinf(ends.start[segment.first]).all()):
            return
        _Search(ends, segment, now + (deadline - now) / (len(parts) - i)).run()


class _Search:
    """A search for the shortest schedule of a segment for each device of its last vertex, until a ``deadline``."""

    def __init__(self, ends: HeadsTails, segment: Segment, deadline: float) -> None:
        self.ends, self.last, self.deadline = ends, segment.last, deadline
        self.pace = float(PACE)
        self.instance = part_of(ends.instance, segment.vertices)
        self.place = int(np.searchsorted(segment.vertices, segment.last))
        self.base = float(ends.start[segment.first].min()) if segment.first >= 0 else 0.0
        head = np.maximum(ends.start[segment.vertices] * (1 - ERROR) - self.base, 0.0)
        self.known = raise_ends(self.instance, NEAR, 0, head, np.where(np.isinf(head), np.inf, 0.0))
        graph = self.instance.graph
        self.simulator = Simulator(self.instance)
        self.orders = early_first(self.instance, graph), early_first(self.instance, graph.reversed)

    def run(self) -> None:
        """Raise the heads of the last vertex, always on the device of least makespan."""
        time_, behind, start = self.ends.time[self.last], self.ends.behind[self.last], self.ends.start[self.last]
        length = np.maximum(self.known.start[self.place], start * (1 - ERROR) - self.base) + time_
        lift, done = FIRST_LIFT * length, np.isinf(length + behind) | (length <= 0)
        most = np.inf
        while not done.all() and time.monotonic() < self.deadline:
            whole = np.where(done, np.inf, length + behind)
            d = int(whole.argmin())
            if whole[d] > most:
                break
            if self._refuted(d, length[d] + lift[d]):
                length[d], lift[d] = length[d] + lift[d], 2 * lift[d]
                continue
            lift[d] /= 4
            if lift[d] <= LEAST_LIFT * length[d]:
                done[d], most = True, min(most, whole[d] + SPREAD * length[d])
        np.maximum(start, (self.base + length) * (1 - ERROR) - time_, out=start)

    def _refuted(self, device: int, longest: float) -> bool:
        """True if every schedule with the last vertex on a device is proved longer than ``longest``; else False."""
        other = np.arange(self.instance.devices) != device
        start, behind = self.known.start.copy(), self.known.behind.copy()
        start[self.place, other] = behind[self.place, other] = np.inf
        begun = time.monotonic()
        nodes = max(1, min(NODES, int(self.pace * (self.deadline - begun))))
        refuted, left = self.simulator.refute(*self.orders, CLOSE, start, behind, longest, nodes)
        if nodes - left >= MEASURED:
            self.pace = (nodes - left) / max(time.monotonic() - begun, 1e-9)
        return refuted


def part_of(instance: Instance, vertices: Ints) -> Instance:
    """The instance induced by some vertices, in ascending order."""
    graph, number = instance.graph, np.full(instance.nodes, -1)
    number[vertices] = np.arange(len(vertices))
    inside = (number[graph.tail] >= 0) & (number[graph.head] >= 0)
    return replace(
        instance,
        graph=Graph(len(vertices), number[graph.tail[inside]], number[graph.head[inside]]),
        node_names=tuple(instance.node_names[v] for v in vertices.tolist()),
        complexity=instance.complexity[vertices],
        size=instance.size[inside],
        colocation=instance.colocation[vertices],
        choice=instance.choice[vertices],
    )
