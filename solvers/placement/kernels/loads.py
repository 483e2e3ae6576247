"""Kernels for throughput: devices, their loads, and searches that move nodes between devices."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.graph import Graph, Index, find_cycle
from shardmark.solvers.native import Floats, Longs, array_in, array_out, check, ffi, floats, lib, shaped


@dataclass(frozen=True)
class Nets:
    """Sets of nodes; an accelerator pays for a net if it has some of its nodes, but not all.

    ``start``    shape (n + 1,), int64: node v is on the nets ``of[start[v]:start[v + 1]]``
    ``of``       shape (pins,), int32
    ``cost``     shape (nets,), float64
    ``members``  shape (nets,), int32: number of nodes
    """

    start: Longs
    of: Index
    cost: Floats
    members: Index


@dataclass(frozen=True)
class Devices:
    """Equal accelerators and equal CPUs, and the costs of nodes on them: arrays of shape (n,), float64.

    ``accelerator_time`` is infinite for a node that is not supported.
    """

    accelerators: int
    cpus: int
    memory: float
    accelerator_time: Floats
    cpu_time: Floats
    size: Floats
    nets: Nets

    @property
    def row_bytes(self) -> int:
        """Bytes that `IdealSplitter.plain` allocates per ideal, not counting its links."""
        return 12 * (self.accelerators + 1) * (self.cpus + 1) + 16


@dataclass(frozen=True)
class LoadCooling:
    """Cooling schedule; the energy is the sum of the excesses of loads over a target.

    ``moves``      moves to try
    ``hot, cold``  temperatures at the first and at the last move, in the unit of loads, > 0
    ``margin``     the target is (1 - ``margin``) times the best cost so far; 0 <= ``margin`` < 1
    ``squared``    True: the excesses are squared and divided by the target
    """

    moves: int
    hot: float
    cold: float
    margin: float
    squared: bool


@dataclass(frozen=True, eq=False)
class LoadModel:
    """Model of loads: how times add up to a load, and the order of devices; see ``load_model.h``.

    ``overlap``    0, 1 or 2: none, half, full
    ``cluster``    accelerators per cluster; 0: a single cluster
    ``slowdown``   factor for the time of transfers between clusters, at least 1
    ``maker``      shape (nets,), int32: the node that makes each net; all -1 if loads do not depend on it
    ``passed``     shape (nets,), int32: 1 for the backward pass, else 0; None if a load covers both passes
    ``backward``   times of the backward pass on accelerators and on CPUs, each of shape (n,), float64; None if a load
                   covers both passes
    ``order``      edges lead to the same device or to a later one; None: devices have no order
    """

    overlap: int
    cluster: int
    slowdown: float
    maker: Index
    passed: Index | None = None
    backward: tuple[Floats, Floats] | None = None
    order: Graph | None = None

    @property
    def passes(self) -> int:
        """Loads per device."""
        return 1 if self.backward is None else 2


class LoadAnnealer:
    """A placement that searches change; every call releases the interpreter lock. See ``anneal_load.h``.

    ``device``  shape (n,), int32: the current placement; accelerators 0, 1, ..., then CPUs
    ``best``    shape (n,), int32: the best placement so far; ``cost`` is the sum of its greatest loads, infinite at
                first
    ``load``    shape (accelerators + cpus, passes): loads of the devices under ``device``, after `anneal`
    """

    def __init__(self, devices: Devices, rules: LoadModel, device: Index, seed: int) -> None:
        """Begin with a placement that is supported, fits the memory and agrees with the order.

        ``seed`` is from 0 to 2^64 - 1.
        """
        count, n = devices.accelerators + devices.cpus, len(devices.size)
        if n and not 0 <= device.min() <= device.max() < count:
            raise ValueError(f"expected devices 0 to {count - 1}")
        self.device, self.best = shaped(device, (n,)).astype(np.int32), np.zeros(n, dtype=np.int32)
        self.cost, self.load = math.inf, np.zeros((count, rules.passes))
        self._struct, self._columns = struct_of(devices)
        self._rules, self._more_columns = _struct_of_model(devices, rules)
        self._rank = _ranks(count, self.device, rules.order)
        self._random = np.array([seed], dtype=np.uint64)

    def anneal(self, cooling: LoadCooling) -> None:
        """Try moves of nodes, groups of nodes and whole devices."""
        options = ffi.new("struct shard_load_cooling *", dataclasses.astuple(cooling))
        cost, load = ffi.new("double *", self.cost), array_out(self.load)
        columns = [array_out(column) for column in (self._random, self._rank, self.device, self.best)]
        check(lib.shard_anneal_load(self._struct, self._rules, options, *columns, cost, load))
        self.cost = cost[0]

    def weigh(self) -> None:
        """Evaluate the current placement; keep it if it is better than the best."""
        self.anneal(LoadCooling(moves=0, hot=1.0, cold=1.0, margin=0.0, squared=False))

    def descend(self, steps: int) -> bool:
        """Make up to ``steps`` steepest moves of a node between accelerators; True if all were made.

        The placement becomes the best one. ValueError unless the model has one pass, no clusters and no order.
        """
        if self._rules.passes > 1 or self._rules.cluster or self._rules.ordered:
            raise ValueError("expected rules of one pass without clusters and order")
        cost, made = ffi.new("double *"), ffi.new("int64_t *")
        check(lib.shard_descend_load(self._struct, self._rules, steps, array_out(self.device), cost, made))
        self.cost, self.best = cost[0], self.device.copy()
        return bool(made[0] == steps)


def _ranks(count: int, device: Index, order: Graph | None) -> Index:
    """Topological ranks of the devices, shape (count,), int32; ValueError if their edges have a cycle."""
    rank = np.arange(count, dtype=np.int32)
    if order is not None:
        ends = np.unique(np.column_stack([device[order.tail], device[order.head]]), axis=0)
        ends = ends[ends[:, 0] != ends[:, 1]]
        if find_cycle(count, *ends.T):
            raise ValueError("expected devices that follow one another")
        rank[Graph(count, *ends.T).topological_order] = np.arange(count)
    return rank


def _struct_of_model(devices: Devices, rules: LoadModel) -> tuple[Any, list[Any]]:
    """A load model as a C struct, and the pointers that must live as long."""
    n, nets = len(devices.size), len(devices.nets.cost)
    passed = np.zeros(nets, dtype=np.int32) if rules.passed is None else rules.passed
    backward = rules.backward or (np.zeros(0), np.zeros(0))
    order = rules.order or Graph(n, np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32))
    columns = [shaped(rules.maker, (nets,)), shaped(passed, (nets,)), *backward, *order.out_csr, *order.in_csr]
    pointers = [array_in(column) for column in columns]
    loads = rules.overlap, rules.passes, rules.cluster, rules.slowdown
    ordered = int(rules.order is not None)
    return ffi.new("struct shard_load_model *", (*loads, *pointers[:4], ordered, *pointers[4:])), pointers


def struct_of(devices: Devices) -> tuple[Any, list[Any]]:
    """Devices as a C struct, and the pointers that must live as long."""
    n, nets = len(devices.size), devices.nets
    times = (floats(column, (n,)) for column in (devices.accelerator_time, devices.cpu_time, devices.size))
    columns: list[NDArray[Any]] = [*times, nets.start, nets.of, nets.cost, nets.members]
    pointers = [array_in(column) for column in columns]
    sizes = (n, len(nets.cost), devices.accelerators, devices.cpus)
    return ffi.new("struct shard_devices *", (*sizes, devices.memory, *pointers)), pointers


def cheapest_with(nets: Nets, cost: Longs, work: Longs, floor: int, stop: Index) -> Longs:
    """Cost of the cheapest set that contains each node, shape (n,); 0 if it is at most ``floor``.

    A set costs the ``work`` of its nodes, shape (n,), int64, -1 for nodes that no set may contain, plus the ``cost``,
    shape (nets,), int64, of each net of which it has some nodes, but not all; ``nets.cost`` is ignored. All work and
    costs add up to at most 2^50. ``stop``, shape (1,), int32, ends the search soon after another thread sets it to 1;
    unknown costs are then 0. See ``cheapest_with.h``.
    """
    graph, _pointers = _hypergraph(nets, cost, work)
    least, cuts = np.zeros(len(work), dtype=np.int64), ffi.new("int64_t *")
    check(lib.shard_cheapest_with(graph, floor, array_in(shaped(stop, (1,))), array_out(least), cuts))
    return least


def cheapest_pool(nets: Nets, cost: Longs, work: Longs, apart: Longs) -> tuple[int, NDArray[np.bool_]]:
    """Least cost of a set, as in `cheapest_with`, plus the cost ``apart`` of all other nodes; and the set, shape (n,).

    ``apart`` has shape (n,), int64, and is not negative; it adds up to at most 2^50 with all nets. No work exceeds
    2^50.
    """
    graph, _pointers = _hypergraph(nets, cost, work)
    bound, inside = ffi.new("int64_t *"), np.zeros(len(work), dtype=np.int8)
    check(lib.shard_cheapest_pool(graph, array_in(shaped(apart, work.shape)), bound, array_out(inside)))
    return bound[0], inside > 0


def _hypergraph(nets: Nets, cost: Longs, work: Longs) -> tuple[Any, list[Any]]:
    """Nodes and nets as a C struct, and the pointers that must live as long."""
    columns = nets.start, nets.of, nets.members, shaped(cost, (len(nets.cost),)), work
    pointers = [array_in(column) for column in columns]
    return ffi.new("struct shard_hypergraph *", (len(work), len(nets.cost), *pointers)), pointers
