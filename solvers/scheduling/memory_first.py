"""Schedules for tight memory: lists that reserve memory before a tensor is made, repaired; proofs by cuts."""

from __future__ import annotations

import math
import time
from itertools import product

import numpy as np

from instances.files.columns import Floats, Ints
from instances.graph import Index
from instances.scheduling import Instance
from solvers.registry import Declined, Run, solver
from solvers.scheduling._kernels import Simulator
from solvers.scheduling.heuristics.ranks import longest_behind
from solvers.scheduling.schedules.annealing import Best, begin, improve, simulate_moves
from solvers.scheduling.schedules.deadline import Deadline
from solvers.scheduling.schedules.memory_cuts import none_fits

#: Weights of what a vertex makes, against the place in the order; and of time, against memory.
LIVE, EARLY = (0.0, 1.0, 3.0, 10.0, 30.0), (0.05, 0.0, 0.3)

#: Share of the time that proofs may take at most; share of the rest for lists, before moves of the best of them.
PROOF, LISTS = 0.4, 0.2

#: Why there is no schedule: that is proven, or it is not known.
NONE = "no schedule fits the memory of the devices"
UNKNOWN = "found no schedule that fits the memory of the devices, and no proof that there is none"


@solver(
    track="scheduling",
    name="memory-first",
    source="ours: list scheduling with reservations, repaired; minimum cuts prove that nothing fits",
    deterministic=False,
)
def memory_first(instance: Instance, run: Run) -> None:
    """Reserve memory for each tensor before it is made, in orders that are repaired; then simulate moves.

    It ends with a schedule, a proof that none fits the memory, or word that neither was found.
    """
    deadline = Deadline(run)
    run.bound(instance.simple_bound())
    best = begin(Simulator(instance), run)
    if not best.fits:
        if none_fits(instance, deadline.remaining() * PROOF):
            raise Declined(NONE)
        lists = _Lists(best)
        lists.repair(deadline.remaining() * LISTS)
        if not best.fits:
            simulate_moves(best, *lists.least_overfull(), deadline.remaining())
    if best.fits:
        improve(best, deadline.remaining())
    if not best.fits:
        raise Declined(UNKNOWN)


class _Lists:
    """Priorities of lists, the best of which are changed where they overfill memory."""

    def __init__(self, best: Best) -> None:
        self.best, self.instance = best, best.simulator.instance
        self.rng = best.run.rng
        self.least, self.overfull = math.inf, np.zeros(0, dtype=np.int32)

    def repair(self, seconds: float) -> None:
        """Try orders and weights, then change priorities near vertices that overfill memory, until all fits."""
        end = time.monotonic() + seconds
        for live, early, priority in product(LIVE, EARLY, orders_to_try(self.instance)):
            self._try(priority, live, early, 0.0)
            if self.best.fits or time.monotonic() > end:
                return
        while not self.best.fits and time.monotonic() < end:
            priority = self.priority.copy()
            if len(self.overfull) and self.rng.random() < 0.8:
                v = int(self.rng.choice(self.overfull))
                near = [v, *self.instance.graph.predecessors(v).tolist(), *self.instance.graph.successors(v).tolist()]
                chosen = np.array(near)[self.rng.random(len(near)) < 0.5]
            else:
                chosen = np.flatnonzero(self.rng.random(len(priority)) < 2 / len(priority))
            priority[chosen] += self.rng.normal(0.0, self.rng.choice([0.01, 0.1, 0.5]), len(chosen))
            live = self.live if self.rng.random() < 0.8 else float(self.rng.choice(LIVE))
            self._try(priority, live, self.early, float(self.rng.choice([0.0, 0.02, 0.2])))

    def least_overfull(self) -> tuple[Ints, Floats]:
        """Devices, and priorities in the order of the list that overfills memory least often, shape (n,) each."""
        device, sequence = self.found
        priority = np.empty(len(sequence))
        priority[sequence] = -np.arange(len(sequence))
        return device, priority

    def _try(self, priority: Floats, live: float, early: float, noise: float) -> None:
        """Make a list; keep its priorities if it overfills memory less often, or as often."""
        simulator, seed = self.best.simulator, int(self.rng.integers(2**62))
        device, sequence, overfull = simulator.reserving_list(priority, seed, live=live, early=early, noise=noise)
        if len(overfull) > self.least:
            return
        self.least, self.overfull, self.found = len(overfull), overfull, (device.astype(np.int64), sequence)
        self.priority, self.live, self.early = priority, live, early
        self.best.take(device.astype(np.int64), simulator.in_sequence(device.astype(np.int64), sequence))


def orders_to_try(instance: Instance) -> list[Floats]:
    """Priorities, from 0 down to -1: in topological order, depth first, and by the longest path behind."""
    n, graph = instance.nodes, instance.graph
    behind = longest_behind(graph, instance.complexity)
    found = []
    for order in (depth_first(instance), graph.topological_order, np.argsort(-behind, kind="stable")):
        place = np.empty(n)
        place[order] = np.arange(n)
        found.append(-place / max(1, n))
    return found


def depth_first(instance: Instance) -> Index:
    """A topological order, shape (n,): all that a vertex reads just before it, first what needs most memory meanwhile.

    As if each vertex were read by one other: then the order needs least memory of all that finish one input before they
    begin the next (Liu 1986).
    """
    graph, n = instance.graph, instance.nodes
    start, made = graph.in_csr[0], np.bincount(graph.tail, instance.size, instance.nodes).tolist()
    peak, tails = [0.0] * n, graph.in_csr[1].tolist()
    inputs: list[list[int]] = [[] for _ in range(n)]
    for v in graph.topological_order.tolist():
        parts = sorted(tails[start[v] : start[v + 1]], key=lambda u: made[u] - peak[u])
        held = most = 0.0
        for u in parts:
            most = max(most, held + peak[u])
            held += made[u]
        inputs[v], peak[v] = parts, max(most, held + made[v])
    order, seen = list[int](), [False] * n
    sinks = np.flatnonzero(np.diff(graph.out_csr[0]) == 0).tolist()
    for sink in sorted(sinks, key=lambda v: -peak[v]):
        stack = [(sink, iter(inputs[sink]))]
        seen[sink] = True
        while stack:
            v, rest = stack[-1]
            u = next((u for u in rest if not seen[u]), None)
            if u is None:
                order.append(v)
                stack.pop()
            else:
                seen[u] = True
                stack.append((u, iter(inputs[u])))
    return np.array(order, dtype=np.int32)
