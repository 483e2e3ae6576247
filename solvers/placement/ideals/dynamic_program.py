"""The dynamic program over ideals of contracted graphs, within the time and memory of a run."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.graph import Index
from shardmark.instances.placement import Instance
from shardmark.instances.rounding import safely
from shardmark.solvers._ideals import IdealEnumerator, Ideals, MemoryBudget, listed
from shardmark.solvers.placement.ideals.contraction import Contracted
from shardmark.solvers.placement.ideals.linear_extension import in_pieces
from shardmark.solvers.placement.kernels.ideals import Clusters, IdealSplit, IdealSplitter, StageModel
from shardmark.solvers.placement.kernels.loads import Devices
from shardmark.solvers.registry import Declined

#: Share of the run's memory that the tables of the dynamic program may take.
MEMORY_SHARE = 0.6

#: Bytes per ideal, not counting its row.
IDEAL_BYTES = 24
#: Bytes per link.
LINK_BYTES = 16
#: The most ideals.
LARGEST = 2**31 - 2
#: Further bytes per entry of a row with replicated stages.
SHARE_BYTES = 4
#: Further bytes per pair of a number of clusters and a number of CPUs.
PART_BYTES = 40
#: Least number of pieces of a path per device.
PIECES = 4
#: First number of pieces of a path, and its growth, for a chain of ideals, which takes quadratic time.
CHAINED = (1000, 8)
#: The same for clusters, whose parts of a chain take time to the fourth power.
PARTED = (32, 2)
#: First number of devices of a kind for replicated stages, and its growth: time is quadratic in it.
BEGUN_WITH, MORE = 64, 8
#: The rounding error of a load is at most that of a sum with this many terms; see ``walk.h``.
DRIFT = 2048
#: Factor between successive limits on the load.
GROWTH = 1.5
#: Relative rounding error of limits.
ROUNDING = 1e-9


def require_chains(instance: Instance, name: str) -> None:
    """Decline options that chains of ideals do not cover."""
    if instance.objective != "throughput":
        raise Declined(f"{name} is for throughput")
    if instance.contiguity == "free":
        raise Declined(f"{name} finds contiguous sets, expected contiguity contiguous or acyclic, found free")
    if instance.schedule != "pipedream":
        raise Declined(f"{name} is for the schedule pipedream, found {instance.schedule}")


def fits(instance: Instance, device: Ints) -> bool:
    """True if a placement, shape (n,), fits the memory of the accelerators, without any tolerance."""
    order = np.argsort(device, kind="stable")
    order = order[device[order] < instance.accelerators]
    held = np.split(instance.size[order], np.flatnonzero(np.diff(device[order])) + 1)
    return all(math.fsum(sizes.tolist()) <= instance.capacity for sizes in held)


def rounding(instance: Instance) -> float:
    """Upper bound on the relative error of a sum of sizes and of the memory."""
    return (instance.nodes + 2) * 2.0**-52


@dataclass(frozen=True, eq=False)
class Placement:
    """A stage for each of some sets of nodes.

    ``cost``      the greatest load as the program summed it up
    ``device``    shape (n,), int64: the first device of the stage of each node of the instance
    ``replicas``  shape (n,), int32: number of devices of the stage, which have consecutive numbers
    """

    cost: float
    device: Ints
    replicas: Index

    @property
    def solution(self) -> Any:
        """The placement in the referee's format: a device per node, or a stage per node and the replicas per stage."""
        if self.replicas.max(initial=1) == 1:
            return self.device
        first, one, stage = np.unique(self.device, return_index=True, return_inverse=True)
        counts = self.replicas[one].tolist()
        devices = [list(range(d, d + count)) for d, count in zip(first.tolist(), counts, strict=True)]
        return {"stage": stage.reshape(-1).tolist(), "replicas": devices}


@dataclass(frozen=True, eq=False)
class IdealProgram:
    """The dynamic program for one way to contract an instance; ``stop`` as in `deadline`.

    Sums of sizes are rounded. If ``relaxed``, the memory is raised by their error, so that no fitting placement is
    missed; else it is lowered, so that every placement found fits. Stages with replicas use at most ``many`` devices
    per kind.
    """

    instance: Instance
    contracted: Contracted
    stop: Index
    relaxed: bool = False
    many: int = LARGEST

    @cached_property
    def devices(self) -> Devices:
        """Costs of the items on the instance's devices; more devices than items would stay idle."""
        items, most = self.contracted, self._most_devices
        off = rounding(self.instance)
        return Devices(
            accelerators=min(self.instance.accelerators, self.instance.cluster or most, most),
            cpus=min(self.instance.cpus, most),
            memory=self.instance.capacity * (1 + off if self.relaxed else 1 - off),
            accelerator_time=items.accelerator_time,
            cpu_time=items.cpu_time,
            size=items.size,
            nets=items.nets,
        )

    @property
    def _most_devices(self) -> int:
        """Number of devices of a kind, or of clusters, that can be useful."""
        return self.many if self.instance.allreduce else self.contracted.graph.nodes

    @cached_property
    def _clusters(self) -> Clusters:
        """Clusters of ``devices.accelerators``; more or larger ones would stay idle."""
        equal, rest = divmod(self.instance.accelerators, self._cluster)
        return Clusters(min(equal, self._most_devices), min(rest, self._most_devices), self.instance.slowdown)

    @property
    def _cluster(self) -> int:
        """Accelerators of a cluster of the instance."""
        return max(1, min(self.instance.cluster or LARGEST, self.instance.accelerators))

    def prefixes(self, memory: float) -> Ideals:
        """The ideals of the path through the items; Declined if they exceed ``memory`` MiB."""
        count = self.contracted.graph.nodes + 1
        if count * self._ideal_bytes > MEMORY_SHARE * memory * 2**20:
            devices = f"{self.devices.accelerators} accelerators and {self.devices.cpus} CPUs"
            raise Declined(f"a table of {count:,} prefixes for {devices} is too large for {memory:,.0f} MiB")
        return IdealEnumerator(self.contracted.path, np.zeros(1, dtype=np.int32)).list(count, count - 1)

    def cuts(self, memory: float, limit: float) -> Iterator[Placement]:
        """Yield ever better splits of the path through the items, up to the best unless stopped.

        Splits into few pieces or devices come first: their loads limit the search with more.
        """
        for program in self._programs():
            try:
                found = program.best(program.prefixes(memory), limit)
            except Declined as reason:
                if math.isinf(limit):
                    raise
                print(f"cut between pieces, or for few devices, only: {reason}", file=sys.stderr)
                return
            if found is not None:
                limit = found.cost
                yield found
            if self.stop[0]:
                return

    def _programs(self) -> Iterator[IdealProgram]:
        """Yield programs of few devices and pieces, then of all devices, with growing numbers of pieces up to all."""
        many, most = BEGUN_WITH, max(self.devices.accelerators, self.devices.cpus)
        while many < most and self.instance.allreduce:
            few = replace(self, many=many)
            yield few._cut(next(few._pieces()))
            many *= MORE
        yield from map(self._cut, self._pieces())

    def _cut(self, count: int | None) -> IdealProgram:
        return self if count is None else replace(self, contracted=in_pieces(self.contracted, count))

    def _pieces(self) -> Iterator[int | None]:
        """Yield numbers of pieces to cut the path into, ascending; None, the last one, stands for all items."""
        items, devices = self.contracted.graph.nodes, self.devices.accelerators + self.devices.cpus
        count, growth = PARTED if self.instance.cluster else CHAINED
        count = max(count, PIECES * devices)
        while count * growth < items:
            yield count
            count *= growth
        yield None

    @property
    def _ideal_bytes(self) -> int:
        """Bytes of an ideal with one link; only the empty one has fewer."""
        rows = self.devices.row_bytes
        if self.instance.allreduce:
            rows += SHARE_BYTES * (self.devices.accelerators + 1) * (self.devices.cpus + 1)
        if self.instance.cluster:
            rows += PART_BYTES * (self._clusters.equal + 1) * (self.devices.cpus + 1)
        return IDEAL_BYTES + rows + LINK_BYTES

    def ideals(self, memory: float) -> Ideals:
        """The ideals of the items' graph; Declined, with the number reached, if they exceed ``memory`` MiB."""
        room = MemoryBudget(memory, MEMORY_SHARE, self._ideal_bytes, LINK_BYTES)
        return listed(IdealEnumerator(self.contracted.graph, self.stop), self.stop, room, "dpl")

    def best(self, ideals: Ideals, limit: float) -> Placement | None:
        """The best split along a chain of the ideals if it costs less than ``limit``; None if not, or if stopped."""
        for upper in self._limits(limit):
            found = self._below(ideals, upper)
            if found is not None or self.stop[0]:
                return found
        return None

    def _limits(self, limit: float) -> Iterator[float]:
        """Yield the limit; if it is infinite, first rising finite ones, as limits far above the optimum take long."""
        most = self._most()
        step = max(self.instance.load_bound(), most * ROUNDING) * GROWTH
        while math.isinf(limit) and 0 < step < most:
            yield step
            step *= GROWTH
        yield limit

    def _below(self, ideals: Ideals, limit: float) -> Placement | None:
        split = self._split(IdealSplitter(self.devices, ideals, self.stop), limit)
        if split is None:
            return None
        return Placement(split.cost, self._device(split), split.replicas[self.contracted.item])

    def _split(self, splitter: IdealSplitter, limit: float) -> IdealSplit | None:
        instance, offload = self.instance, self._offload(limit)
        sharing = StageModel(self.contracted.maker, instance.overlap, instance.allreduce or 0.0)
        if instance.cluster:
            return splitter.clustered(sharing, self._clusters, limit, offload)
        if instance.overlap == "none" and not instance.allreduce:
            return splitter.plain(limit, offload)
        return splitter.shared(sharing, limit, offload)

    def _most(self) -> float:
        """Upper bound on every load."""
        time, sent = self.devices.accelerator_time, self.devices.nets.cost.sum() * self.instance.slowdown
        synchronising = self.devices.size.sum() / self.instance.allreduce if self.instance.allreduce else 0.0
        return float(time[np.isfinite(time)].sum() + self.devices.cpu_time.sum() + sent + synchronising)

    @property
    def relaxation(self) -> IdealProgram:
        """A program whose best load bounds that of any placement: all accelerators are in one cluster."""
        near = replace(self.instance, cluster=None, slowdown=1.0) if self.instance.cluster else self.instance
        return replace(self, instance=near, relaxed=True)

    def proved(self, load: float) -> float:
        """Turn the least load of the table into a safe bound."""
        return safely(load, self.instance.nodes + self.instance.edges + DRIFT)

    def _offload(self, limit: float) -> Floats:
        """Shape (cpus + 1,): the most accelerator time that 0, 1, ... CPUs can take over if items are divisible.

        Items are sorted by the ratio of CPU time to accelerator time, by logarithms, as ratios may exceed float64.
        """
        supported = np.isfinite(self.devices.accelerator_time)
        time, cpu_time = self.devices.accelerator_time[supported], self.devices.cpu_time[supported]
        with np.errstate(divide="ignore", invalid="ignore"):
            order = np.argsort(np.nan_to_num(np.log(cpu_time) - np.log(time)), kind="stable")
        taken, saved = (np.concatenate([[0.0], np.cumsum(column[order])]) for column in (cpu_time, time))
        offload = np.interp(min(limit, taken[-1]) * np.arange(self.devices.cpus + 1), taken, saved)
        offload[0] = 0.0
        return offload * (1 + ROUNDING)

    def _device(self, split: IdealSplit) -> Ints:
        """The instance's device of each node; CPUs come after all accelerators."""
        device, used = split.device.astype(np.int64), self.devices.accelerators
        if self.instance.cluster:
            rest = used * self._clusters.equal
            used = rest + self._clusters.rest
            cluster, number = np.divmod(device, max(1, self.devices.accelerators))
            whole = self.instance.accelerators // self._cluster * self._cluster
            accelerator = np.where(device < rest, cluster * self._cluster + number, device - rest + whole)
            device = np.where(device < used, accelerator, device - used + self.instance.accelerators)
        else:
            device[device >= used] += self.instance.accelerators - used
        return device[self.contracted.item]
