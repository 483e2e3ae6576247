"""Lower bound on latency: a path that no accelerator has the memory for has to change devices, at a cost."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from instances.columns import Floats
from instances.placement import Instance
from solvers.registry import Declined, Run, bound

#: How much sizes count beside times where a path is looked for, 1: as much, in all, as the longest path takes.
SHARES = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 1000.0)


@bound(track="placement", source="Tarnawski et al. 2020, Figure 6, Constraints (3) to (10), along a path")
def memory_path(instance: Instance, run: Run) -> None:
    """Cut long and large paths into runs of nodes that fit an accelerator, each tensor on the way moved out and in."""
    if instance.objective != "latency":
        raise Declined("samples overlap in a pipeline")
    best = instance.path_bound()
    run.bound(best)
    size = instance.size / max(float(instance.size.sum()), 1e-300) * best
    accelerator, cpu = (column[instance.unit] for column in instance.unit_times())
    accelerator = np.where(np.isfinite(accelerator), instance.accelerator_time, np.inf)
    cpu = np.where(np.isfinite(cpu), instance.cpu_time, np.inf)
    for share in SHARES:
        path = _longest(instance, np.minimum(accelerator, cpu) + share * size)
        value = _Path(instance, path, accelerator, cpu).least(run) * (1 - 1e-12)
        if value > best:
            best = value
            run.bound(best)


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
    """A path, and what its nodes take: ``moved[j]`` is the cost of the tensor between nodes j and j + 1."""

    def __init__(self, instance: Instance, path: list[int], accelerator: Floats, cpu: Floats) -> None:
        self.accelerator, self.cpu = accelerator[path].tolist(), cpu[path].tolist()
        self.unit = instance.unit[path].tolist()
        self.size = instance.of_units(instance.size)[instance.unit[path]].tolist()
        self.capacity = instance.capacity
        ends = zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), strict=True)
        real = {end for end, off in zip(ends, instance.artificial.tolist(), strict=True) if not off}
        self.moved = [float(instance.transfer[u]) if (u, v) in real else 0.0 for u, v in pairwise(path)]

    def least(self, run: Run) -> float:
        """Least time for the path; 0 if the run has no time left to work it out.

        A subgraph with some of its nodes, one after another, moves in the tensor before them, computes, and moves out
        the tensor behind them. Its accelerator holds them and their units. On CPUs nodes follow one another.
        """
        done = [0.0]
        for last in range(len(self.cpu)):
            if not run.remaining():
                return 0.0
            moved_out = self.moved[last] if last < len(self.moved) else 0.0
            soonest, busy = done[last] + self.cpu[last], moved_out
            room, units = self.capacity, set[int]()
            for first in range(last, -1, -1):
                if self.unit[first] not in units:
                    units.add(self.unit[first])
                    room -= self.size[first]
                busy += self.accelerator[first]
                if room < 0 or busy >= soonest:
                    break
                soonest = min(soonest, done[first] + busy + (self.moved[first - 1] if first else 0.0))
            done.append(soonest)
        return done[-1]
