"""Least times of paths: a path that exceeds the memory of an accelerator changes devices, at a cost."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from shardmark.instances.files.columns import Floats
from shardmark.instances.placement import Instance
from shardmark.instances.rounding import safely
from shardmark.solvers.registry import Proof, Run

#: Weights of the sizes in a search for a path, relative to the time of the longest path.
SHARES = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 1000.0)
#: Bits of the greatest time on a path as an integer, approximately.
BITS = 100

Whole = float  # an integer, or infinite


def path_proof(path: list[int] | None) -> Proof:
    """The proof of a bound of `path_bounds`; None is the longest path on the fastest devices."""
    if path is None:
        return lambda: {"kind": "formula", "name": "critical-path"}
    return lambda: {"kind": "formula", "name": "memory-path", "path": path}


def path_bounds(instance: Instance, run: Run) -> Iterator[tuple[float, list[int] | None]]:
    """Yield rising bounds on the latency from long and large paths, and the paths, at first none."""
    best = instance.path_bound()
    yield best, None
    size = instance.size / max(float(instance.size.sum()), 1e-300) * best
    accelerator, cpu = (column[instance.unit] for column in instance.unit_times())
    accelerator = np.where(np.isfinite(accelerator), instance.accelerator_time, np.inf)
    cpu = np.where(np.isfinite(cpu), instance.cpu_time, np.inf)
    for share in SHARES:
        if not run.remaining():
            return
        nodes = _longest(instance, np.minimum(accelerator, cpu) + share * size)
        path = _Path(instance, nodes, accelerator, cpu)
        if path.on_one_accelerator() <= best * (1 + 1e-9):
            continue
        value = path.least(run)
        if value > best:
            best = value
            yield best, nodes


def _longest(instance: Instance, weight: Floats) -> list[int]:
    """The nodes of a path of greatest weight."""
    start, tail = (column.tolist() for column in instance.graph.in_csr)
    length, before = weight.tolist(), [-1] * instance.nodes
    for v in instance.graph.topological_order.tolist():
        readings = tail[start[v] : start[v + 1]]
        if readings:
            before[v] = max(readings, key=length.__getitem__)
            length[v] += length[before[v]]
    path = [int(np.argmax(length))]
    while before[path[-1]] >= 0:
        path.append(before[path[-1]])
    return path[::-1]


class _Path:
    """A path, and the times and sizes of its nodes, by position.

    Times are integer multiples of 2^``exponent``, rounded down, so differences of their sums are exact even if
    transfers take far longer than all else. Sizes are compared with the available memory.

    Node j reads from the positions ``read[j]``; ``until[j]`` is the last position that reads its tensor, and
    ``cost[j]`` the time to move the tensor.
    """

    def __init__(self, instance: Instance, path: list[int], accelerator: Floats, cpu: Floats) -> None:
        columns = [column[path] for column in (accelerator, cpu, instance.transfer)]
        self.exponent = math.frexp(max(float(x[np.isfinite(x)].max(initial=0.0)) for x in columns))[1] - BITS
        self.accelerator, self.cpu, self.cost = ([self._whole(x) for x in column.tolist()] for column in columns)
        self.unit = instance.unit[path].tolist()
        self.size = instance.of_units(instance.size)[instance.unit[path]].tolist()
        self.room = instance.room
        place = np.full(instance.nodes, -1)
        place[path] = np.arange(len(path))
        tail, head = (place[ends[~instance.artificial]] for ends in (instance.graph.tail, instance.graph.head))
        self.read: list[list[int]] = [[] for _ in path]
        self.until = [-1] * len(path)
        for u, v in np.column_stack([tail, head])[(tail >= 0) & (head >= 0)].tolist():
            self.read[v].append(u)
            self.until[u] = max(self.until[u], v)

    def _whole(self, time: float) -> Whole:
        return int(math.ldexp(time, -self.exponent)) if time < math.inf else math.inf

    def _time(self, whole: Whole) -> float:
        """Convert an integer time to a safe lower bound in floating point."""
        return safely(math.ldexp(whole, self.exponent), len(self.cpu))

    def on_one_accelerator(self) -> float:
        """Time of the path on one accelerator, without transfers; infinite if it does not fit."""
        held = sum(dict(zip(self.unit, self.size, strict=True)).values())
        return self._time(sum(self.accelerator)) if held <= self.room else math.inf

    def least(self, run: Run) -> float:
        """Least time for the path; 0 if the time of the run does not suffice."""
        done: list[Whole] = [0]
        for last in range(len(self.cpu)):
            if not run.remaining():
                return 0.0
            done.append(min(done[last] + self.cpu[last], self._soonest(done, last)))
        return self._time(done[-1])

    def _soonest(self, done: list[Whole], last: int) -> Whole:
        """Earliest time at which the tensors of a subgraph whose last node on the path is ``last`` are in RAM.

        The subgraph has consecutive nodes of the path: once it has begun it does not wait, so no path leaves it and
        returns. It moves in the tensors from before them, computes, and moves out the tensors that are read after them.
        Its accelerator holds the nodes and their units.
        """
        held, units, outside = 0.0, set[int](), set[int]()
        soonest: Whole = math.inf
        busy: Whole = 0
        incoming: Whole = 0
        for first in range(last, -1, -1):
            if self.unit[first] not in units:
                units.add(self.unit[first])
                held += self.size[first]
            busy += self.accelerator[first] + (self.cost[first] if self.until[first] > last else 0)
            if held > self.room or busy >= min(soonest, done[last] + self.cpu[last]):
                break
            new = {u for u in self.read[first] if u not in outside}
            incoming += sum(self.cost[u] for u in new) - (self.cost[first] if first in outside else 0)
            outside |= new
            outside.discard(first)
            soonest = min(soonest, done[first] + busy + incoming)
        return soonest
