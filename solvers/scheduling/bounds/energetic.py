"""Lower bound: work that must run within an interval of time needs a long enough interval."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.graph import Graph
from shardmark.instances.scheduling import Instance
from shardmark.solvers.registry import Run, bound
from shardmark.solvers.scheduling.schedules.formulas import (
    ERROR,
    Bounds,
    Claim,
    certify,
    critical_cases,
    heads,
    work_of,
)
from shardmark.solvers.scheduling.schedules.heads_tails import SHARE, HeadsTails, heads_tails_passes, proved
from shardmark.solvers.scheduling.schedules.segments import raised_by_segments

#: Pairs of vertices per second when counting the work before each vertex, a low estimate.
PACE = 50_000_000

#: Number of starts, and of ends, of intervals that are tested in all combinations.
EDGES = 512

#: Number of sets of devices that are tested.
SETS = 32

#: Share of the remaining time for segments of the critical path.
SEGMENTS = 0.8


@bound(track="scheduling", source="energetic reasoning: Erschler & Lopez 1990, with heads and tails of critical-path")
def energetic(instance: Instance, run: Run) -> None:
    """Refute makespans: work between heads and tails must fit all devices, each colocation group one device.

    Segments of the critical path raise heads and tails after the second pass, and again after the third if there is
    time; see `raised_by_segments`.
    """
    bounds = Bounds(run, instance.simple_bound())
    found, last, claims, began = 0.0, None, list[Claim](), time.process_time()
    for number, ends in enumerate(heads_tails_passes(instance, run)):
        if ends is last:  # no time for the third pass
            break
        last = ends
        found = max(found, ends.longest(), *(sequence_bound(ends, group) for group in _groups(instance)))
        bounds.offer(proved(found, instance))
        if not number and run.certify:
            claims = [*heads(instance, found), *_intervals(instance, ends)]
        if number:
            bounds.offer(proved(_work_between(instance, ends, run), instance))
            for value in raised_by_segments(instance, ends, run, run.remaining() * SEGMENTS):
                bounds.offer(proved(value, instance))
    if run.certify and last is not None:
        claims += heads(instance, last.longest(), critical_cases(instance, last, began))
    certify(run, instance, claims, bounds.best)


def _intervals(instance: Instance, ends: HeadsTails) -> Iterator[Claim]:
    """Yield bounds by the work between heads and tails after the first pass, with their proofs."""
    for vertices, devices in _shares(instance):
        head, tail = ends.head[vertices], ends.tail[vertices]
        speed = instance.speed[devices]
        value, *interval = busiest_interval(head, tail, instance.complexity[vertices], speed)
        for _, proof in heads(instance, value) if value else ():
            units = [int(math.ldexp(end * (1 - ERROR), proof["scale"])) - 2 * instance.nodes for end in interval]
            begin, end = (max(0, each) for each in units)  # the formula rounds every sum down
            yield value * (1 - ERROR), {**proof, **work_of(devices), "head": begin, "tail": end}


def _work_between(instance: Instance, ends: HeadsTails, run: Run) -> float:
    """The least makespan with room for the work between heads and tails, on all devices and on sets of them."""
    head, tail, time = ends.head, ends.tail, instance.complexity / instance.fastest()
    if instance.nodes**2 <= PACE * run.remaining() * SHARE:
        graph = instance.graph
        head = after_work(instance, graph, head, time)
        tail = after_work(instance, graph.reversed, tail, time)
    found = float((head + time + tail).max(initial=0.0))
    for vertices, devices in _shares(instance):
        work, speed = instance.complexity[vertices], instance.speed[devices]
        found = max(found, busiest_interval(head[vertices], tail[vertices], work, speed)[0])
    return found


def after_work(instance: Instance, graph: Graph, head: Floats, time: Floats) -> Floats:
    """Heads, shape (n,), raised by the time that all devices together need for the work of earlier vertices.

    The ancestors of a vertex whose head is at least t do all their work between t and the head of the vertex. Ancestors
    are stored as n bits per vertex, by ascending head.
    """
    fastest = np.sort(instance.speed)[::-1].cumsum()
    by_head = np.argsort(head, kind="stable")
    place = np.empty(len(head), dtype=np.int64)
    place[by_head] = np.arange(len(head))
    before, head = np.zeros((len(head), -(-len(head) // 8)), dtype=np.uint8), head.copy()
    for v in graph.topological_order.tolist():
        makers = graph.predecessors(v)
        if not len(makers):
            continue
        np.bitwise_or.reduce(before[makers], axis=0, out=before[v])
        np.bitwise_or.at(before[v], place[makers] >> 3, (128 >> (place[makers] & 7)).astype(np.uint8))
        work = by_head[np.flatnonzero(np.unpackbits(before[v], count=len(head)))][::-1]
        speed = fastest[np.minimum(np.arange(len(work)), len(fastest) - 1)]
        waits = np.minimum.accumulate(head[work]) + instance.complexity[work].cumsum() / speed
        head[v] = max(head[v], waits.max(), (head[makers] + time[makers]).max())
    return head


def _shares(instance: Instance) -> Iterator[tuple[Ints, Ints]]:
    """Vertices confined to a set of devices, and the set: for all devices, and for the sets with most work."""
    works = instance.complexity > 0
    yield np.flatnonzero(works), np.arange(instance.devices)
    number = instance.unit_choice[instance.unit]
    sets = [set(choice.tolist()) for choice in instance.unit_choices]
    work = np.bincount(number[number >= 0], instance.complexity[number >= 0], len(sets))
    for i in np.argsort(-work)[:SETS].tolist():
        within = [j for j, other in enumerate(sets) if other <= sets[i]]
        yield np.flatnonzero(works & np.isin(number, within)), instance.unit_choices[i]


def busiest_interval(head: Floats, tail: Floats, complexity: Floats, speed: Floats) -> tuple[float, float, float]:
    """The greatest sum of a head h, a tail t and the time for all work with head >= h and tail >= t; h and t.

    If c vertices work in an interval, at most c devices, the fastest ones, are busy.
    """
    if not len(head):
        return 0.0, 0.0, 0.0
    fastest = np.sort(speed)[::-1].cumsum()
    (begin, row), (end, column) = _steps(head), _steps(tail)
    cell, shape = row * len(end) + column, (len(begin), len(end))
    work, count = (np.bincount(cell, what, shape[0] * shape[1]).reshape(shape) for what in (complexity, None))
    work, count = (table[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)[::-1, ::-1] for table in (work, count))
    length = work / fastest[np.clip(count, 1, len(fastest)).astype(np.int64) - 1]
    whole = np.where(count > 0, begin[:, None] + end + length, 0.0)
    at, to = np.unravel_index(whole.argmax(), shape)
    return float(whole[at, to]), float(begin[at]), float(end[to])


def _steps(values: Floats) -> tuple[Floats, Ints]:
    """Some of the values, including the least, and for each value the index of the greatest of these not above it."""
    levels = np.unique(values)
    levels = levels[np.unique(np.linspace(0, len(levels) - 1, EDGES).astype(np.int64))]
    return levels, np.searchsorted(levels, values, side="right") - 1


def _groups(instance: Instance) -> Iterator[Ints]:
    """The members of each colocation group of several vertices."""
    order = np.argsort(instance.unit, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(instance.unit[order])) + 1):
        if len(group) > 1:
            yield group


def sequence_bound(ends: HeadsTails, group: Ints) -> float:
    """The least makespan, over devices, of vertices that run there in sequence between heads and tails."""
    head, tail, time = ends.start[group], ends.behind[group], ends.time[group]
    found = np.zeros(len(ends.instance.speed))
    for near, far in ((head, tail), (tail, head)):
        order = np.argsort(-near, axis=0)
        near, far, after = (np.take_along_axis(column, order, axis=0) for column in (near, far, time))
        length = near + after.cumsum(axis=0) + np.minimum.accumulate(far, axis=0)
        found = np.maximum(found, length.max(axis=0))
    return float(found.min())
