"""Models as instances of track ``pipeline``: operators to be cut into stages for equal devices.

Times are in microseconds, sizes in bytes, the bandwidth in bytes per microsecond. Node i is operator i; after the
operators come the helpers of operators that write several tensors (`shardmark.instances.split_multi_output`). The cost
of a split of the operators is that with every helper in the stage of its operator (`with_helpers`); no other stages of
the helpers are cheaper.

Sending a tensor takes the link's latency plus bytes / bandwidth. The track has no latency, so the output size of a node
includes the bytes that the link carries in that time.

A parameter counts in full at every operator that reads it, because operators in different stages need a copy each. If
several of its readers are in one stage, that stage's parameters are overestimated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shardmark.instances import pipeline
from shardmark.instances.errors import InputError
from shardmark.instances.files.columns import Ints
from shardmark.instances.models.devices import Device
from shardmark.instances.models.model import Model
from shardmark.instances.models.roofline import Costs
from shardmark.instances.split_multi_output import Operation, Tensor, one_tensor_each

MICROSECONDS = 1e6  # in a second


def as_pipeline(model: Model, costs: Costs, device: Device, stages: int, *, limited: bool = True) -> pipeline.Instance:
    """Build the instance of splitting a model into at most as many stages as devices, with the least bottleneck.

    Unless ``limited`` is False, a stage has the device's memory, and parameters that exceed it are read over the link.
    If all tensors and parameters fit into one device, the instance has no limit.

    Raises InputError if the parameters do not fit the devices.
    """
    if limited:
        refuse_lack_of_memory(model, device, stages)
    document = _document(_operations(model, costs, device), device, limited=limited)
    return pipeline.parse({"name": model.name, **document}, model.name, stages)


def _document(operations: Sequence[Operation], device: Device, *, limited: bool) -> dict[str, Any]:
    """The track's file format without a name; the caller keeps no operations, so that they are freed before parsing."""
    return {
        "format": pipeline.FORMAT,
        "bandwidth": device.link_bandwidth / MICROSECONDS,
        "memory": device.memory if limited and _needed(operations) > device.memory else None,
        **one_tensor_each(operations),
    }


def with_helpers(instance: pipeline.Instance, stage: Sequence[int]) -> Ints:
    """Extend a split of the operators, shape (operators,), to all nodes: each helper joins its operator's stage."""
    split = np.empty(instance.nodes, dtype=np.int64)
    split[: len(stage)] = stage
    helper = instance.graph.head >= len(stage)
    split[instance.graph.head[helper]] = split[instance.graph.tail[helper]]
    return split


def refuse_lack_of_memory(model: Model, device: Device, devices: int) -> None:
    """Raise InputError if the devices cannot hold the model's parameters, or one device those of an operator."""
    total, room = model.parameter_bytes(), devices * device.memory
    if total > room:
        number = "1 device" if devices == 1 else f"{devices} devices"
        expected = f"expected at most {room:.0f} bytes, the memory of {number} like {device.name}"
        raise InputError(model.name, "parameters", f"{expected}, found {total}: {total - room:.0f} too many")
    for index, operator in enumerate(model.operators):
        size = sum(model.tensors[tensor].bytes for tensor in model.parameters(index))
        if size > device.memory:
            expected = f"expected parameters of at most {device.memory:.0f} bytes, the memory of {device.name}"
            place = f"operator {operator.name!r}"
            raise InputError(model.name, place, f"{expected}, found {size}: {size - device.memory:.0f} too many")


def _operations(model: Model, costs: Costs, device: Device) -> list[Operation]:
    readers = model.readers()
    in_flight = device.link_latency * device.link_bandwidth
    return [
        Operation(
            operator.name,
            seconds * MICROSECONDS,
            sum(model.tensors[tensor].bytes for tensor in model.parameters(index)),
            [
                Tensor(
                    model.tensors[access.tensor].name,
                    model.tensors[access.tensor].bytes + in_flight,
                    readers[access.tensor],
                )
                for access in operator.writes
            ],
        )
        for index, (operator, seconds) in enumerate(zip(model.operators, costs.seconds.tolist(), strict=True))
    ]


def _needed(operations: Sequence[Operation]) -> float:
    """Upper bound on the memory of one stage that holds all; a tensor of a helper counts twice."""
    return sum(operation.params + 2 * sum(tensor.size for tensor in operation.tensors) for operation in operations)
