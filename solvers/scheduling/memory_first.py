"""Schedules for tight memory: list scheduling with reserved memory, annealed moves, and proofs that none fits."""

from __future__ import annotations

import math
import time
from itertools import product

import numpy as np

from shardmark.instances.files.columns import Floats
from shardmark.instances.graph import Index
from shardmark.instances.scheduling import Instance
from shardmark.solvers.registry import Declined, Run, solver
from shardmark.solvers.scheduling._kernels import Simulator
from shardmark.solvers.scheduling.heuristics.ranks import longest_behind
from shardmark.solvers.scheduling.schedules.annealing import Best, begin, improve
from shardmark.solvers.scheduling.schedules.deadline import Deadline
from shardmark.solvers.scheduling.schedules.formulas import certify
from shardmark.solvers.scheduling.schedules.memory_cuts import none_fits
from shardmark.solvers.scheduling.schedules.memory_moves import fit_memory

#: Weights in the lists: of the memory that a vertex makes live, relative to its place in the order; and of time,
#: relative to memory.
LIVE, EARLY = (0.0, 1.0, 3.0, 10.0, 30.0), (0.05, 0.0, 0.3)

#: Shares of the remaining time: for lists, then for first moves from the best of them, then for proofs.
LISTS, FIRST, PROOF = 0.1, 0.1, 0.4

#: Reasons for no schedule: proved impossible, or unknown.
NONE = "no schedule fits the memory of the devices"
UNKNOWN = "found no schedule that fits the memory of the devices, and no proof that there is none"


@solver(
    track="scheduling",
    name="memory-first",
    source="ours: lists with reservations, then annealed moves; conflicts of units, orders and minimum cuts as proofs",
    deterministic=False,
)
def memory_first(instance: Instance, run: Run) -> None:
    """List scheduling that reserves memory for each tensor, then annealing until memory suffices.

    The run ends with a schedule, a proof that none fits the memory, or the message that neither was found. A schedule
    that fits is then improved as in `search`.
    """
    deadline = Deadline(run)
    run.bound(instance.simple_bound())
    certify(run, instance, ())
    best = begin(Simulator(instance), run)
    if not best.fits:
        device, sequence = lists(best, deadline.remaining() * LISTS)
        fit_memory(best, device, sequence, deadline.remaining() * FIRST)
        if not best.fits and none_fits(instance, deadline.remaining() * PROOF):
            raise Declined(NONE)
        fit_memory(best, device, sequence, deadline.remaining())
    if not best.fits:
        raise Declined(UNKNOWN)
    improve(best, deadline.remaining())


def lists(best: Best, seconds: float) -> tuple[Index, Index]:
    """Make lists until one fits; return devices and sequence, shape (n,) each, of the one that exceeds memory least."""
    end, simulator, least = time.monotonic() + seconds, best.simulator, math.inf
    device, sequence = best.device.astype(np.int32), simulator.instance.graph.topological_order.astype(np.int32)
    for live, early, priority in product(LIVE, EARLY, orders_to_try(simulator.instance)):
        found = simulator.reserving_list(priority, live=live, early=early)
        best.take(found[0].astype(np.int64), simulator.in_sequence(*found))
        excess = simulator.memory_moves(*found, seed=0, moves=0, temperature=0.0)[0]
        if excess < least:
            least, (device, sequence) = excess, found
        if best.fits or time.monotonic() > end:
            break
    return device, sequence


def orders_to_try(instance: Instance) -> list[Floats]:
    """Priorities, from 0 down to -1: in topological order, depth first, and by the longest path to a sink."""
    n, graph = instance.nodes, instance.graph
    behind = longest_behind(graph, instance.complexity)
    found = []
    for order in (depth_first(instance), graph.topological_order, np.argsort(-behind, kind="stable")):
        place = np.empty(n)
        place[order] = np.arange(n)
        found.append(-place / max(1, n))
    return found


def depth_first(instance: Instance) -> Index:
    """A topological order, shape (n,), depth first from the sinks; inputs of greatest peak memory come first.

    If every vertex has a single reader, no order that finishes one input before it begins the next needs less memory
    (Liu 1986).
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
