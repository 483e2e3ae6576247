"""Track ``hybrid``: stages, replicas, tensor parallelism and recomputation chosen together (Piper, NeurIPS 2021)."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from shardmark.instances.errors import InputError
from shardmark.instances.evaluator import Evaluator
from shardmark.instances.files import hybrid as files
from shardmark.instances.files.columns import (
    LARGEST_TOTAL,
    Floats,
    Ints,
    describe,
    frozen,
    plain_number,
    require_int,
    require_number,
)
from shardmark.instances.files.hybrid import Workload, recognises, refuse_too_large
from shardmark.instances.files.records import get
from shardmark.instances.options import Option, read_options, refuse_other_choices
from shardmark.instances.rounding import safely

__all__ = ["OPTIONS", "Instance", "parse", "recognises", "refuse_too_large", "to_document"]

OPTIONS: Mapping[str, Option] = {
    "devices": Option(int, "number of devices (default: the file's maxDevices)"),
    "memory": Option(float, "bytes of memory per device (default: the file's maxMemoryPerDevice)"),
    "batch": Option(int, "microbatches per batch (default: the file's mbsInBatch)"),
    "bandwidth": Option(float, "bytes per second of a device's link (default: the file's bandwidth)"),
    "objective": Option(
        str,
        "minimise the time per microbatch of the slowest stage, or the time of one synchronous batch under 1F1B",
        "throughput",
        ("throughput", "step"),
        "{}",
    ),
}

#: Options that stand at the top of a file, by its keys.
TOP = {
    "devices": "maxDevices",
    "memory": "maxMemoryPerDevice",
    "bandwidth": "bandwidth",
    "batch": "mbsInBatch",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Instance(Evaluator, Workload):
    """A `files.hybrid.Workload`, the devices to train it on, and the objective.

    ``devices``      K >= 1: the replicas of all stages have at most so many devices
    ``memory``       M, bytes per device
    ``batch``        N >= 1, microbatches per batch; the data-parallel degree of every stage divides it
    ``bandwidth``    B > 0, bytes per second that a device sends and receives
    ``objective``    "throughput": the time per microbatch of the slowest stage; "step": the time of one batch
    ``machine``      devices per machine, the largest tensor-parallel degree; None: no machines
    ``inside``       bytes per second within a machine; None exactly if ``machine`` is. A stage of several machines
                     reduces with the ``bandwidth`` of all its replicas in one of them, and at most this
    """

    track: ClassVar[str] = "hybrid"

    devices: int
    memory: float
    batch: int
    bandwidth: float
    objective: str = "throughput"
    machine: int | None = None
    inside: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_other_choices(self, OPTIONS, self.source)
        for place, count in (("devices", self.devices), ("batch", self.batch), ("machine", self.machine)):
            if count is not None and not 1 <= count < files.LARGEST:
                expected = f"expected 1 to {files.LARGEST - 1}, found {describe(count)}"
                raise InputError(self.source, self._place(place), expected)
        if not 0 <= self.memory <= LARGEST_TOTAL:
            expected = f"expected a number from 0 to {LARGEST_TOTAL:.10g}, found {self.memory}"
            raise InputError(self.source, self._place("memory"), expected)
        for place, speed in (("bandwidth", self.bandwidth), ("inside", self.inside)):
            if speed is not None and not 0 < speed < np.inf:
                raise InputError(self.source, self._place(place), f"expected a positive number, found {speed}")
        if (self.machine is None) != (self.inside is None):
            missing, other = ("inside", "machine") if self.inside is None else ("machine", "inside")
            expected = f"expected a number, as there is {self._place(other)}, found none"
            raise InputError(self.source, self._place(missing), expected)
        self._refuse_infinite_sums()
        self._refuse_large_degrees()
        self._refuse_lack_of_memory()

    def _place(self, name: str) -> str:
        """The key of a number in the file."""
        return {**TOP, "machine": "devicesPerMachine", "inside": "bandwidthInside"}[name]

    def _refuse_infinite_sums(self) -> None:
        """Raise InputError if a sum may overflow: no time or size exceeds that of all configurations together."""
        slowest = min(self.bandwidth, self.inside or self.bandwidth)
        with np.errstate(over="ignore"):
            moved = 2 * (self.sync.sum() + self.communicated[self.incident[1]].sum() * self._largest_menu())
            moved += 4 * self.parameters.sum() + self.gathered.sum()
            time = self.time.sum() + moved / slowest
            size = self.stashed.sum() * self.batch + self.fixed.sum() + self.shared.sum()
            total = max((time * self.batch * 2 + moved) * self.devices, size)
        if not total <= LARGEST_TOTAL:
            raise InputError(self.source, "nodes", "expected numbers whose sums are finite")

    def _largest_menu(self) -> int:
        return int(np.diff(self.start).max())

    def _refuse_large_degrees(self) -> None:
        """Raise InputError if a node has only degrees above the number of devices, of a machine if there are any."""
        least = self.degree[self.start[:-1]]
        limit, key = min((count, self._place(name)) for name, count in self._limits().items())
        for v in np.flatnonzero(least > limit)[:1]:
            expected = f"expected a degree of at most {limit}, the {key}, found at least {least[v]}"
            raise InputError(self.source, f"nodes[{v}].TMPCs", expected)

    def _limits(self) -> dict[str, int]:
        return {"devices": self.devices, **({} if self.machine is None else {"machine": self.machine})}

    def _refuse_lack_of_memory(self) -> None:
        """Raise InputError if a node needs more memory than a device has, alone in the last stage."""
        need = np.minimum.reduceat(self.least_memory, self.start[:-1])
        for v in np.flatnonzero(need > self.room)[:1]:
            c = int(self.start[v] + np.argmin(self.least_memory[self.start[v] : self.start[v + 1]]))
            name = "" if self.node_names[v] == str(self.ids[v]) else f" ({self.node_names[v]})"
            expected = (
                f"expected at least {need[v]:.17g} bytes, which node {self.ids[v]}{name} needs alone in a stage "
                f"with its configuration {self.kinds[self.kind[c]]!r} of degree {self.degree[c]}"
            )
            found = f"found {self.memory:.17g}, {need[v] - self.memory:.17g} too few"
            raise InputError(self.source, self._place("memory"), f"{expected}, {found}")

    @property
    def capacity(self) -> float:
        """Largest exact sum of bytes that fits a device: the memory plus a billionth of it.

        Floating-point sums may be some bits off. A bound must therefore allow sums up to ``room``.
        """
        return min(self.memory * (1 + 1e-9), sys.float_info.max)

    @property
    def room(self) -> float:
        """Largest floating-point sum of bytes that may fit: the capacity plus rounding errors."""
        return min(self.capacity * (1 + (4 * self.nodes + 8) * 2.0**-52), sys.float_info.max)

    def speed(self, data: int, tensor: int) -> float:
        """Bytes per second with which each replica of a stage with these degrees gathers and reduces.

        In a stage of several machines, all replicas of a machine send at once.
        """
        if self.machine is None or self.inside is None:
            return self.bandwidth
        if data * tensor <= self.machine:
            return self.inside
        return min(self.bandwidth * max(self.machine // tensor, 1), self.inside)

    @cached_property
    def replicas(self) -> Ints:
        """The data-parallel degrees that exist, ascending: divisors of the batch, at most the number of devices."""
        most = min(self.devices, self.batch)
        small = np.arange(1, min(most, int(self.batch**0.5) + 1) + 1)
        small = small[self.batch % small == 0]
        found = np.unique(np.concatenate([small, self.batch // small]))
        return frozen(found[found <= most])

    @cached_property
    def most_replicas(self) -> Ints:
        """Greatest data-parallel degree of a stage with each configuration, shape (c,); 0: degree too large."""
        limit = min(self._limits().values())
        at = np.searchsorted(self.replicas, self.devices // self.degree, side="right")
        most = np.append(0, self.replicas)[at]
        return frozen(np.where(self.degree > limit, 0, most))

    @cached_property
    def least_memory(self) -> Floats:
        """Least bytes per device of a stage that has each configuration, shape (c,): one microbatch in flight.

        Infinite if the degree is too large.
        """
        most = np.maximum(self.most_replicas, 1)
        need = self.stashed + self.fixed + self.shared / most
        return frozen(np.where(self.most_replicas > 0, need, np.inf))

    def summary(self) -> dict[str, Any]:
        """Facts for ``shardmark info`` and the leaderboard."""
        outdegree = np.diff(self.graph.out_csr[0])
        least = np.minimum.reduceat(np.where(self.most_replicas > 0, self.time * self.degree, np.inf), self.start[:-1])
        return {
            "track": self.track,
            "name": self.name,
            **{name: getattr(self, name) for name in OPTIONS},
            "devices_per_machine": self.machine,
            "bandwidth_inside": self.inside,
            "nodes": self.nodes,
            "edges": self.edges,
            "configurations": self.configurations,
            "degrees": np.unique(self.degree).tolist(),
            "largest_menu": self._largest_menu(),
            "largest_outdegree": int(outdegree.max(initial=0)),
            "sources": int((np.diff(self.graph.in_csr[0]) == 0).sum()),
            "sinks": int((outdegree == 0).sum()),
            "least_device_seconds": float(least.sum()),
            "largest_least_memory": float(np.minimum.reduceat(self.least_memory, self.start[:-1]).max()),
            "total_communicated": float(self.communicated.sum()),
            "simple_bound": self.simple_bound(),
        }

    def simple_bound(self) -> float:
        """Lower bound: least device-seconds over devices, or the slowest node with its best degrees; rounded down.

        A stage with degrees d and t and times p occupies d t devices, so its time per microbatch times d t is at least
        the sum of t p. A batch takes at least the batch times that, and at least one microbatch through all nodes.
        """
        can = (self.least_memory <= self.room) & (self.most_replicas > 0)
        microbatches = self.batch if self.objective == "step" else 1
        work, fastest, alone = (
            np.minimum.reduceat(np.where(can, column, np.inf), self.start[:-1])
            for column in (
                self.time * self.degree,
                self.time,
                self.time * microbatches / np.maximum(self.most_replicas, 1),
            )
        )
        bound = max(float(work.sum()) * microbatches / self.devices, float(alone.max()))
        if self.objective == "step":
            bound = max(bound, float(fastest.sum()))
        return safely(bound, self.nodes)


def parse(document: Any, source: str, **given: Any) -> Instance:
    """Build an instance from Piper's JSON; options that are ``given`` override the numbers in the file.

    A file may carry the objective under a key of ours, ``options``, which the paper's program ignores.
    """
    fields = files.read(document, source)
    machine, inside = (document.get(key) for key in ("devicesPerMachine", "bandwidthInside"))
    return Instance(
        **fields,
        **{name: _number(name, document, given, source) for name in TOP},
        **read_options(document, given, {"objective": OPTIONS["objective"]}, source),
        machine=None if machine is None else require_int(machine, source, "devicesPerMachine"),
        inside=None if inside is None else require_number(inside, source, "bandwidthInside"),
    )


def _number(name: str, document: Any, given: dict[str, Any], source: str) -> Any:
    """The number that an option gives, which is taken out, or else the file."""
    convert = {int: require_int, float: require_number}[OPTIONS[name].kind]
    if name in given:
        return convert(given.pop(name), source, f"option {name}")
    return convert(get(document, TOP[name], source, ""), source, TOP[name])


def to_document(instance: Instance) -> dict[str, Any]:
    """Piper's JSON of an instance, with our keys only if they say something."""
    inside = {} if instance.inside is None else {"bandwidthInside": plain_number(instance.inside)}
    return {
        "name": instance.name,
        **({"options": {"objective": "step"}} if instance.objective == "step" else {}),
        **{key: plain_number(float(getattr(instance, name))) for name, key in TOP.items()},
        **({} if instance.machine is None else {"devicesPerMachine": instance.machine, **inside}),
        **files.document(instance),
    }
