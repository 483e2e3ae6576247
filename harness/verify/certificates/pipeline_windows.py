"""The proof ``windows`` for ``pipeline``: work, and tensors that must cross between stages of little work.

``scale``    times become integers in units of 2^-``scale``, rounded down
``most``     suppose that no stage costs more than this, in units
``windows``  for j = 0, 1, ..., what the tensors move towards readers across an end of a stage that has done more than j
             ``most`` of work and at most j + 1 times as much: ``edges``, by their numbers in the instance, and
             ``moved``, an integer for each

docs/certificates/pipeline.md has the argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from shardmark.harness.verify.certificates import Clock, Exact, Unproven, integer, integers
from shardmark.instances.files.columns import describe
from shardmark.instances.graph import Graph
from shardmark.instances.pipeline import Instance

MOST_SCALE = 1200
#: All work is less, in units, so that sums fit int64.
LARGEST = 1 << 60
#: Ancestors that are considered at a time.
CHUNK = 1 << 14


def windows(instance: Instance, proof: Mapping[str, Any], clock: Clock) -> Exact:
    """Return a cost above ``most``, which all partitions reach if work and transfers are more than that; else 0."""
    scale, most = integer(proof, "scale", -MOST_SCALE, MOST_SCALE), integer(proof, "most", 1, LARGEST)
    factor = Fraction(2) ** scale
    work = [int(Fraction(time) * factor) for time in instance.work.tolist()]
    bandwidth = Fraction(instance.bandwidth)
    size = [int(Fraction(each) / bandwidth * factor) for each in instance.output_size.tolist()]
    if sum(work) >= LARGEST:
        raise Unproven(f"proof.scale: expected less work than {LARGEST} units, found {sum(work)}")
    again = _received_again(instance.graph, work, size, most, min(instance.stages, instance.nodes))
    if again is not None:
        crossing = _crossing(instance.graph, work, size, most, proof.get("windows"), clock)
        whole, room = sum(work) + 2 * crossing + again, min(instance.stages, instance.nodes) * most
        if whole <= room:
            return 0
    return Fraction(most + 1) / factor


def _received_again(graph: Graph, work: list[int], size: list[int], most: int, stages: int) -> int | None:
    """Return the sizes of all receptions after the first of a tensor; None if some stage must cost more than most."""
    reading = [0] * len(work)
    for u, v in zip(graph.tail.tolist(), graph.head.tolist(), strict=True):
        reading[u] += work[v]
    total = 0
    for each, sent in zip(reading, size, strict=True):
        if each > most:  # its readers are in several stages, each of which sends or receives it
            if sent >= most or -(-each // (most - sent)) > stages:
                return None
            total += (-(-each // (most - sent)) - 2) * sent
    return total


def _crossing(graph: Graph, work: list[int], size: list[int], most: int, told: Any, clock: Clock) -> int:
    """Return a lower bound on the sizes of tensors that cross between stages, from an end of a stage in each window."""
    if not isinstance(told, list):
        raise Unproven(f"proof.windows: expected a list, found {describe(told)}")
    tail, head, whole, left, crossing = graph.tail.tolist(), graph.head.tolist(), sum(work), list(size), 0
    gains: list[dict[int, int]] = []
    for number, window in enumerate(told):
        clock.tick()
        if not isinstance(window, dict):
            raise Unproven(f"proof.windows[{number}]: expected an object, found {describe(window)}")
        edges, gain = integers(window, "edges", graph.edges - 1), dict[int, int]()
        for e, amount in zip(edges, integers(window, "moved", LARGEST, len(edges)), strict=True):
            u, v = tail[e], head[e]
            gain[u], gain[v] = gain.get(u, 0) + amount, gain.get(v, 0) - amount
            left[u] -= max(amount, 0)
        gains.append({v: amount for v, amount in gain.items() if amount})
    if min(left, default=0) < 0:
        u = left.index(min(left))
        raise Unproven(f"proof.windows: expected to move at most the size of the tensor of node {u}")
    some = sorted(set().union(*gains))
    before, after = (_closure_work(each, work, some, clock) for each in (graph, graph.reversed))
    for low, gain in zip(range(0, len(gains) * most, most), gains, strict=True):
        for v, amount in gain.items():
            if whole - after[v] <= low:  # without it and all that come after it, too little is done
                crossing += amount
            elif before[v] <= low + most:
                crossing += min(amount, 0)
    return crossing


def _closure_work(graph: Graph, work: list[int], some: list[int], clock: Clock) -> dict[int, int]:
    """Return the work of some nodes, each with its ancestors."""
    order, total = graph.topological_order.tolist(), dict.fromkeys(some, 0)
    start, makers = (column.tolist() for column in graph.in_csr)
    for first in range(0, graph.nodes if some else 0, CHUNK):
        own = np.array(work[first : first + CHUNK], dtype=np.int64)
        reached = [0] * graph.nodes  # as bits
        for v in order:
            clock.tick()
            bits = 1 << v - first if first <= v < first + CHUNK else 0
            for u in makers[start[v] : start[v + 1]]:
                bits |= reached[u]
            reached[v] = bits
        for v in some:
            clock.tick()
            packed = np.frombuffer(reached[v].to_bytes(CHUNK // 8, "little"), dtype=np.uint8)
            total[v] += int(own[np.unpackbits(packed, count=len(own), bitorder="little").view(bool)].sum())
    return total
