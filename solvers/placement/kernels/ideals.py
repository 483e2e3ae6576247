"""Kernels of the dynamic programs over the ideals of a graph."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.graph import Graph, Index, csr
from shardmark.solvers._ideals import Ideals
from shardmark.solvers.native import Floats, Longs, array_in, array_out, check, ffi, floats, lib, shaped
from shardmark.solvers.placement.kernels.loads import Devices, struct_of


@dataclass(frozen=True)
class StageModel:
    """Model of the load of a stage (Tarnawski et al. 2020, Appendix H).

    ``maker``      shape (nets,), int32: the node that makes each net's tensor
    ``overlap``    "none", "half" or "full"
    ``bandwidth``  size per time at which replicas synchronise; 0: one device per stage
    """

    maker: Index
    overlap: str
    bandwidth: float


@dataclass(frozen=True)
class Clusters:
    """``equal`` clusters with the accelerators of `Devices` each, and one of ``rest`` accelerators unless that is 0."""

    equal: int
    rest: int
    slowdown: float


@dataclass(frozen=True)
class IdealSplit:
    """A chain of ideals; the difference of two consecutive ones is a stage.

    ``cost``      the greatest load
    ``device``    shape (n,), int32: first device of each node's stage; accelerators 0, 1, ..., then CPUs
    ``replicas``  shape (n,), int32: number of devices of each node's stage
    """

    cost: float
    device: Index
    replicas: Index


class IdealSplitter:
    """The best splits of a graph along chains of its ideals; see ``split_dp.h``, ``stages_dp.h`` and ``clusters_dp.h``.

    ``stop``    shape (1,), int32: ends a search soon after another thread sets it to 1
    """

    def __init__(self, devices: Devices, ideals: Ideals, stop: Index) -> None:
        self._struct, self._columns = struct_of(devices)
        self._devices, self._ideals, self._stop = devices, ideals, shaped(stop, (1,))
        self._rows = (devices.accelerators + 1) * (devices.cpus + 1) * len(ideals)

    def plain(self, limit: float, offload: Floats) -> IdealSplit | None:
        """The best split whose loads are below ``limit``; None if there is none, or if stopped.

        ``offload``  shape (cpus + 1,): the most accelerator time of supported nodes that 0, 1, ... CPUs can take over
                     with loads below the limit
        """
        return self._split(lib.shard_split_dp, (), limit, offload, (), ())

    def shared(self, sharing: StageModel, limit: float, offload: Floats) -> IdealSplit | None:
        """The best split under a stage model; otherwise as `plain`."""
        replicas = np.ones(len(self._devices.size), dtype=np.int32)
        share = np.empty(self._rows if sharing.bandwidth else 0, dtype=np.int32)
        struct, _maker = self._sharing(sharing)
        found = self._split(lib.shard_stages_dp, (struct,), limit, offload, (array_out(share),), (array_out(replicas),))
        return None if found is None else dataclasses.replace(found, replicas=replicas)

    def clustered(self, sharing: StageModel, clusters: Clusters, limit: float, offload: Floats) -> IdealSplit | None:
        """The best split with a part of the chain per cluster, whose devices are numbered consecutively."""
        outer = np.empty(len(self._ideals) * (self._devices.cpus + 1) * (clusters.equal + 1) * 2)
        struct, _maker = self._sharing(sharing)
        given = struct, ffi.new("struct shard_clusters *", dataclasses.astuple(clusters))
        return self._split(lib.shard_clusters_dp, given, limit, offload, (array_out(outer),), ())

    def _sharing(self, sharing: StageModel) -> tuple[Any, Any]:
        overlap = getattr(lib, f"SHARD_OVERLAP_{sharing.overlap.upper()}")
        maker = array_in(shaped(sharing.maker, (len(self._devices.nets.cost),)))
        return ffi.new("struct shard_stage_model *", (maker, overlap, sharing.bandwidth)), maker

    def _split(
        self, kernel: Any, given: tuple[Any, ...], limit: float, offload: Floats, scratch: Any, more: Any
    ) -> IdealSplit | None:
        devices, ideals = self._devices, self._ideals
        best, cost, device = np.empty(self._rows), np.empty(1), np.empty(len(devices.size), np.int32)
        pairs, offload = ffi.new("int64_t *"), floats(offload, (devices.cpus + 1,))
        links = len(ideals), array_in(ideals.start), array_in(ideals.node), array_in(ideals.less)
        limits = limit, array_in(offload), array_in(self._stop)
        found = array_out(cost), array_out(device), *more, pairs
        check(kernel(self._struct, *given, *links, *limits, array_out(best), *scratch, *found))
        if not math.isfinite(cost[0]):
            return None
        return IdealSplit(float(cost[0]), device, np.ones_like(device))


@dataclass(frozen=True, eq=False)
class ScheduleProblem:
    """A scheduling problem along chains of ideals: nodes on CPUs and sets of nodes on accelerators.

    ``accelerators``      number, each with one set of whole units; -1: any number of sets, of any nodes
    ``memory``            of each accelerator, for the units of its set
    ``accelerator_time``  shape (n,): infinite if not supported; ``cpu_time``: infinite without CPUs
    ``tail``              shape (n,): least time from the start of a node to the end of all
    ``unit``              shape (n,), int32: the unit of each node; ``size``: shape (units,)
    ``transfer``          shape (tensors,): time to move each
    ``made``              shape (n + 1,), int64: node v makes the tensors ``made[v]`` to ``made[v + 1] - 1``
    ``reader_start``      shape (tensors + 1,), int64: the nodes ``reader[reader_start[t]:reader_start[t + 1]]``, int32,
                          read tensor t; no duplicates, and not its maker
    """

    accelerators: int
    memory: float
    accelerator_time: Floats
    cpu_time: Floats
    tail: Floats
    unit: Index
    size: Floats
    transfer: Floats
    made: Longs
    reader_start: Longs
    reader: Index


def schedule_dp(
    graph: Graph, tasks: ScheduleProblem, ideals: Ideals, limit: float, most: int, stop: Index
) -> tuple[float, Index]:
    """The least end of a schedule along a chain of ideals, and the set of each node, shape (n,), -1 on CPUs.

    The end is infinite if no schedule ends before ``limit``, NaN after ``stop``, shape (1,), int32. MemoryError beyond
    ``most`` bytes. See ``schedule_dp.h``.
    """
    owner = np.repeat(np.arange(len(tasks.transfer), dtype=np.int32), np.diff(tasks.reader_start))
    columns: list[NDArray[Any]] = [
        *(tasks.accelerator_time, tasks.cpu_time, tasks.tail, tasks.unit),
        np.bincount(tasks.unit, minlength=len(tasks.size)).astype(np.int32),
        *(tasks.size, tasks.transfer, tasks.made, *csr(graph.nodes, tasks.reader, owner)),
        *(tasks.reader_start, tasks.reader),
    ]
    edges = [array_in(column) for column in (*graph.out_csr, *graph.in_csr)]
    order = ffi.new("struct shard_dag *", (graph.nodes, *edges))
    scalars = len(tasks.transfer), len(tasks.size), tasks.accelerators, tasks.memory
    struct = ffi.new("struct shard_tasks *", (*scalars, *[array_in(column) for column in columns]))
    end, chosen = np.empty(1), np.full(graph.nodes, -1, dtype=np.int32)
    links = len(ideals), array_in(ideals.start), array_in(ideals.node), array_in(ideals.less)
    found = array_out(end), array_out(chosen)
    check(lib.shard_schedule_dp(order, struct, *links, limit, most, array_in(shaped(stop, (1,))), *found))
    return float(end[0]), chosen
