"""Certificates of closed bounds: formulas that the referee computes again, with their parameters."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.files.columns import Ints
from shardmark.instances.graph import Graph, Index
from shardmark.instances.scheduling import Instance
from shardmark.solvers.registry import Run
from shardmark.solvers.scheduling.schedules.heads_tails import ANCESTORS, NEAR, HeadsTails, early_first

#: The bounds that formulas prove are below 2 to this power, in units of their heads and tails.
BITS = 50

#: Share by which a bound is lowered, above the errors of sums of floats here and of rounding heads down there.
ERROR = 1e-10

#: Most vertices times squared devices, and devices, for heads and tails.
MOST_CELLS, MOST_DEVICES = 1 << 26, 128

#: Most vertices whose devices are distinguished jointly.
DEEPEST = 5

#: Most cases of a formula, times devices or more, as its checker allows.
MOST_CASES, MOST_LAGS = 1 << 14, 1 << 20

#: Least time of a check that a writer may ask for, in seconds.
LEAST_SECONDS = 6.0

#: Its time per vertex: operations on arrays, seconds of each, and of each element (measured on one core).
OPERATIONS, OPERATION, CELL = 200, 8e-6, 1.5e-9

#: Most ancestors of a vertex that a formula considers together with cases of one vertex, and of several: with 24, it
#: proves the same in twice the time (jax-resnet-scheduling, dataflow-60).
NEAR_ANCESTORS, JOINT_ANCESTORS = 8, 12

#: Vertices whose longest path is shorter than the longest of all by a greater share are not distinguished.
CRITICAL = 0.15

#: Most schedules that a checker judges one by one, and most vertices of their graph.
MOST_SCHEDULES, MOST_VERTICES = 20_000, 14

#: Share by which a bound must exceed the one before: certificates of later passes prove about as much.
LEAST_GAIN = 1e-5

Claim = tuple[float, dict[str, Any]]


class Bounds:
    """Reports bounds that are better than the best so far by more than `LEAST_GAIN`."""

    def __init__(self, run: Run, first: float) -> None:
        self._run, self.best = run, first
        run.bound(first)

    def offer(self, value: float) -> None:
        """Report a bound if it is better."""
        if value > self.best * (1 + LEAST_GAIN):
            self.best = value
            self._run.bound(value)


def certify(run: Run, instance: Instance, claims: Iterable[Claim], most: float = math.inf) -> None:
    """Report the greatest of some bounds, and of the simplest ones, with its proof, if one is asked for.

    No more than ``most`` is claimed.
    """
    if run.certify:
        load = work_of(None)
        simplest = [(instance.simple_bound(), load), (instance.simple_bound(), {**load, "name": "path"})]
        path = instance.graph.longest_path(instance.complexity / instance.fastest())
        simple = simplest[path >= float(instance.complexity.sum() / instance.speed.sum())]
        value, proof = max([simple, *claims], key=lambda claim: claim[0] if math.isfinite(claim[0]) else 0.0)
        run.bound(min(most, value * (1 - ERROR)), lambda: proof)


def all_schedules(instance: Instance, value: float) -> list[Claim]:
    """A bound that the referee finds by judging all schedules, if they are few."""
    if instance.nodes > MOST_VERTICES:
        return []
    choices = [len(choice) for choice in instance.unit_choices] + [instance.devices]
    devices = math.prod(choices[number] for number in instance.unit_choice[instance.unit].tolist())
    few = devices * math.factorial(instance.nodes) <= MOST_SCHEDULES
    return [(value, {"kind": "solutions"})] if few else []


def work_of(devices: Ints | None) -> dict[str, Any]:
    """The work confined to a set of devices, or to all."""
    return {"kind": "formula", "name": "work", "devices": None if devices is None else devices.tolist()}


def heads(instance: Instance, value: float, more: Mapping[str, Any] | None = None) -> list[Claim]:
    """The bound of heads and tails after the first pass, if they are few enough to be computed again.

    With ``more`` parameters, those of `critical_cases`, the formula stands for the later passes, and may prove a little
    less or more: the referee computes it.
    """
    proof = {"kind": "formula", "name": "heads", "scale": scale_of(value), "ancestors": ANCESTORS, **(more or {})}
    fits = instance.nodes * instance.devices**2 <= MOST_CELLS and instance.devices <= MOST_DEVICES
    return [(value, proof)] if fits else []


def critical_cases(instance: Instance, ends: HeadsTails, began: float) -> dict[str, Any]:
    """Parameters that name vertices whose devices a formula distinguishes, each with the next ones after it.

    All vertices of long paths at which these part, or those of the longest; and as many of the next ones as can be
    considered in the processor time since the method ``began``, or in a few seconds, by estimate.
    """
    seconds = max(LEAST_SECONDS, time.process_time() - began)
    length, devices = (ends.start + ends.time + ends.behind).min(axis=1), instance.devices
    graphs = [(graph, early_first(instance, graph)) for graph in (instance.graph, instance.graph.reversed)]
    critical = length >= (1 - CRITICAL) * length.max(initial=0.0)
    begin = [
        (-float(length[v]), at, v) for at in (0, 1) for v in np.flatnonzero(_parts(graphs[at][0]) & critical).tolist()
    ]
    for depth, elsewhere in itertools.product(range(DEEPEST, 0, -1), (1, 0)):
        cells = devices ** (depth + 2)
        price = NEAR * OPERATIONS * (OPERATION + CELL * cells) * (1 + elsewhere * devices / 2)
        affordable = int(min(seconds / price, len(begin)))
        fits = devices ** (depth + 1 + elsewhere) <= MOST_CASES and cells <= MOST_LAGS
        if fits and (affordable == len(begin) or (depth, elsewhere) == (1, 0)):
            chosen = [_next(*graphs[at], v, depth) for _, at, v in sorted(begin)[:affordable]]
            ancestors = NEAR_ANCESTORS if depth == 1 else JOINT_ANCESTORS
            return {"ancestors": ancestors, "reach": NEAR, "elsewhere": elsewhere, "cases": chosen}
    return {}


def _parts(graph: Graph) -> NDArray[np.bool_]:
    """Where several paths begin: vertices with more than one reader, shape (n,)."""
    return np.asarray(np.diff(graph.out_csr[0]) > 1)


def _next(graph: Graph, order: Index, first: int, count: int) -> list[int]:
    """A vertex and the first ones that come after it by paths, in an order."""
    position = {v: at for at, v in enumerate(order.tolist())}
    found: list[int] = []
    waiting = {first}
    while waiting and len(found) < count:
        v = min(waiting, key=position.__getitem__)
        waiting.remove(v)
        found.append(v)
        waiting |= set(graph.successors(v).tolist())
    return found


def scale_of(value: float) -> int:
    """The scale of heads and tails: a bound takes about `BITS` bits."""
    return BITS - math.frexp(value)[1]
