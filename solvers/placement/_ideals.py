"""The dynamic program over ideals on contracted graphs: within the time and memory of a run."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from instances.columns import Floats, Ints
from instances.graph import Index
from instances.placement import OPTIONS, Instance
from solvers.native import Devices, Ideals, IdealsCore, IdealSplit, split_ideals
from solvers.placement._contracted import Contracted
from solvers.registry import Declined, Run

#: Share of the run's memory that the tables of the dynamic program may take.
MEMORY_SHARE = 0.6

#: Bytes for an ideal beside its row, and for each of its links; there are ideals up to this number.
IDEAL_BYTES, LINK_BYTES, LARGEST = 24, 16, 2**31 - 2

#: What the limits grow by until one is met, and how much they may be off by rounding.
GROWTH, ROUNDING = 1.5, 1e-9


def require_plain(instance: Instance, name: str) -> None:
    """Decline what chains of ideals do not cover."""
    if instance.objective != "throughput":
        raise Declined(f"{name} is for throughput")
    if instance.contiguity == "free":
        raise Declined(f"{name} finds splits of contiguous sets, expected contiguity acyclic")
    for option in sorted(OPTIONS.keys() - {"objective", "contiguity"}):
        usual, found = OPTIONS[option].default, getattr(instance, option)
        if found != usual:
            raise Declined(f"{name} is for {option} {usual or 'none'}, found {found}")


def fits(instance: Instance, device: Ints) -> bool:
    """Whether a placement, shape (n,), fits the memory of the accelerators, to the last bit."""
    order = np.argsort(device, kind="stable")
    order = order[device[order] < instance.accelerators]
    held = np.split(instance.size[order], np.flatnonzero(np.diff(device[order])) + 1)
    return all(math.fsum(sizes.tolist()) <= instance.capacity for sizes in held)


def rounding(instance: Instance) -> float:
    """What a sum of sizes, and the memory, may be off by, relative to them."""
    return (instance.nodes + 2) * 2.0**-52


@contextmanager
def deadline(run: Run, share: float = 1.0) -> Iterator[Index]:
    """A flag, shape (1,), int32, that becomes 1 when the run is to end, or after a share of the time that is left."""
    stop = np.zeros(1, dtype=np.int32)
    timer = threading.Timer(share * run.remaining(), stop.fill, (1,))
    timer.start()
    try:
        yield stop
    finally:
        timer.cancel()
        timer.join()


@dataclass(frozen=True)
class Placement:
    """``cost``, the greatest load as the program summed it up, and the ``device`` of each node of the instance."""

    cost: float
    device: Ints


@dataclass(frozen=True, eq=False)
class IdealProgram:
    """The dynamic program for one way to contract an instance; ``stop`` as in `deadline`.

    Sums of sizes are rounded. If ``relaxed``, the memory is greater by as much as they may be off: then no placement
    that fits is missed; else it is less, and every placement found fits.
    """

    instance: Instance
    contracted: Contracted
    stop: Index
    relaxed: bool = False

    @cached_property
    def devices(self) -> Devices:
        """What the items cost on the instance's devices; more devices than items would stay idle."""
        items = self.contracted
        off = rounding(self.instance)
        return Devices(
            accelerators=min(self.instance.accelerators, items.graph.nodes),
            cpus=min(self.instance.cpus, items.graph.nodes),
            memory=self.instance.capacity * (1 + off if self.relaxed else 1 - off),
            accelerator_time=items.accelerator_time,
            cpu_time=items.cpu_time,
            size=items.size,
            nets=items.nets,
        )

    def prefixes(self, memory: float) -> Ideals:
        """The ideals of the path through the items, within so many MiB, else Declined."""
        count = self.contracted.graph.nodes + 1
        if count * self._ideal_bytes > MEMORY_SHARE * memory * 2**20:
            devices = f"{self.devices.accelerators} accelerators and {self.devices.cpus} CPUs"
            raise Declined(f"a table of {count:,} prefixes for {devices} is too large for {memory:,.0f} MiB")
        return IdealsCore(self.contracted.path, np.zeros(1, dtype=np.int32)).list(count, count - 1)

    @property
    def _ideal_bytes(self) -> int:
        return IDEAL_BYTES + self.devices.row_bytes + LINK_BYTES  # of one link, and none but the empty has fewer

    def ideals(self, memory: float) -> Ideals:
        """The ideals of the items' graph, within so many MiB; else Declined, with the number reached."""
        room, core = MEMORY_SHARE * memory * 2**20, IdealsCore(self.contracted.graph, self.stop)
        most = min(LARGEST, int(room / self._ideal_bytes))
        count, links = core.count(most, int(room / LINK_BYTES))
        if count > most or self._ideal_bytes * count + LINK_BYTES * (links - count) > room:
            raise Declined(
                f"the graph has more than {count:,} ideals, too many for {memory:,.0f} MiB; dpl takes any graph"
            )
        ideals = None if self.stop[0] else core.list(count, links)
        if ideals is None or len(ideals) < count:
            raise Declined(f"the graph has {count:,} ideals or more, too many for the time; dpl takes any graph")
        return ideals

    def best(self, ideals: Ideals, limit: float) -> Placement | None:
        """The best split into a chain of the ideals, if it costs less than ``limit``; None also if stopped."""
        for upper in self._limits(limit):
            found = self._below(ideals, upper)
            if found is not None or self.stop[0]:
                return found
        return None

    def _limits(self, limit: float) -> Iterator[float]:
        """An infinite limit in steps, as what is far above the optimum takes long."""
        most = self._most()
        step = max(self.instance.load_bound(), most * ROUNDING) * GROWTH
        while math.isinf(limit) and step < most:
            yield step
            step *= GROWTH
        yield limit

    def _below(self, ideals: Ideals, limit: float) -> Placement | None:
        split = split_ideals(self.devices, ideals, limit, self._relief(limit), self.stop)
        return None if split is None else Placement(split.cost, self._device(split))

    def _most(self) -> float:
        """No load is greater."""
        time = self.devices.accelerator_time
        return float(time[np.isfinite(time)].sum() + self.devices.cpu_time.sum() + self.devices.nets.cost.sum())

    @property
    def rounding(self) -> float:
        """What a load can be off by: one rounding for each time that a node or a net joins or leaves it."""
        operations = self.contracted.graph.nodes + 2 * len(self.devices.nets.of)
        return operations * 2.0**-52 * self._most()

    def _relief(self, limit: float) -> Floats:
        """The accelerator time that so many CPUs can take over at most: items, and a part of one, by what they save."""
        supported = np.isfinite(self.devices.accelerator_time)
        time, cpu_time = self.devices.accelerator_time[supported], self.devices.cpu_time[supported]
        with np.errstate(divide="ignore", invalid="ignore"):
            order = np.argsort(-np.nan_to_num(time / cpu_time, nan=0.0), kind="stable")
        taken, saved = (np.concatenate([[0.0], np.cumsum(column[order])]) for column in (cpu_time, time))
        relief = np.interp(min(limit, taken[-1]) * np.arange(self.devices.cpus + 1), taken, saved)
        relief[0] = 0.0
        return relief * (1 + ROUNDING)

    def _device(self, split: IdealSplit) -> Ints:
        """The instance's device of each node: its CPUs come after all of its accelerators."""
        idle = self.instance.accelerators - self.devices.accelerators
        device = split.device.astype(np.int64)
        device[device >= self.devices.accelerators] += idle
        return device[self.contracted.item]
