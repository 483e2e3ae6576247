"""The sets of devices that a plan can target: the instance of a model on each, and the best methods for it."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from shardmark.harness import verify
from shardmark.instances import InputError
from shardmark.instances.models.devices import Device, device
from shardmark.instances.models.devices import devices as devices_of_catalog
from shardmark.instances.models.model import Model
from shardmark.instances.models.roofline import Costs, roofline
from shardmark.instances.models.sharding.mesh import mesh_sizes
from shardmark.plans.parts import Part, in_order, parts_of
from shardmark.plans.solving import Step


@dataclass(frozen=True)
class Layout:
    """A solution in terms of the model: parts and operators.

    ``parts``    stages or devices with operators, in the order of data flow
    ``part_of``  for every operator its index in ``parts``
    ``specs``    on a mesh: its partition specs, see `shardmark.plans.partition_specs`; else None
    ``idle``     number of devices without operators
    """

    parts: Sequence[Part]
    part_of: Sequence[int]
    specs: Mapping[str, Any] | None = None
    idle: int = 0


@dataclass(frozen=True)
class Task:
    """A model on a set of devices: the instance to solve, and what a solution of it means.

    ``tidy`` replaces a solution by one that is no worse and says the same of the operators.
    """

    instance: Any
    divide: Callable[[Any], Layout]
    tidy: Callable[[Any], Any] = lambda solution: solution


@dataclass(frozen=True)
class Target(ABC):
    """A set of devices; the roofline of ``device`` gives the times of operators, unless they are measured.

    ``what``     name of the cost of a split; ``unit_us`` is its unit in microseconds
    ``kind``     name of a part of a split; ``about_loads`` describes its load
    ``steps``    the methods to run, in order
    """

    device: Device

    track: ClassVar[str]
    what: ClassVar[str]
    unit_us: ClassVar[float] = 1.0
    kind: ClassVar[str]
    about_loads: ClassVar[str] = "Transfers included; no split{which} has a bottleneck below the dashed line."
    steps: ClassVar[tuple[Step, ...]]

    @property
    @abstractmethod
    def devices(self) -> str:
        """The devices in words."""

    @property
    def basis(self) -> str:
        """The data, apart from operators' times, that determine the cost of a split."""
        return f"links and memory of {self.device.name}"

    @property
    def measurable(self) -> bool:
        """True if operators can be measured on this machine: they are undivided, on one kind of device."""
        return True

    @abstractmethod
    def task(self, model: Model, costs: Costs) -> Task:
        """The task of splitting a model over these devices."""


@dataclass(frozen=True)
class Pipeline(Target):
    """A pipeline of equal devices, with one stage each."""

    stages: int

    track = "pipeline"
    what = "bottleneck"
    kind = "stage"
    steps = (
        Step("reweighted", "bound", 0.2),
        Step("annealing", "solver", 0.2),
        Step("borders", "bound", 0.2),  # mostly ends within a second
        Step("exact", "bound", 1.0),
    )

    @property
    def devices(self) -> str:
        return f"{self.stages} × {self.device.name}"

    def task(self, model: Model, costs: Costs) -> Task:
        """An instance of ``pipeline``; parts are stages, first to last."""
        from shardmark.instances.models.as_pipeline import as_pipeline, with_helpers

        instance = as_pipeline(model, costs, self.device, _useful(self.stages, model))
        edges = list(zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), strict=True))
        count = len(model.operators)

        def tidy(solution: Any) -> Any:
            split = solution["block"] if isinstance(solution, dict) else solution
            return with_helpers(instance, split[:count]).tolist()

        def divide(solution: Any) -> Layout:
            found = verify.parts(instance, solution)
            if found is None:
                raise AssertionError("expected a solution that was verified")
            costs_of = dict(zip(sorted(set(solution)), found.loads, strict=True))
            order = in_order(solution, edges)
            stage = {number: index for index, number in enumerate(order)}
            part_of = [stage[number] for number in solution[:count]]
            names = [f"stage {index}" for index in range(len(order))]
            times = (1e6 * costs.seconds).tolist()
            parts = parts_of(model, part_of, names, times, [costs_of[number] for number in order])
            return Layout(parts, part_of, idle=self.stages - len(order))

        return Task(instance, divide, tidy)


@dataclass(frozen=True)
class MeshOfDevices(Target):
    """Equal devices in a grid, which compute every operator together."""

    mesh: str

    track = "intraop"
    what = "step time"
    unit_us = 1e-3
    kind = "mesh"
    steps = (Step("cfn-native", "solver", 1.0),)

    @property
    def devices(self) -> str:
        return f"mesh {self.mesh} of {self.device.name}"

    @property
    def measurable(self) -> bool:
        return False

    def task(self, model: Model, costs: Costs) -> Task:
        """An instance of ``intraop``; there is one part, which holds every operator."""
        from shardmark.instances.models.as_intraop import as_intraop
        from shardmark.plans.partition_specs import partition_specs

        sharding = as_intraop(model, self.device, self.mesh)

        def divide(solution: Any) -> Layout:
            part_of = [0] * len(model.operators)
            load = self.unit_us * float(verify.verify(sharding.instance, solution).cost or 0)
            parts = parts_of(model, part_of, [self.mesh], (1e6 * costs.seconds).tolist(), [load])
            return Layout(parts, part_of, partition_specs(sharding, solution))

        return Task(sharding.instance, divide)


@dataclass(frozen=True)
class AcceleratorsAndCpus(Target):
    """Equal accelerators and CPUs, each with a contiguous part of the model."""

    accelerators: int
    cpu: Device
    cpus: int

    track = "placement"
    what = "max-load"
    kind = "device"
    steps = (
        Step("ip-contiguous", "solver", 0.6),  # begins with what `dp` and `search` find
        Step("search", "solver", 0.7),
        Step("lp", "bound", 1.0),
    )

    @property
    def devices(self) -> str:
        cpus = f" and {self.cpus} × {self.cpu.name}" if self.cpus else ""
        return f"{self.accelerators} × {self.device.name}{cpus}"

    @property
    def basis(self) -> str:
        cpus = f"on CPUs, roofline of {self.cpu.name}; " if self.cpus else ""
        return f"{cpus}{super().basis}"

    @property
    def measurable(self) -> bool:
        return not self.cpus

    def task(self, model: Model, costs: Costs) -> Task:
        """An instance of ``placement``; parts are devices, in the order of the data's flow if it has one."""
        from shardmark.instances.models.as_placement import as_placement

        on_cpu = roofline(model, self.cpu)
        accelerators, cpus = _useful(self.accelerators, model), _useful(self.cpus, model)
        instance = as_placement(model, costs, on_cpu, self.device, accelerators, cpus)

        def divide(solution: Any) -> Layout:
            found = verify.parts(instance, solution)
            if found is None:
                raise AssertionError("expected a solution that was verified")
            of = list(found.of)[: len(model.operators)]
            order = in_order(of, list(model.edges()))
            place = {device: index for index, device in enumerate(order)}
            times = [
                1e6 * (on_cpu if found.on_cpus[device] else costs).seconds[index] for index, device in enumerate(of)
            ]
            part_of = [place[device] for device in of]
            names, loads = [found.names[device] for device in order], [found.loads[device] for device in order]
            parts = parts_of(model, part_of, names, times, loads)
            return Layout(parts, part_of, idle=self.accelerators + self.cpus - len(order))

        return Task(instance, divide)


@dataclass(frozen=True)
class Machine(Target):
    """Unequal devices and links, on which the operators of one sample are scheduled.

    A speed of 1 stands for ``device``, so that a device of speed 2 takes half as long.
    """

    path: Path

    track = "scheduling"
    what = "makespan"
    kind = "device"
    steps = (Step("search", "solver", 0.6), Step("energetic", "bound", 0.5), Step("cp-sat", "solver", 1.0))

    @property
    def devices(self) -> str:
        return f"{self.path.name} (speed 1: {self.device.name})"

    @property
    def basis(self) -> str:
        return f"speeds, links and memory of {self.path.name}"

    def task(self, model: Model, costs: Costs) -> Task:
        """An instance of ``scheduling``; parts are devices, whose load is the time that they compute."""
        from shardmark.instances.models.as_scheduling import as_scheduling

        instance = as_scheduling(model, costs, self.path)

        def divide(solution: Any) -> Layout:
            found = verify.times(instance, solution)
            if found is None:
                raise AssertionError("expected a schedule that was verified")
            used = in_order(list(found.device), list(model.edges()))
            place = {device: index for index, device in enumerate(used)}
            part_of = [place[device] for device in found.device]
            times = [end - begin for begin, end in zip(found.start, found.finish, strict=True)]
            loads = [0.0] * len(used)
            for part, time in zip(part_of, times, strict=True):
                loads[part] += time
            names = [instance.device_names[device] for device in used]
            parts = parts_of(model, part_of, names, times, loads)
            return Layout(parts, part_of, idle=len(instance.device_names) - len(used))

        return Task(instance, divide)


def _useful(devices: int, model: Model) -> int:
    """Upper limit on the number of devices with operators; in every reasonable plan the others are idle."""
    return min(devices, len(model.operators))


#: Device of a plan that names none.
DEVICE = "h100"
#: CPUs that a plan means by "cpu", the only ones of the catalog.
CPU = "epyc-9654"
#: A number of devices as a text.
DIGITS = "[0-9]{1,10}"


def target_of(
    devices: int | str | None,
    kind: str | os.PathLike[str],
    mesh: str | Sequence[int] | None,
    machine: str | os.PathLike[str] | None,
) -> Target:
    """Return the devices that a user names in exactly one of several ways; else raise InputError.

    Of two kinds the second one stands for CPUs, which have memory for everything.
    """
    ways = [name for name, value in (("devices", devices), ("mesh", mesh), ("machine", machine)) if value is not None]
    if len(ways) != 1:
        found = " and ".join(ways) or "none: --devices 4 (devices=4 in Python) is a pipeline of four"
        raise InputError("plan", "", f"expected one of devices, mesh and machine, found {found}")
    if mesh is not None:
        parts = mesh if isinstance(mesh, Iterable) and not isinstance(mesh, str) else [mesh]
        sizes = "x".join(map(str, parts))
        mesh_sizes(sizes, "plan")  # bad ones are refused before the model is read
        return MeshOfDevices(device(kind), sizes)
    if machine is not None:
        return Machine(device(kind), Path(machine))
    if not isinstance(devices, int | str):
        raise InputError("plan", "devices", f"expected a number or a text such as 'h100:6,cpu:2', found {devices!r}")
    text = str(devices)
    if re.fullmatch(DIGITS, text) and 0 < int(text) < 2**31:
        return Pipeline(device(kind), int(text))
    kinds = [_counted(part) for part in text.split(",")]
    if len(kinds) > 2:
        expected = "expected one kind of accelerators and one of CPUs; a machine file can have any devices"
        raise InputError("plan", "devices", f"{expected}, found {text!r}")
    if os.fspath(kind) != DEVICE:
        raise InputError(
            "plan", "device", f"expected no device if the kinds of devices are given, found {os.fspath(kind)!r}"
        )
    (accelerator, accelerators), (cpu, cpus) = kinds[0], kinds[1] if len(kinds) > 1 else (CPU, 0)
    if accelerator == CPU or (cpu != CPU and cpu in devices_of_catalog()):
        expected = "expected accelerators and then CPUs, such as h100:6,cpu:2; a machine file can have any devices"
        raise InputError("plan", "devices", f"{expected}, found {text!r}")
    return AcceleratorsAndCpus(device(accelerator), accelerators, device(cpu), cpus)


def _counted(text: str) -> tuple[str, int]:
    """A kind of device and how many there are; InputError for another text."""
    name, _, count = text.rpartition(":")
    if not name or not re.fullmatch(DIGITS, count) or not 0 < int(count) < 2**31:
        expected = "expected a number from 1, or kinds with their numbers such as h100:6,cpu:2"
        raise InputError("plan", "devices", f"{expected}, found {text!r}")
    return CPU if name == "cpu" else name, int(count)
