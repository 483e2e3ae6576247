"""Models as instances of track ``scheduling``: operators to be run on unequal devices, one at a time on each.

A machine gives each device a speed, each link a bandwidth, and possibly each device a memory. Vertex i is operator i.
Its complexity is its time in microseconds on the device that ``costs`` are for, so that a speed of 1 means that
device; without ``costs`` it is the operator's FLOPs, so that speeds are FLOPs per microsecond. The size of an edge is
the bytes of all tensors that its head reads from its tail: bandwidths are bytes per microsecond.

In a training step, operators that read a parameter that the step replaces are colocated, unless it is a single number.
The track's memories hold tensors between operators. Parameters are not included; they are only checked to fit in total.
"""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

from shardmark.instances import scheduling
from shardmark.instances.errors import InputError
from shardmark.instances.importers._machines import Machine, machine_in
from shardmark.instances.models.as_placement import MICROSECONDS, classes, state_readers
from shardmark.instances.models.model import Model
from shardmark.instances.models.roofline import Costs


def as_scheduling(model: Model, costs: Costs | None, machine: Machine | str | os.PathLike[str]) -> scheduling.Instance:
    """Build the instance of scheduling a model on a machine, which is given or in a JSON file.

    A machine has the keys ``devices`` and ``bandwidth`` of a scheduling document. Raises InputError for a bad machine,
    and for parameters that exceed the memory of all devices.
    """
    given = machine_in(Path(machine)) if isinstance(machine, str | os.PathLike) else machine
    instance = scheduling.parse(
        {
            "format": scheduling.FORMAT,
            "name": model.name,
            "nodes": {
                "name": [operator.name for operator in model.operators],
                "complexity": _complexity(model, costs),
                "colocation": [
                    group if group >= 0 else None for group in classes(model, state_readers(model)).tolist()
                ],
            },
            "edges": [[tail, head, size] for (tail, head), size in _sent(model).items()],
            "devices": given["devices"],
            "bandwidth": given["bandwidth"],
        },
        model.name,
    )
    _refuse_lack_of_memory(model, instance)
    return instance


def _complexity(model: Model, costs: Costs | None) -> list[float]:
    if costs is None:
        return [float(operator.flops) for operator in model.operators]
    return [seconds * MICROSECONDS for seconds in costs.seconds.tolist()]


def _sent(model: Model) -> dict[tuple[int, int], float]:
    """Bytes of the tensors that each operator sends to each other one."""
    sent: dict[tuple[int, int], float] = defaultdict(float)
    for tensor, readers in zip(model.tensors, model.readers(), strict=True):
        if tensor.producer is not None:
            for reader in readers:
                sent[tensor.producer, reader] += tensor.bytes
    return sent


def _refuse_lack_of_memory(model: Model, instance: scheduling.Instance) -> None:
    room, total = float(instance.memory.sum()), model.parameter_bytes()
    if total > room:
        expected = f"expected at most {room:.0f} bytes, the memory of all devices"
        raise InputError(model.name, "parameters", f"{expected}, found {total}: {total - room:.0f} too many")
