"""Kernels for latency: subgraphs on accelerators and a pool of CPUs."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.graph import Graph, Index, csr
from shardmark.solvers.native import Floats, Longs, array_in, array_out, check, ffi, floats, lib


@dataclass(frozen=True)
class LatencyProblem:
    """A placement problem for latency; see ``struct shard_latency_problem`` in ``latency_problem.h``.

    ``unlimited``         True: any number of subgraphs per accelerator; False: one, or one per pass
    ``memory``            of each of the ``accelerators``
    ``pool_penalty``      added to the latency per node in the pool
    ``graph``             n nodes; each waits for its predecessors
    ``unit``              shape (n,), 0 to u - 1: the nodes of a unit share a device
    ``backward``          shape (n,), bool
    ``accelerator_time``  shape (n,); infinite for all nodes of a unit that must be in the pool
    ``cpu_time``          shape (n,)
    ``size``              shape (u,)
    ``maker``             shape (nets,), ascending: the node that makes each net
    ``transfer``          shape (nets,): time to move each
    ``net, reader``       shape (pins,): a node that reads a net, by nets
    """

    unlimited: bool
    accelerators: int
    memory: float
    pool_penalty: float
    graph: Graph
    unit: Longs
    backward: NDArray[np.bool_]
    accelerator_time: Floats
    cpu_time: Floats
    size: Floats
    maker: Longs
    transfer: Floats
    net: Longs
    reader: Index

    @property
    def subgraphs(self) -> int:
        """Greatest number of subgraphs of a placement."""
        return self.graph.nodes + 1 if self.unlimited else 2 * self.accelerators

    @cached_property
    def tail(self) -> Floats:
        """Shape (n,): least time from the start of each node to the end of all."""
        start, head = (column.tolist() for column in self.graph.out_csr)
        least = np.minimum(self.accelerator_time, self.cpu_time).tolist()
        for v in self.graph.topological_order[::-1].tolist():
            least[v] += max((least[w] for w in head[start[v] : start[v + 1]]), default=0.0)
        return np.array(least) * (1 - 1e-12)  # the same sum in another order may be less

    @cached_property
    def core(self) -> tuple[Any, list[Any]]:
        """The problem as a C struct, and the pointers that must live as long."""
        n, units, nets = self.graph.nodes, len(self.size), len(self.transfer)
        columns: list[NDArray[Any]] = [
            self.unit.astype(np.int32),
            self.backward.astype(np.int32),
            *(floats(column, (n,)) for column in (self.accelerator_time, self.cpu_time, self.tail)),
            *self.graph.in_csr,
            *self.graph.out_csr,
            csr(n, self.maker, self.maker)[0],
            floats(self.transfer, (nets,)),
            *csr(nets, self.net, self.reader),
            *csr(n, self.reader, self.net.astype(np.int32)),
            floats(self.size, (units,)),
            *csr(units, self.unit, np.arange(n, dtype=np.int32)),
        ]
        pointers = [array_in(column) for column in columns]
        sizes = n, units, nets, self.accelerators, self.subgraphs, self.unlimited, self.memory, self.pool_penalty
        return ffi.new("struct shard_latency_problem *", (*sizes, *pointers)), pointers


@dataclass(frozen=True)
class LatencyPlacement:
    """A placement for `LatencyProblem`; see ``struct shard_latency_placement`` in ``latency_problem.h``.

    ``subgraph``  shape (n,), int32: the subgraph of each node, -1 in the pool
    ``owner``     shape (subgraphs,), int32: the accelerator of each subgraph
    ``delay``     shape (subgraphs,): of subgraphs waiting for an accelerator, the least ready time + delay runs first
    ``merged``    shape (accelerators,), int32: 1 if both passes are one subgraph; unless ``unlimited``
    """

    subgraph: Index
    owner: Index
    delay: Floats
    merged: Index

    def copy(self) -> LatencyPlacement:
        """Return a deep copy."""
        return LatencyPlacement(*(column.copy() for column in vars(self).values()))


@dataclass(frozen=True)
class Schedule:
    """The schedule of a placement.

    ``cost``    latency and pool penalties
    ``finish``  shape (n,)
    ``turn``    shape (n,), int32: rank of the node's subgraph by start, -1 in the pool
    """

    cost: float
    finish: Floats
    turn: Index


@dataclass(frozen=True)
class LatencyCooling:
    """Cooling schedule; the energy is the latency plus the weighted mean end of the nodes.

    ``moves``      moves to try
    ``hot, cold``  temperatures at the first and at the last move, in the unit of times, > 0
    ``mean_weight``  weight of the mean end, at least 0
    """

    moves: int
    hot: float
    cold: float
    mean_weight: float


class LatencyAnnealer:
    """A placement whose latency moves reduce; every call releases the interpreter lock. See ``anneal_latency.h``.

    ``now``   the current placement
    ``best``  the best placement so far; ``cost`` is its latency plus pool penalties, infinite at first
    """

    def __init__(self, tasks: LatencyProblem, now: LatencyPlacement, seed: int) -> None:
        """Begin with a placement that fits the memories; ``seed`` is from 0 to 2^64 - 1."""
        self.now, self.best, self.cost = now.copy(), now.copy(), math.inf
        self._tasks, self._random = tasks, np.array([seed], dtype=np.uint64)

    def anneal(self, cooling: LatencyCooling) -> None:
        """Try moves of nodes, groups of nodes and subgraphs."""
        options = ffi.new("struct shard_latency_cooling *", dataclasses.astuple(cooling))
        cost = ffi.new("double *", self.cost)
        placements = _struct_of_placement(self.now), _struct_of_placement(self.best)
        check(lib.shard_anneal_latency(self._tasks.core[0], options, array_out(self._random), *placements, cost))
        self.cost = cost[0]


def schedule(tasks: LatencyProblem, placement: LatencyPlacement) -> Schedule | None:
    """Schedule a placement; None if subgraphs wait for one another."""
    n = tasks.graph.nodes
    finish, turn, cost = np.zeros(n), np.zeros(n, dtype=np.int32), np.zeros(1)
    status = lib.shard_latency_schedule(
        tasks.core[0], _struct_of_placement(placement), array_out(finish), array_out(turn), array_out(cost)
    )
    if status == lib.SHARD_CYCLE:
        return None
    check(status)
    return Schedule(float(cost[0]), finish, turn)


def _struct_of_placement(placement: LatencyPlacement) -> Any:
    return ffi.new("struct shard_latency_placement *", [array_out(column) for column in vars(placement).values()])
